"""The report: one HTML page that works offline, made of the files in `page/` and the runs' numbers."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from fadewise import statistics
from fadewise.errors import FadewiseError, NotAllowed
from fadewise.files import write_whole
from fadewise.reports.comparison import unshared
from fadewise.reports.curves import IN_A_ROW, Evaluation, best
from fadewise.reports.runs import Arm, Run

_DIGITS = 7
"""Significant digits of what a page holds; accuracies are whole."""


def check_writable(path: Path) -> None:
    """Refuses a file that the page cannot be written to."""
    if path.suffix != ".html":
        raise NotAllowed("the report's file", str(path), "a name ending in .html")
    if not path.parent.is_dir():
        raise FadewiseError(f"the report cannot be written to {path}: {path.parent} is not a folder")


def write(title: str, arms: Sequence[Arm], path: Path, note: str = "") -> None:
    """Writes the page. note: a sentence that the reader must not miss."""
    try:
        write_whole(path, page(title, arms, note))
    except OSError as error:
        raise FadewiseError(f"the report cannot be written to {path}: {error.strerror or error}") from None


def page(title: str, arms: Sequence[Arm], note: str = "") -> str:
    """The page's text: the same runs, the same bytes."""
    # In a script element only "</" and "<!--" would be read as HTML.
    data = json.dumps(_data(arms), allow_nan=False, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    parts = {
        "title": html.escape(title),
        "note": f'<p class="note">{html.escape(note)}</p>' if note else "",
        "style": _file("report.css"),
        "numbers": _file("numbers.js"),
        "script": _file("report.js"),
        "data": data,
    }
    # In one go, so that nothing is looked for in what was put in.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _file("report.html"))


def _file(name: str) -> str:
    return resources.files("fadewise").joinpath("reports", "page", name).read_text(encoding="utf-8")


def _data(arms: Sequence[Arm]) -> dict[str, Any]:
    seeds = max(len(arm.runs) for arm in arms)
    return {
        "inARow": IN_A_ROW,
        "tQuantiles": [statistics.t_quantile(degrees) for degrees in range(1, 2 * seeds + 1)],
        "target": _target(arms),
        "joules": "mean_power_w" in arms[0].settings["link"],
        "arms": [
            {
                "name": arm.name,
                "uniform": arm.uniform,
                "unshared": [unshared(arm, other) for other in arms],
                "runs": [_run(run) for run in arm.runs.values()],
            }
            for arm in arms
        ],
    }


def _target(arms: Sequence[Arm]) -> float:
    """Where the reader begins: a little below what all have reached."""
    highest = min(best(run.evaluations) for arm in arms for run in arm.runs.values())
    return max(0.01, math.floor(0.95 * highest * 100) / 100)


def _run(run: Run) -> dict[str, Any]:
    return {
        "seed": run.seed,
        "rounds": run.rounds,
        "evaluations": {name: [_number(getattr(one, name)) for one in run.evaluations] for name in Evaluation._fields},
        "power": [[rounds, _number(power)] for rounds, power in run.power],
        "groups": [[g.name, g.devices, _number(g.participation), _number(g.power)] for g in run.device_groups],
    }


def _number(value: float) -> float | None:
    if not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.{_DIGITS}g}")
