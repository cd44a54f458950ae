"""What a schedule costs before anything is trained: the round loop without a trainer, summed up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadewise import statistics
from fadewise.ledger import Costs, Ledger
from fadewise.rounds import Experiment, play_all
from fadewise.statistics import BATCHES, Estimate

NEAR = 1.05
"""Average power counts as having met its limit when it is within 5% of it: it comes down from above."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The costs of a schedule. Each is a mean per round with its 95% interval (see `statistics`).

    mean_power, worst_power: transmit power averaged over devices, and of the device that spends most.
    settled_round: the first round from which the running average of power, over its limit and averaged
        over devices and seeds, stays within 5% of the limit; None if that has not come.
    power_slack: by which share of the limit average power is under it at the end (negative: over it).
    energy: per round; joules where the link is in watts.
    running_power: that running average of power over its limit, after each round.
    """

    devices: int
    rounds: int
    seeds: tuple[int, ...]
    in_watts: bool
    mean_participants: Estimate
    airtime_s: Estimate
    round_time_s: Estimate
    mean_power: Estimate
    worst_power: Estimate
    power_slack: Estimate
    energy: Estimate
    objective: Estimate
    variance_factor: Estimate
    fallback_rate: Estimate
    excluded_share: Estimate
    settled_round: int | None
    running_power: NDArray[np.float64]

    def as_dict(self) -> dict[str, Any]:
        """For programs: every estimate as `name` and `name_ci`, None for what is not a finite number."""
        result: dict[str, Any] = {"devices": self.devices, "rounds": self.rounds, "seeds": list(self.seeds)}
        for name, value in vars(self).items():
            if isinstance(value, Estimate):
                key = f"{name}_j" if name == "energy" and self.in_watts else name
                finite = np.isfinite([value.value, *(value.ci or ())]).all()
                result[key] = value.value if np.isfinite(value.value) else None
                result[f"{key}_ci"] = list(value.ci) if value.ci is not None and finite else None
        if not self.in_watts:
            del result["energy"], result["energy_ci"]
        return result | {"settled_round": self.settled_round}


def plan(
    experiment: Experiment,
    seeds: Sequence[int] | None = None,
    on_round: Callable[[], object] = lambda: None,
) -> Plan:
    """Plays an experiment's rounds under each seed (by default its own) and says what they cost.

    What is too large for floating point is infinite.
    """
    with np.errstate(over="ignore"):
        return _plan(experiment, (experiment.seed,) if seeds is None else tuple(seeds), on_round)


def _plan(experiment: Experiment, seeds: tuple[int, ...], on_round: Callable[[], object]) -> Plan:
    series = np.empty((len(Costs._fields), len(seeds), experiment.rounds))
    worst = _WorstDevice(experiment, len(seeds))
    for row, seed in enumerate(seeds):
        ledger = Ledger(experiment.policy, experiment.access)
        for played in play_all(experiment, seed):
            series[:, row, played.number] = ledger.enter(played)
            worst.after(played.number, ledger.spent)
            on_round()
    by_name = dict(zip(Costs._fields, series, strict=True))
    means = {name: statistics.of_rounds(values) for name, values in by_name.items()}
    running = np.cumsum(by_name["power_ratio"].mean(axis=0)) / np.arange(1, experiment.rounds + 1)
    return Plan(
        devices=experiment.devices,
        rounds=experiment.rounds,
        seeds=seeds,
        in_watts=experiment.policy.link.in_watts,
        mean_participants=means["participants"],
        airtime_s=means["airtime_s"],
        round_time_s=means["round_time_s"],
        mean_power=means["power"],
        worst_power=worst.estimate(),
        power_slack=statistics.of_rounds(1 - by_name["power_ratio"]),
        energy=means["energy"],
        objective=means["objective"],
        variance_factor=means["variance_factor"],
        fallback_rate=means["fallback"],
        excluded_share=means["excluded_share"],
        settled_round=settled_round(running),
        running_power=running,
    )


def settled_round(running: NDArray[np.float64]) -> int | None:
    """The first round from which the running average stays within 5% of its limit."""
    over = np.flatnonzero(running > NEAR)
    first = int(over[-1]) + 1 if len(over) else 0
    return first if first < len(running) else None


class _WorstDevice:
    """The mean power of the device that spends most, its interval over seeds or over batches of rounds.

    Keeps sums and sums of squares of each device's batch means, not the batches.
    """

    def __init__(self, experiment: Experiment, seeds: int) -> None:
        batches = BATCHES if seeds == 1 and experiment.rounds >= 2 * BATCHES else 1
        edges = np.array([len(batch) for batch in np.array_split(np.arange(experiment.rounds), batches)])
        self._ends = {int(end) - 1: int(length) for end, length in zip(np.cumsum(edges), edges, strict=True)}
        self._samples = batches * seeds
        self._before, self._sum, self._squares = np.zeros((3, experiment.devices))

    def after(self, round: int, spent: NDArray[np.float64]) -> None:
        """To be told after every round what each device has spent since its seed began."""
        if round not in self._ends:
            return
        sample = (spent - self._before) / self._ends[round]
        self._sum += sample
        self._squares += sample**2
        self._before = np.zeros_like(spent) if round == max(self._ends) else spent.copy()

    def estimate(self) -> Estimate:
        device = int(self._sum.argmax())
        mean = float(self._sum[device]) / self._samples
        if self._samples < 2:
            return Estimate(mean, None)
        variance = max(float(self._squares[device]) / self._samples - mean**2, 0.0) / (self._samples - 1)
        half = statistics.t_quantile(self._samples - 1) * variance**0.5
        return Estimate(mean, (mean - half, mean + half))
