"""By which rules a server plays: who decides how, what is refused, how loss is made up for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from fadewise import checks
from fadewise.errors import FadewiseError
from fadewise.flower.answers import refuse_warm_start, settings_of
from fadewise.policies import LocalPolicy
from fadewise.randomness import LARGEST_SEED
from fadewise.rounds import Experiment
from fadewise.sampling import Fallback, Poisson


@dataclass(frozen=True, eq=False)
class Rules:
    """The settings of the server's side.

    policy: by which the devices decide, for all of the population; N is the enrolled devices, not those
        that answer.
    seed: the run's. Every device has it, and its coins come from it.
    fallback: what happens when nobody volunteers, as in `fw.Poisson`.
    server_step_size: what the aggregated update is multiplied with.
    delivery_intervals: over how many intervals between a device's deliveries its loss is estimated, which
        its weight then makes up for. 0 leaves that out: the update is then biased against lossy devices.
    floor: the least π·ρ that a weight divides by, with ρ the probability of delivery. It bounds every
        device's weight to w/floor; what it cuts off is recorded as `cut_share`.
    least_probability: a device that says it takes part with less is refused.
    largest_norm_ratio: an update is refused if its norm is so many times the median of the last that were not.
    audit: whether devices must tell their gain and backlog, and every decision is made again from those.
    """

    policy: LocalPolicy[Any]
    seed: int = 0
    fallback: Fallback = "corrected"
    server_step_size: float = 1.0
    delivery_intervals: int = 20
    floor: float = 0.0
    least_probability: float = 1e-6
    largest_norm_ratio: float = 100.0
    audit: bool = False

    def __post_init__(self) -> None:
        checks.instance("policy", self.policy, LocalPolicy, "fw.Lyapunov(link, population=100, airtime_weight=100)")
        refuse_warm_start(self.policy)
        self.policy.init(self.policy.population)  # refuses settings for another number of devices
        checks.whole("seed", self.seed, least=0, most=LARGEST_SEED)
        checks.instance("audit", self.audit, bool, "audit=True")
        Poisson(self.fallback)
        checks.number("server_step_size", self.server_step_size, above=0)
        checks.whole("delivery_intervals", self.delivery_intervals, least=0, most=10_000)
        checks.number("floor", self.floor, least=0, most=1)
        checks.number("least_probability", self.least_probability, least=0, most=1)
        checks.number("largest_norm_ratio", self.largest_norm_ratio, above=1)

    @classmethod
    def of(cls, experiment: Experiment, **settings: Any) -> Rules:
        """The rules by which an experiment that the simulator can run is run on devices."""
        policy, sampling = experiment.policy, experiment.sampling
        if not isinstance(policy, LocalPolicy):
            raise FadewiseError(f"policy {policy.kind} sees every device's channel; on devices it must be a local one")
        if not isinstance(sampling, Poisson):
            raise FadewiseError(f"sampling {sampling.kind} draws for all devices at once; on devices it is poisson")
        if not experiment.access.adds_up:
            raise FadewiseError(
                f"access {experiment.access.kind} shares the band among those who send, and a device knows of itself "
                "alone; on devices it is tdma"
            )
        if experiment.training is not None:
            settings = {"server_step_size": experiment.training.server_step_size} | settings
        return cls(policy, experiment.seed, fallback=sampling.fallback, **settings)

    @property
    def devices(self) -> int:
        """N, how many devices are enrolled."""
        return self.policy.population

    def table(self) -> dict[str, Any]:
        """These rules as settings to write down and compare."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("policy", "seed")}
        agreed: dict[str, Any] = json.loads(settings_of(self.policy, self.seed))
        # Devices need not agree on what each has for itself; a server that is started again must.
        link = self.policy.link
        each = {"peak_power": link.peak_power, "mean_power": link.mean_power, "shares": self.policy.shares}
        return agreed | own | {name: np.asarray(value).tolist() for name, value in each.items()}
