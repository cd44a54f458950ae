"""The paper's policy: drift plus penalty, decided by each device alone."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.checks import PerDevice
from fadewise.errors import SettingError
from fadewise.link import Link
from fadewise.minimiser import BLOCK, Minimiser, Scratch
from fadewise.policies.base import LONGEST_WARM_START, Feedback, LocalPolicy
from fadewise.sampling import Decision


class Backlog(NamedTuple):
    """The virtual queue Z of each device: by how much it has overdrawn its mean power so far."""

    backlog: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Lyapunov(LocalPolicy[Backlog]):
    """Takes part when the channel is good and the power budget allows (Algorithm 2 of Perazzone et al.).

    Choose it when airtime is what a round costs and devices have a budget of average power. It needs
    no channel statistics: each round, each device minimises V·y0 + Z·(P·q - P̄) from its own gain and
    its own backlog Z, then updates Z ← max(Z + P·q - P̄, 0). Also known as drift-plus-penalty.

    airtime_weight: λ, what a second on the air costs in the objective y0 = Σ N·w²/q + λ·q·ℓ/C.
    penalty_weight: V, the objective's weight against the backlog: larger is nearer to the optimum
        but slower to meet the mean power.
    variant: "exact" takes the true minimiser; "published" the paper's formula (see docs/mathematics.md).
    data_shares: w_n, one a device, adding up to 1; without them every device counts 1/N, as in the paper.
    warm_start_rounds: start the backlog where it would settle, from that many rounds of channel;
        from zero, the first rounds overspend (1.3·P̄ over 300 rounds in the paper's network).
    """

    kind: ClassVar[str] = "lyapunov"
    keeps_mean_power: ClassVar[bool] = True

    link: Link
    population: int
    airtime_weight: float
    penalty_weight: float = 1000.0
    variant: Literal["exact", "published"] = "exact"
    data_shares: PerDevice | None = None
    warm_start_rounds: int = 0

    def __post_init__(self) -> None:
        checks.instance("link", self.link, Link, "fw.Link(bandwidth_hz=22e6, payload_bits=1e6)")
        checks.whole("population", self.population, least=1)
        checks.positive("airtime_weight", self.airtime_weight)
        checks.positive("penalty_weight", self.penalty_weight)
        checks.choice("variant", self.variant, ("exact", "published"))
        checks.whole("warm_start_rounds", self.warm_start_rounds, least=0, most=LONGEST_WARM_START)
        if self.data_shares is not None:
            checks.per_device("data_shares", self.data_shares, above=0, most=1)
            shares = checks.positive_per_device("data_shares", self.data_shares)
            # A device alone knows its own share only; of another length, `init` refuses them.
            if not isinstance(shares, np.ndarray) or len(shares) == self.population:
                total = float(np.broadcast_to(shares, self.population).sum())
                if abs(total - 1) > 1e-6:
                    raise SettingError("data_shares", f"add up to {total:.6g}; they must add up to 1")
            object.__setattr__(self, "data_shares", shares)

    @property
    def shares(self) -> PerDevice:
        return 1 / self.population if self.data_shares is None else self.data_shares

    def init(self, devices: int) -> Backlog:
        self.link.sized(devices)
        checks.sized("data_shares", self.shares, devices)
        return Backlog(np.zeros(checks.whole("devices", devices, least=1)))

    def decide(self, state: Backlog, gains: NDArray[np.float64]) -> tuple[Decision, Backlog]:
        devices = len(state.backlog)
        gains = checks.gains(gains, devices)
        # One allocation, not three: the C library then keeps the memory from call to call, which at a million
        # devices spares a quarter of the time.
        probability, power, backlog = np.empty((3, devices))
        scratch = Scratch.of(min(devices, BLOCK))
        with np.errstate(all="ignore"):  # a backlog or a gain of 0 divides by zero; the minimiser knows
            for first in range(0, devices, BLOCK):
                block = slice(first, min(first + BLOCK, devices))
                g, z, q, p, z_next = (x[block] for x in (gains, state.backlog, probability, power, backlog))
                self._minimiser.solve(g, z, block, q, p, z_next, scratch)
                # Z ← max(Z + P·q - P̄, 0)
                np.multiply(p, q, out=z_next)
                np.add(z_next, z, out=z_next)
                np.subtract(z_next, checks.part(self.link.mean_power, block), out=z_next)
                np.maximum(z_next, 0.0, out=z_next)
        return Decision(probability, power, self.shares), Backlog(backlog)

    def observe(self, state: Backlog, feedback: Feedback) -> Backlog:
        """A device that was asked without having volunteered spends P more than the P·q it counted."""
        asked, draw = feedback.draw.asked, feedback.draw
        if not len(asked):
            return state
        backlog = state.backlog.copy()
        backlog[asked] += draw.power[np.searchsorted(draw.devices, asked)]
        return Backlog(backlog)

    def warm_started(self, state: Backlog, gains: NDArray[np.float64]) -> Backlog:
        """The backlog at which each device's P·q averages P̄ over the given gains, by bisection of ln Z."""
        devices = len(state.backlog)
        lowest, high = self._bracket(gains)
        low = lowest.copy()
        for _ in range(24):
            middle = (low + high) / 2
            spent = np.zeros(devices)
            for row in gains:
                decision, _ = self.decide(Backlog(np.exp(middle)), row)
                spent += decision.power * decision.probability
            too_loud = spent > self.link.mean_power * len(gains)
            low, high = np.where(too_loud, middle, low), np.where(too_loud, high, middle)
        return Backlog(np.where(low > lowest, np.exp(low), 0.0))

    def _bracket(self, gains: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Between which ln Z each device's P·q over these gains has come down from its most to at most P̄.

        P is the root at Z = A·N0·.../(x·(ln x)²) with x = 1 + aP. Far below the Z at which it is Pmax for any of the
        gains, neither P nor q depends on Z; from that on at which it is P̄ for all of them, P·q ≤ P̄.
        """
        scale = math.log(self._minimiser.a_factor)
        lowest, highest = np.full(len(gains[0]), np.inf), np.full(len(gains[0]), -np.inf)
        for row in gains:
            on = row > 0
            for power in (self.link.peak_power, self.link.mean_power):
                u = np.log1p(np.minimum(row / self.link.noise_power * power, np.finfo(np.float64).max))
                log_z = scale + np.log(row, where=on, out=np.zeros(len(row))) - u
                log_z -= 2 * np.log(np.maximum(u, np.finfo(np.float64).tiny))
                lowest = np.where(on, np.minimum(lowest, log_z), lowest)
                highest = np.where(on, np.maximum(highest, log_z), highest)
        if self.variant == "published":
            # Where its q would exceed 1 it sends at Pmax, unless Z·Pmax is large beside V·κ; then Pmax·q ≤ P̄.
            curvature = np.log(self.population) + 2 * np.log(self.shares)
            at_peak = math.log(self.penalty_weight) + curvature + np.log(self.link.peak_power)
            highest = np.maximum(highest, at_peak - 2 * np.log(self.link.mean_power))
        seen = lowest < np.inf
        # 20 below: by then Z·P is nothing beside the airtime's cost, which it equals at most where P is Pmax.
        return np.where(seen, lowest - 20, 0.0), np.where(seen, highest, 0.0)

    @functools.cached_property
    def _minimiser(self) -> Minimiser:
        curvature = self.population * np.square(self.shares)  # κ = N·w², 1/N for equal shares
        return Minimiser(self.link, self.airtime_weight, self.penalty_weight, curvature, self.variant == "published")
