"""What a schedule costs: airtime, power and sampling variance, round by round and device by device."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.access import Access
from fadewise.minimiser import BLOCK
from fadewise.policies import Policy
from fadewise.rounds import Round

Array = NDArray[np.float64]


class Costs(NamedTuple):
    """One round's costs.

    Where the inclusion probabilities π are known, participants and power are expectations over
    the draw given the round's decisions, and so are airtime and energy where airtimes add up: the draw's
    own noise does not enter. The fallback is included in all of them.

    power: Σ P·π/N, the transmit power averaged over devices.
    power_ratio: the same with each device's power over its own limit, P·π/P̄.
    energy: Σ π·P·airtime, in joules if the link is in watts; where airtimes do not add up, of those who sent.
    objective: the paper's y0 = Σ [1/(N·q) + λ·q·ℓ/C] (Σ [N·w²/q + ...] for shares w); NaN without a λ.
    variance_factor: the mean of 1/π over reachable devices; NaN for a biased draw.

    A device that can be reached and yet has no chance makes these two infinite. In a round in which nobody can
    be reached there is nothing to estimate: they are NaN, and averages over rounds leave that round out.
    """

    participants: float
    airtime_s: float
    round_time_s: float
    power: float
    power_ratio: float
    energy: float
    objective: float
    variance_factor: float
    fallback: float
    excluded_share: float


class Ledger:
    """Adds up what each device has spent, and states the costs of every round that is entered."""

    def __init__(self, policy: Policy[Any], access: Access) -> None:
        self.spent = np.zeros(policy.population)
        """Each device's transmit power, expected over the draw and summed over the rounds so far."""
        self._link = policy.link
        self._access = access
        self._airtime_weight: float = getattr(policy, "airtime_weight", None) or math.nan
        self._curvature = policy.population * np.square(policy.shares)
        self._seconds = self._link.payload_bits * math.log(2) / self._link.bandwidth_hz  # airtime = seconds/ln(1 + aP)
        self._scratch = np.empty((3, min(policy.population, BLOCK)))

    def enter(self, round: Round) -> Costs:
        """The round's costs."""
        draw, decision = round.draw, round.decision
        biased = draw.population_inclusion is None
        if draw.population_inclusion is None:
            inclusion = np.zeros(len(self.spent))
            inclusion[draw.devices] = 1.0
        else:
            inclusion = draw.population_inclusion
        total = np.zeros(len(_Sums._fields))
        for first in range(0, len(self.spent), BLOCK):
            block = slice(first, first + BLOCK)
            total += self._sums(
                block, round.gains[block], decision.probability[block], decision.power[block], inclusion[block]
            )
        sums = _Sums(*total.tolist())
        # What is estimated is the sum over reachable devices: without any there is no estimate to judge.
        estimated = 1.0 if sums.reachable else math.nan
        airtime_s, round_time_s, upload_s = round.times
        energy = float(np.add.reduce(draw.power * upload_s))
        if self._access.adds_up and not biased:
            # The draw's luck in this round: by how much what is on the air is more than expected.
            luck_s = airtime_s - sums.airtime_s
            airtime_s, round_time_s = airtime_s - luck_s, round_time_s - luck_s
            energy = sums.energy
        return Costs(
            participants=sums.inclusion,
            airtime_s=airtime_s,
            round_time_s=round_time_s,
            power=sums.power / len(self.spent),
            power_ratio=sums.power_ratio / len(self.spent),
            energy=energy,
            objective=estimated * (sums.curvature_over_q + self._airtime_weight * sums.wanted_airtime_s),
            variance_factor=math.nan if biased else estimated * sums.one_over_inclusion / max(sums.reachable, 1),
            fallback=float(draw.fallback),
            excluded_share=round.excluded_share,
        )

    def _sums(self, block: slice, gains: Array, q: Array, power: Array, inclusion: Array) -> tuple[float, ...]:
        """The sums over a block of devices, and the block's part of what has been spent."""
        link = self._link
        reachable, endless_q, endless_inclusion = len(q), 0.0, 0.0
        if not q.min() > 0:
            # Without those that cannot take part: they have no airtime, and spend nothing. If one of them could
            # be reached, nothing that is estimated can hold its part: 1/q and 1/π are infinite.
            in_reach = gains > 0
            reachable = int(np.count_nonzero(in_reach))
            endless_q = math.inf if (in_reach & (q == 0)).any() else 0.0
            endless_inclusion = math.inf if (in_reach & (inclusion == 0)).any() else 0.0
            some = np.flatnonzero((q > 0) | (inclusion > 0))
            spent = power * inclusion
            self.spent[block] += spent
            gains, q, power, inclusion = gains[some], q[some], power[some], inclusion[some]
            mean_power = checks.part(checks.part(link.mean_power, block), some)
            curvature = checks.part(checks.part(self._curvature, block), some)
            spent = spent[some]
            airtime, t = self._scratch[:2, : len(some)]
        else:
            airtime, t, spent = self._scratch[:, :reachable]
            np.multiply(power, inclusion, out=spent)
            np.add(self.spent[block], spent, out=self.spent[block])
            mean_power, curvature = checks.part(link.mean_power, block), checks.part(self._curvature, block)
        np.multiply(gains, power, out=airtime)
        np.multiply(airtime, 1 / link.noise_power, out=airtime)
        np.log1p(airtime, out=airtime)
        np.divide(self._seconds, airtime, out=airtime)
        with np.errstate(divide="ignore"):  # a biased draw leaves most devices at 0, and uses no 1/π
            one_over_inclusion = _sum(np.divide(1.0, inclusion, out=t)) + endless_inclusion
            curvature_over_q = _sum(np.divide(curvature, q, out=t)) + endless_q
        return (
            _sum(inclusion),
            _sum(np.multiply(q, airtime, out=t)),
            _sum(np.multiply(inclusion, airtime, out=t)),
            _sum(spent),
            _sum(np.divide(spent, mean_power, out=t)),
            _sum(np.multiply(spent, airtime, out=t)),
            curvature_over_q,
            one_over_inclusion,
            reachable,
        )


def _sum(values: Array) -> float:
    """Σ, always in the same order; BLAS, which is no faster here, may take another on another machine."""
    return float(np.add.reduce(values))


class _Sums(NamedTuple):
    inclusion: float
    wanted_airtime_s: float
    airtime_s: float
    power: float
    power_ratio: float
    energy: float
    curvature_over_q: float
    one_over_inclusion: float
    reachable: float
