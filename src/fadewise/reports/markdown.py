"""Tables as Markdown, for pages."""

from __future__ import annotations

from collections.abc import Sequence

from fadewise.reports.comparison import Comparison
from fadewise.reports.curves import Cost, Target, spent
from fadewise.reports.runs import Arm
from fadewise.reports.tables import cost_cell

_UNITS: dict[Cost, str] = {"airtime_s": "airtime s", "rounds": "rounds", "energy": "energy"}


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column is of words, the others are of numbers."""
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def of_comparison(found: Comparison, costs: Sequence[Cost] = ("airtime_s", "rounds")) -> str:
    """What a target cost each arm, and the ratios over the reference."""
    headings = [f"to {found.target}", "reached by", *(_UNITS[cost] for cost in costs)]
    ratios = [f"ratio of {_UNITS[cost].removesuffix(' s')}" for cost in costs]
    rows = [
        [
            row.arm.name,
            f"{row.reached} of {len(row.arm.runs)}",
            *(cost_cell(row, cost) for cost in costs),
            *(str(row.ratios[cost]) if row.ratios else "" for cost in costs),
        ]
        for row in found.rows
    ]
    return table([*headings, *ratios], rows)


def of_seeds(arms: Sequence[Arm], target: Target) -> str:
    """The airtime to a target of each single run."""
    seeds = sorted({seed for arm in arms for seed in arm.runs})
    rows = []
    for arm in arms:
        at = {seed: spent(run.evaluations, target, "airtime_s") for seed, run in arm.runs.items()}
        cells = [("" if at[s].reached else "> ") + f"{at[s].cost:.4g}" if s in at else "" for s in seeds]
        rows.append([arm.name, *cells])
    return table([f"airtime s to {target}, by seed", *map(str, seeds)], rows)
