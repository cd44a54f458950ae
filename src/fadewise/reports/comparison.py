"""What reaching a target costs one configuration beside another: ratios with intervals, paired by seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from fadewise import statistics
from fadewise.errors import FadewiseError
from fadewise.manifest import differences
from fadewise.reports.curves import Cost, Spent, Target, spent
from fadewise.reports.runs import HOW_COMPUTED, Arm

COSTS: tuple[Cost, ...] = ("airtime_s", "rounds", "energy")

_SHARED = ("devices", "link", "channel", "access", "data", "model", "training")
"""What runs must have in common to be paired: all but the choice of who sends, which is what is compared."""


class Ratio(NamedTuple):
    """A ratio of costs: a geometric mean over seeds with its 95% interval.

    bound: "≤" or "≥" where some run never reached the target and all that is known points one way; then there
        is no interval. None: nothing can be said, as runs on both sides never did.
    paired: by seed; else the two sides were taken apart.
    seeds: how many on the side that is compared.
    """

    value: float
    ci: tuple[float, float] | None
    bound: Literal["", "≤", "≥"] | None
    paired: bool
    seeds: int

    def __str__(self) -> str:
        if self.bound is None:
            return "–"
        interval = "" if self.ci is None else f" ({self.ci[0]:.2f}–{self.ci[1]:.2f})"
        return f"{self.bound}{' ' if self.bound else ''}{self.value:.2f}{interval}"


class Row(NamedTuple):
    """An arm at a target.

    reached: how many of its runs did. costs: geometric means over seeds by cost, with whether all reached.
    ratios: by cost, over the reference; none for the reference itself.
    """

    arm: Arm
    reached: int
    costs: dict[Cost, Spent]
    ratios: dict[Cost, Ratio]


class Comparison(NamedTuple):
    """All arms at one target. unshared: by arm's name, the settings that keep it from being paired."""

    target: Target
    reference: Arm
    rows: list[Row]
    unshared: dict[str, list[str]]

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "target": {self.target.metric: self.target.value},
            "over": self.reference.name,
            "arms": [
                {
                    "name": row.arm.name,
                    "seeds": list(row.arm.runs),
                    "reached": row.reached,
                    **{cost: {"mean": at.cost, "all_reached": at.reached} for cost, at in row.costs.items()},
                    "ratios": {cost: None if r.bound is None else _ratio_dict(r) for cost, r in row.ratios.items()},
                }
                for row in self.rows
            ],
        }


def compared(arms: Sequence[Arm], target: Target, over: int = 0) -> Comparison:
    """All arms at a target, with ratios over one of them."""
    reference = arms[over]
    rows = []
    for arm in arms:
        at_target = {seed: spent(run.evaluations, target, "rounds") for seed, run in arm.runs.items()}
        rows.append(
            Row(
                arm,
                sum(at.reached for at in at_target.values()),
                {cost: _mean([spent(run.evaluations, target, cost) for run in arm.runs.values()]) for cost in COSTS},
                {} if arm is reference else {cost: ratio(arm, reference, target, cost) for cost in COSTS},
            )
        )
    others = [arm for arm in arms if arm is not reference]
    return Comparison(
        target, reference, rows, {arm.name: found for arm in others if (found := unshared(arm, reference))}
    )


def reference(arms: Sequence[Arm], text: str | None) -> int:
    """The number of the one arm with this name, or with this text in its name; of the first where none is given."""
    if text is None:
        return 0
    found = [number for number, arm in enumerate(arms) if text == arm.name]
    found = found or [number for number, arm in enumerate(arms) if text in arm.name]
    if len(found) != 1:
        known = "; ".join(arm.name for arm in arms)
        raise FadewiseError(f"--over {text!r} is in {len(found)} names; it must be in one of: {known}")
    return found[0]


def unshared(one: Arm, other: Arm) -> list[str]:
    """Settings by which two arms' runs differ although they ought to be the same for a comparison by seed."""
    found = [key for key, _, _ in differences(one.settings, other.settings)]
    how = {f"training.{name}" for name in HOW_COMPUTED}
    return [key for key in found if key.partition(".")[0] in _SHARED and key not in how]


def ratio(one: Arm, reference: Arm, target: Target, cost: Cost) -> Ratio:
    """The cost of reaching a target over that of the reference.

    A run that never reached it has spent all the same: its cost is more than that, and so the ratio more (or,
    where it is the reference's run, less) than what is put in its place.
    """
    ours = {seed: spent(run.evaluations, target, cost) for seed, run in one.runs.items()}
    theirs = {seed: spent(run.evaluations, target, cost) for seed, run in reference.runs.items()}
    both = [seed for seed in ours if seed in theirs]
    paired = bool(both) and not unshared(one, reference)
    if paired:
        ours, theirs = ({seed: side[seed] for seed in both} for side in (ours, theirs))
    more, less = (not all(at.reached for at in side.values()) for side in (ours, theirs))
    logs = [np.log([at.cost for at in side.values()]) for side in (ours, theirs)]
    estimate = statistics.of_samples(logs[0] - logs[1]) if paired else statistics.of_difference(*logs)
    value = math.exp(estimate.value)
    if more or less:
        return Ratio(value, None, None if more and less else "≥" if more else "≤", paired, len(ours))
    ci = None if estimate.ci is None else (math.exp(estimate.ci[0]), math.exp(estimate.ci[1]))
    return Ratio(value, ci, "", paired, len(ours))


def _mean(costs: Sequence[Spent]) -> Spent:
    mean = math.exp(math.fsum(math.log(at.cost) for at in costs) / len(costs))
    return Spent(mean, all(at.reached for at in costs))


def _ratio_dict(found: Ratio) -> dict[str, Any]:
    return {"value": found.value, "ci": found.ci, "bound": found.bound, "paired": found.paired, "seeds": found.seeds}
