"""What a schedule costs before anything is trained: the round loop without a trainer, summed up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadewise import checks, memory, statistics
from fadewise.errors import NotAllowed
from fadewise.ledger import Costs, Ledger
from fadewise.randomness import LARGEST_SEED
from fadewise.rounds import Experiment, play_all
from fadewise.statistics import Estimate

Array = NDArray[np.float64]

NEAR = 1.05
"""Average power counts as having met its limit when it is within 5% of it: it comes down from above."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The costs of a schedule. Each is a mean per round with its interval (see `statistics`).

    mean_power: transmit power averaged over devices.
    worst_power, worst_power_ratio: that of the device that spends most of its limit, and the same over its limit.
    variance_factor, objective: infinite if a device could be reached and had no chance in some round; rounds in
        which nobody could be reached are left out.
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
    worst_power_ratio: Estimate
    power_slack: Estimate
    energy: Estimate
    objective: Estimate
    variance_factor: Estimate
    fallback_rate: Estimate
    excluded_share: Estimate
    settled_round: int | None
    running_power: Array

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
    listed = (experiment.seed,) if seeds is None else checked_seeds(seeds)
    check_memory(experiment, len(listed))
    with np.errstate(over="ignore"):
        return _plan(experiment, listed, on_round)


def checked_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    """Seeds to plan under: some, and each once, as repeated ones are no evidence."""
    listed = tuple(checks.whole("seed", seed, least=0, most=LARGEST_SEED) for seed in seeds)
    if not listed or len(set(listed)) < len(listed):
        raise NotAllowed("seeds", list(seeds), "at least one seed, and each once")
    return listed


def check_memory(experiment: Experiment, seeds: int) -> None:
    """Refuses a plan whose records of every round this machine has no place for."""
    # Each cost of each round, and as much again for the averages of some of them.
    numbers = (len(Costs._fields) + 4) * experiment.rounds * seeds
    memory.needed(numbers, f"rounds = {experiment.rounds}" + (f" with {seeds} seeds" if seeds > 1 else ""))
    batches = len(statistics.batches_of(experiment.rounds)) if seeds == 1 else 0
    memory.needed(numbers + (12 + batches) * experiment.devices, f"devices = {experiment.devices}")


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
    worst_power, worst_power_ratio = worst.estimates()
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
        worst_power=worst_power,
        worst_power_ratio=worst_power_ratio,
        power_slack=statistics.of_rounds(1 - by_name["power_ratio"]),
        energy=means["energy"],
        objective=means["objective"],
        variance_factor=means["variance_factor"],
        fallback_rate=means["fallback"],
        excluded_share=means["excluded_share"],
        settled_round=settled_round(running),
        running_power=running,
    )


def settled_round(running: Array) -> int | None:
    """The first round from which the running average stays within 5% of its limit."""
    over = np.flatnonzero(~(running <= NEAR))  # what is no number has not settled
    first = int(over[-1]) + 1 if len(over) else 0
    return first if first < len(running) else None


class _WorstDevice:
    """The mean power of the device that spends most of its limit, and its interval.

    From several seeds it keeps each device's sum and sum of squares of the seeds' means. From one seed it keeps
    what each has spent by the end of each batch of rounds, as batches are not independent.
    """

    def __init__(self, experiment: Experiment, seeds: int) -> None:
        self._seeds, self._rounds = seeds, experiment.rounds
        self._limit = experiment.policy.link.mean_power
        self._batches = statistics.batches_of(experiment.rounds) if seeds == 1 else []
        self._ends = {end - 1 for _, end in self._batches}
        self._spent = [np.zeros(experiment.devices)]
        self._sum, self._squares = np.zeros((2, experiment.devices))

    def after(self, round: int, spent: Array) -> None:
        """To be told after every round what each device has spent since its seed began."""
        if round in self._ends:
            self._spent.append(spent.copy())
        if round == self._rounds - 1:
            self._sum += spent / self._rounds
            self._squares += np.square(spent / self._rounds)

    def estimates(self) -> tuple[Estimate, Estimate]:
        """Its power, and that over its limit."""
        device = int((self._sum / self._limit).argmax())
        limit = float(np.broadcast_to(self._limit, self._sum.shape)[device])
        power = self._power_of(device)
        ci = None if power.ci is None else (power.ci[0] / limit, power.ci[1] / limit)
        return power, Estimate(power.value / limit, ci, power.settled)

    def _power_of(self, device: int) -> Estimate:
        seeds, mean = self._seeds, float(self._sum[device]) / self._seeds
        if seeds == 1:
            spent = np.diff([by_then[device] for by_then in self._spent])
            return statistics.of_batches(mean, spent / [end - first for first, end in self._batches])
        variance = max(float(self._squares[device]) / seeds - mean**2, 0.0) / (seeds - 1)
        half = statistics.t_quantile(seeds - 1) * variance**0.5
        return Estimate(mean, (mean - half, mean + half))
