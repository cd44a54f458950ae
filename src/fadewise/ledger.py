"""What a schedule costs: airtime, power and sampling variance, round by round and device by device."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.access import Access
from fadewise.link import Link
from fadewise.minimiser import BLOCK
from fadewise.policies import Policy
from fadewise.rounds import Round

Array = NDArray[np.float64]


class Costs(NamedTuple):
    """One round's costs.

    Where the inclusion probabilities π are known, participants, power and energy are expectations over
    the draw given the round's decisions, and so is airtime where airtimes add up: the draw's own noise
    does not enter. The fallback is included in all of them.

    power: Σ P·π/N, the transmit power averaged over devices.
    power_ratio: the same with each device's power over its own limit, P·π/P̄.
    energy: Σ π·P·airtime, in joules if the link is in watts.
    objective: the paper's y0 = Σ [1/(N·q) + λ·q·ℓ/C] (Σ [N·w²/q + ...] for shares w); NaN without a λ.
    variance_factor: the mean of 1/π over reachable devices; NaN for a biased draw.
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
        self._scratch = np.empty((3, min(policy.population, BLOCK)))

    def enter(self, round: Round) -> Costs:
        """The round's costs."""
        draw, q = round.draw, round.decision.probability
        inclusion = draw.population_inclusion
        if inclusion is None:
            inclusion = np.zeros(len(q))
            inclusion[draw.devices] = 1.0
        sums = self._sums(round.gains, q, round.decision.power, inclusion)
        devices, link = len(q), self._link
        airtime_s, round_time_s = round.times
        if self._access.adds_up and draw.population_inclusion is not None:
            # The draw's luck in this round: as much longer or shorter than expected as its airtimes are.
            luck_s = float(np.sum(link.airtime_s(round.gains[draw.devices], draw.power))) - sums.airtime_s
            airtime_s, round_time_s = airtime_s - luck_s, round_time_s - luck_s
        return Costs(
            participants=sums.inclusion,
            airtime_s=airtime_s,
            round_time_s=round_time_s,
            power=sums.power / devices,
            power_ratio=sums.power_ratio / devices,
            energy=sums.energy,
            objective=sums.curvature_over_q + self._airtime_weight * sums.wanted_airtime_s,
            variance_factor=math.nan if draw.inclusion is None else sums.one_over_inclusion / max(sums.reachable, 1),
            fallback=float(draw.fallback),
            excluded_share=round.excluded_share,
        )

    def _sums(self, gains: Array, q: Array, power: Array, inclusion: Array) -> _Sums:
        """Sums over devices, a cache-sized block at a time."""
        link, total = self._link, np.zeros(len(_Sums._fields))
        for first in range(0, len(q), BLOCK):
            block = slice(first, min(first + BLOCK, len(q)))
            total += self._block_sums(
                link, block, gains[block], q[block], power[block], inclusion[block], inclusion is q
            )
        return _Sums(*total.tolist())

    def _block_sums(
        self, link: Link, block: slice, gains: Array, q: Array, power: Array, inclusion: Array, as_wanted: bool
    ) -> tuple[float, ...]:
        airtime, spent, t = self._scratch[:, : len(q)]
        reachable: Array | None = None
        if not q.min() > 0:
            # A device that cannot take part (q = 0) has no airtime and no 1/q.
            reachable = (q > 0).astype(np.float64)
        np.multiply(gains, power, out=airtime)
        np.multiply(airtime, 1 / link.noise_power, out=airtime)
        np.log1p(airtime, out=airtime)
        if reachable is not None:
            airtime[reachable == 0] = np.inf
        np.divide(link.payload_bits * math.log(2) / link.bandwidth_hz, airtime, out=airtime)
        wanted_airtime = _dot(q, airtime, t)
        expected_airtime = wanted_airtime if as_wanted else _dot(inclusion, airtime, t)
        np.multiply(power, inclusion, out=spent)
        np.add(self.spent[block], spent, out=self.spent[block])
        mean_power = checks.part(link.mean_power, block)
        power_sum = float(np.add.reduce(spent))
        power_ratio = (
            float(np.add.reduce(spent / mean_power)) if isinstance(mean_power, np.ndarray) else (power_sum / mean_power)
        )
        curvature = checks.part(self._curvature, block)
        curvature_over_q = self._sum_over(curvature, q, reachable, t)
        if as_wanted and not isinstance(curvature, np.ndarray):
            one_over_inclusion = curvature_over_q / curvature
        else:
            one_over_inclusion = self._sum_over(1.0, inclusion, reachable, t)
        return (
            float(np.add.reduce(inclusion)),
            wanted_airtime,
            expected_airtime,
            power_sum,
            power_ratio,
            _dot(spent, airtime, t),
            curvature_over_q,
            one_over_inclusion,
            len(q) if reachable is None else float(np.add.reduce(reachable)),
        )

    @staticmethod
    def _sum_over(numerator: checks.PerDevice, q: Array, reachable: Array | None, t: Array) -> float:
        """Σ numerator/q over the devices that can take part."""
        if reachable is None:
            np.divide(numerator, q, out=t)
        else:
            t[:] = 0.0
            np.divide(numerator, q, out=t, where=(reachable > 0) & (q > 0))
        return float(np.add.reduce(t))


def _dot(x: Array, y: Array, t: Array) -> float:
    """Σ x·y, always added up in the same order; BLAS may take another on another machine."""
    np.multiply(x, y, out=t)
    return float(np.add.reduce(t))


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
