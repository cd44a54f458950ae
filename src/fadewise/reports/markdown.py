"""Tables as Markdown, for pages."""

from __future__ import annotations

from collections.abc import Sequence

from fadewise.reports.comparison import Row, compared
from fadewise.reports.curves import Cost, Target, spent
from fadewise.reports.runs import Arm
from fadewise.reports.tables import cost_cell

_UNITS: dict[Cost, str] = {"airtime_s": "airtime s", "rounds": "rounds", "energy": "energy"}
"""Costs that pages tell of."""


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column is of words, the others are of numbers."""
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def of_targets(arms: Sequence[Arm], targets: Sequence[float], cost: Cost) -> str:
    """What accuracies cost each arm, with ratios over the first: a row for each arm, a column for each target."""
    found = [compared(arms, Target("accuracy", target)) for target in targets]
    rows = [
        [arm.name, *(_cell(comparison.rows[number], cost) for comparison in found)] for number, arm in enumerate(arms)
    ]
    return table([f"{_UNITS[cost]} to accuracy", *(f"{target:.2f}" for target in targets)], rows)


def _cell(row: Row, cost: Cost) -> str:
    runs = len(row.arm.runs)
    missed = "" if row.reached == runs else f", reached by {row.reached} of {runs}"
    return cost_cell(row, cost) + missed + (f"; × {row.ratios[cost]}" if row.ratios else "")


def of_seeds(arms: Sequence[Arm], target: Target) -> str:
    """The airtime to a target of each single run."""
    seeds = sorted({seed for arm in arms for seed in arm.runs})
    rows = []
    for arm in arms:
        at = {seed: spent(run.evaluations, target, "airtime_s") for seed, run in arm.runs.items()}
        cells = [("" if at[s].reached else "> ") + f"{at[s].cost:.4g}" if s in at else "" for s in seeds]
        rows.append([arm.name, *cells])
    return table([f"airtime s to {target}, by seed", *map(str, seeds)], rows)
