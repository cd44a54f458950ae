"""Does theory predict? The airtime that a plan foresees against the airtime that training took, over λ.

    fadewise reproduce prediction --scale full --seeds 0-2

If the sampling term of the bound were all that matters, the rounds to a target would be in proportion to the mean
of 1/π, and the airtime to it in proportion to that times the airtime of a round; a plan knows both before anything
is trained. If it did not matter at all, rounds would be the same for all λ, and airtime in proportion to that of a
round. Corollary 1 lies between: T·(ε - drift - c·mean(1/π)) = const, which has two constants that a plan does not
know; they are fitted here, to see whether at least the shape is right.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fadewise import config
from fadewise.planning import plan
from fadewise.reports import comparison, markdown, plots
from fadewise.reports.curves import Target
from fadewise.reports.runs import Arm
from fadewise.reproduction.study import Line, Numbers, Page, Scale, Study
from fadewise.studies import cifar10

WEIGHTS = {1: 600, 3: 1000, 10: 1500, 30: 2000, 100: 2000, 300: 2000, 1000: 2000, 3000: 2000, 10000: 2000}
"""λ, and for how many rounds."""

REFERENCE = 100
PRESET = "paper/cifar10-het"


class Point(NamedTuple):
    """One λ: what a plan says of a round, and the measured rounds and airtime to the target.

    reached: whether all runs came to it; else the measured numbers are lower bounds.
    """

    airtime_weight: int
    round_airtime_s: float
    variance_factor: float
    rounds: float
    airtime_s: float
    reached: bool


def line(weight: int, scale: Scale) -> Line:
    """Training with one λ."""
    if weight in (10, 100):
        made = cifar10.proposed("het", weight)
    else:
        made = Line(f"λ = {weight}", PRESET, {"policy.airtime_weight": float(weight)}, WEIGHTS[weight], seeds=3)
    made = Line(made.name, made.preset, made.changes, made.rounds, seeds=3)
    return made if scale == "full" else cifar10.quick([made])[0]


def lines(scale: Scale) -> list[Line]:
    """All."""
    return [line(weight, scale) for weight in WEIGHTS]


def page(numbers: Numbers) -> Page:
    """A row for each λ, and how good the predictions are."""
    full = numbers.scale == "full"
    arms = {weight: arm for weight in WEIGHTS if (arm := numbers.arm(line(weight, numbers.scale)))}
    text, figures = [], {}
    for target in [Target("accuracy", value) for value in ((0.5, 0.6) if full else (0.3,))]:
        points = [point(weight, arm, target, full) for weight, arm in arms.items()]
        name = f"prediction-{target.value * 100:.0f}"
        figures[name] = plots.of_prediction(
            [(str(p.airtime_weight), p.airtime_s, p.reached) for p in points],
            predictions(points),
            str(target),
            numbers.note,
        )
        text += [f"## To {target}", f"![Airtime to the target over λ]({name}.svg)", table(points), verdict(points)]
    return Page("\n\n".join(text), figures)


def point(weight: int, arm: Arm, target: Target, full: bool) -> Point:
    """The plan and the measurement of one λ."""
    changes = {"policy.airtime_weight": float(weight), "rounds": 3000 if full else 500}
    planned = plan(config.load(PRESET, changes))
    (row,) = comparison.compared([arm], target).rows
    return Point(
        weight,
        planned.airtime_s.value,
        planned.variance_factor.value,
        row.costs["rounds"].cost,
        row.costs["airtime_s"].cost,
        row.costs["airtime_s"].reached,
    )


def predictions(points: list[Point]) -> dict[str, list[float]]:
    """Airtime to the target by three readings of theory, each in seconds by its best common factor."""
    rounds = {"all variance": [p.variance_factor for p in points], "no variance": [1.0] * len(points)}
    first, limit = corollary(points)
    rounds["Corollary 1, fitted"] = [first / max(1 - p.variance_factor / limit, 1e-3) for p in points]
    found = {}
    for name, factors in rounds.items():
        airtimes = [p.round_airtime_s * factor for p, factor in zip(points, factors, strict=True)]
        known = [math.log(p.airtime_s / a) for p, a in zip(points, airtimes, strict=True) if p.reached]
        scale = math.exp(sum(known) / len(known)) if known and name != "Corollary 1, fitted" else 1.0
        found[name] = [scale * airtime for airtime in airtimes]
    return found


def corollary(points: list[Point]) -> tuple[float, float]:
    """Rounds = R/(1 - v/v₀), v the mean of 1/π, by least squares on logarithms over a grid of v₀; R and v₀."""
    reached = [p for p in points if p.reached]
    if not reached:
        return 1.0, math.inf
    v, logs = np.array([p.variance_factor for p in reached]), np.log([p.rounds for p in reached])
    limits = v.max() * np.geomspace(1.001, 1e4, 2000)
    residuals = logs - np.log(1 / (1 - v / limits[:, None]))
    best = int(residuals.var(axis=1).argmin())
    return float(np.exp(residuals[best].mean())), float(limits[best])


def table(points: list[Point]) -> str:
    """A row for each λ."""
    rows = [
        [
            str(p.airtime_weight), f"{p.round_airtime_s:.3f}", f"{p.variance_factor:.1f}",
            ("" if p.reached else "> ") + f"{p.rounds:.4g}", ("" if p.reached else "> ") + f"{p.airtime_s:.4g}",
            *(f"{found[number]:.4g}" for found in predictions(points).values()),
        ]
        for number, p in enumerate(points)
    ]  # fmt: skip
    headings = ["λ", "airtime a round, s", "mean 1/π", "rounds, measured", "airtime s, measured"]
    return markdown.table([*headings, *(f"predicted, {name}" for name in predictions(points))], rows)


def verdict(points: list[Point]) -> str:
    """Which λ is best by each, and what taking the predicted one would cost."""
    reached = [p for p in points if p.reached]
    if not reached:
        return "No run has reached this target."
    best = min(reached, key=lambda p: p.airtime_s)
    said = [f"Measured, λ = {best.airtime_weight} is best ({best.airtime_s:.4g} s)."]
    for name, airtimes in predictions(points).items():
        chosen = points[int(np.argmin(airtimes))]
        cost = (
            f"takes {chosen.airtime_s / best.airtime_s:.2f} times as long"
            if chosen.reached
            else "never reaches the target"
        )
        said.append(f"By “{name}” it is λ = {chosen.airtime_weight}, which {cost}.")
    return " ".join(said)


STUDY = Study(
    name="prediction",
    title="Does theory predict?",
    about="The airtime to a target that a plan foresees, against the one that training took, for λ from 1 to 10,000 on "
    "heterogeneous\nCIFAR-10. Predictions are up to a common factor, which a plan does not know; the best λ does not "
    "depend on it.",
    quick=cifar10.QUICK_NOTE,
    lines=lines,
    page=page,
    dataset="cifar10",
)
