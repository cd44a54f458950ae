"""The baseline: participants drawn uniformly, blind to the channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.errors import NotAllowed
from fadewise.link import Link
from fadewise.policies.base import CentralPolicy, LocalPolicy, Policy
from fadewise.randomness import Stream
from fadewise.sampling import Decision, Draw, Sampling, drawn, simple_random
from fadewise.state import NoState


@dataclass(frozen=True, eq=False)
class _Blind(Policy[NoState]):
    """The settings that both policies have."""

    link: Link
    population: int
    participants: float
    cap_power: bool = True
    airtime_weight: float | None = None

    def __post_init__(self) -> None:
        checks.instance("link", self.link, Link, "fw.Link(bandwidth_hz=22e6, payload_bits=1e6)")
        checks.whole("population", self.population, least=1)
        if not checks.positive("participants", self.participants) <= self.population:
            raise NotAllowed("participants", self.participants, f"at most the number of devices, {self.population}")
        if self.airtime_weight is not None:
            checks.positive("airtime_weight", self.airtime_weight)

    def init(self, devices: int) -> NoState:
        self.link.sized(devices)
        return NoState()


@dataclass(frozen=True, eq=False)
class Uniform(_Blind, CentralPolicy[NoState]):
    """M devices drawn without replacement, all alike: FedAvg's choice and the paper's baseline.

    Choose it as the yardstick. A fractional M is met on average by ⌊M⌋ or ⌈M⌉ devices a round, M′; each
    sends at P = P̄/π, π = M′/N (the paper's P̄·N/M′), which spends P̄ in that round. Of unreachable devices
    none is drawn, and N counts the reachable ones. A device spends nothing while it is unreachable, nor in the
    rounds without participants that M < 1 has, and never makes up for it: on average it spends less than P̄
    (half of it where devices are on half of the time). A policy with a queue spends the whole of it all the same:
    where devices come and go, or for M < 1, the two are not compared at the same power.

    participants: M.
    cap_power: whether P obeys the peak limit; the paper's baseline does not (185 > 100 in one setting).
    airtime_weight: λ, only for reporting the paper's objective beside that of other policies.
    """

    kind: ClassVar[str] = "uniform"
    keeps_mean_power: ClassVar[bool] = True

    def select(
        self, state: NoState, gains: NDArray[np.float64], stream: Stream, sampling: Sampling
    ) -> tuple[Decision, Draw, NoState]:
        gains = checks.gains(gains, self.population)
        reachable = reachable_devices(gains)
        floor = int(self.participants)
        size = floor + int(stream.uniforms("size", 1)[0] < self.participants - floor)
        size = min(size, len(reachable))
        inclusion = np.zeros(len(gains))
        inclusion[reachable] = size / max(len(reachable), 1)
        decision = Decision(inclusion, spent_evenly(self.link, inclusion, self.cap_power), self.shares)
        words = stream.uniforms("draw", len(gains))[reachable]
        return decision, drawn(decision, simple_random(reachable, size, words), inclusion), state


@dataclass(frozen=True, eq=False)
class UniformPoisson(_Blind, LocalPolicy[NoState]):
    """Every device takes part with probability M/N, independently, blind to the channel.

    Choose it beside `uniform` and a channel-aware policy to tell what knowing the channel buys apart
    from what the manner of drawing does. Settings as in `uniform`. Spends P·q = P̄ while it is reachable and the
    peak allows, and nothing while it is not. A device that has to be asked because nobody volunteered spends
    more, which nothing here makes up for: in the paper's network a third more for M = 1, 7% for M = 2.
    """

    kind: ClassVar[str] = "uniform-poisson"
    keeps_mean_power: ClassVar[bool] = False

    def decide(self, state: NoState, gains: NDArray[np.float64]) -> tuple[Decision, NoState]:
        gains = checks.gains(gains, len(gains))
        reachable_devices(gains)
        probability = np.where(gains > 0, self.participants / self.population, 0.0)
        return Decision(probability, spent_evenly(self.link, probability, self.cap_power), self.shares), state


def spent_evenly(link: Link, probability: NDArray[np.float64], cap: bool) -> NDArray[np.float64]:
    """The power P̄/q that spends the mean power on average, at most the peak power if so wished."""
    power = np.zeros(len(probability))
    np.divide(link.mean_power, probability, out=power, where=probability > 0)
    return np.minimum(power, link.peak_power) if cap else power


def reachable_devices(gains: NDArray[np.float64]) -> NDArray[np.int64]:
    """The devices with a gain above 0; a gain that is none is refused."""
    if not (gains.min() >= 0 and gains.max() < np.inf):
        raise checks.bad_gain(gains)
    return np.flatnonzero(gains)
