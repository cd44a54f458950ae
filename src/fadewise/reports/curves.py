"""Accuracy over what it cost, and when a target was reached."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from fadewise.errors import FadewiseError

IN_A_ROW = 3
"""A target counts as reached when the mean of so many evaluations has come to it: one alone may be luck."""

Metric = Literal["accuracy", "loss"]
Cost = Literal["airtime_s", "rounds", "energy", "round_time_s", "wall_s"]


class Evaluation(NamedTuple):
    """The model on the test set after some rounds, and what had been spent by then.

    wall_s: the time that the run itself took; NaN where that is not known.
    """

    rounds: int
    accuracy: float
    loss: float
    airtime_s: float
    round_time_s: float
    energy: float
    wall_s: float = math.nan

    def spent(self, cost: Cost) -> float:
        """What had been spent of one of the costs."""
        return float(getattr(self, cost))


class Target(NamedTuple):
    """What is to be reached: an accuracy from below, or a loss from above."""

    metric: Metric
    value: float

    def __str__(self) -> str:
        return f"{self.metric} {self.value:g}"

    def is_met(self, last: Sequence[Evaluation]) -> bool:
        """Whether the mean of these evaluations has come to it."""
        # A sum that rounding has moved by its last bit must not miss 3 · 0.7.
        total, wanted = math.fsum(getattr(one, self.metric) for one in last), len(last) * self.value
        near = 1e-12 * abs(wanted)
        return total >= wanted - near if self.metric == "accuracy" else total <= wanted + near


class Spent(NamedTuple):
    """What a run had spent when it reached a target or, if it never did, when it ended: then the cost is more."""

    cost: float
    reached: bool


def reached(evaluations: Sequence[Evaluation], target: Target) -> Evaluation | None:
    """The evaluation at which a target was reached; None if it never was.

    That is the last of the first three in a row whose mean has come to the target: the first moment at which
    somebody could have stopped. Nothing is interpolated.
    """
    for last in range(IN_A_ROW, len(evaluations) + 1):
        if target.is_met(evaluations[last - IN_A_ROW : last]):
            return evaluations[last - 1]
    return None


def spent(evaluations: Sequence[Evaluation], target: Target, cost: Cost) -> Spent:
    """What reaching a target cost."""
    at = reached(evaluations, target)
    return Spent((at or evaluations[-1]).spent(cost), at is not None)


def best(evaluations: Sequence[Evaluation]) -> float:
    """The highest accuracy that would count as reached; 0 where there are too few evaluations."""
    windows = (evaluations[last - IN_A_ROW : last] for last in range(IN_A_ROW, len(evaluations) + 1))
    return max((math.fsum(one.accuracy for one in window) / IN_A_ROW for window in windows), default=0.0)


def usual_targets(runs: Sequence[Sequence[Evaluation]]) -> list[Target]:
    """Up to three accuracies, 0.05 apart, of which the highest is one that all runs have reached."""
    highest = min((best(run) for run in runs), default=0.0)
    steps = math.floor(highest * 20 + 1e-9)
    if steps < 1:
        raise FadewiseError("not all runs have reached an accuracy of 0.05; say with --target what is to be reached")
    return [Target("accuracy", step / 20) for step in range(max(1, steps - 2), steps + 1)]


def parse_target(text: str) -> Target:
    """`accuracy=0.7` or `loss=0.9` from the command line."""
    metric, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if metric == "accuracy" and 0 < number < 1:
        return Target("accuracy", number)
    if metric == "loss" and 0 < number < math.inf:
        return Target("loss", number)
    raise FadewiseError(
        f"--target is {text!r}; it must be accuracy=A, with A above 0 and below 1, or loss=L, with L above 0"
    )


def smoothed(values: Sequence[float], window: int) -> Iterator[float]:
    """The mean of each value and up to `window` - 1 before it."""
    for last in range(1, len(values) + 1):
        part = values[max(0, last - window) : last]
        yield math.fsum(part) / len(part)
