"""Figures, in matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from fadewise.errors import FadewiseError, NotAllowed
from fadewise.planning import Plan
from fadewise.reports.curves import Cost, Metric, smoothed
from fadewise.reports.runs import Arm
from fadewise.reports.tables import shown_setting

FORMATS = (".png", ".svg", ".pdf")
_STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#606770",
    "axes.labelcolor": "#30353b",
    "xtick.color": "#606770",
    "ytick.color": "#606770",
    "axes.grid": True,
    "grid.color": "#e4e7eb",
    "grid.linewidth": 0.6,
    "axes.titlesize": 10,
    "axes.titlecolor": "#30353b",
    "legend.frameon": False,
    "svg.hashsalt": "fadewise",  # the same figure is the same file
}
_POLICY_COLORS = ("#8a8f98", "#8a8f98", "#1f6f8b", "#d9822b")
_POLICY_STYLES = ("o-", "x:", "o-", "s--")
_ARM_COLORS = ("#8a8f98", "#1f6f8b", "#d9822b", "#7b4fa3", "#3a8750", "#b8433a", "#95800a", "#3b66c4")
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)))
_LIMIT = "#b03a2e"
_LEGEND_LETTERS = 120
"""How many letters a line of the legend below two panels has room for."""


def check_writable(path: Path) -> None:
    """Refuses a file that a figure cannot be written to."""
    if path.suffix not in FORMATS:
        raise NotAllowed("the figure's file", str(path), "a name ending in " + ", ".join(FORMATS))
    if path.is_dir():
        raise FadewiseError(f"the figure cannot be written to {path}: it is a folder")
    if not path.parent.is_dir():
        raise FadewiseError(f"the figure cannot be written to {path}: {path.parent} is not a folder")
    # Opening tells what no question about permissions does; whatever is there stays as it is.
    new = not path.exists()
    try:
        path.open("ab").close()
        if new:
            path.resolve().unlink()
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> FadewiseError:
    return FadewiseError(f"the figure cannot be written to {path}: {error.strerror or error}")


def save(figure: Figure, path: Path) -> None:
    """Writes a figure in the format that the file's name ends in."""
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}[path.suffix]
    with mpl.rc_context(_STYLE):
        try:
            figure.savefig(path, dpi=160, metadata=metadata)
        except OSError as error:
            raise _unwritable(path, error) from None


def of_plans(title: str, plans: Sequence[tuple[Mapping[str, Any], Plan]]) -> Figure:
    """Average power over rounds against its limit, and airtime against participants."""
    labels = [_label(variant) for variant, _ in plans]
    # Beside each other where that leaves room, else a line each: whole tables may have been varied.
    columns = max(1, min(6, _LEGEND_LETTERS // (max(map(len, labels)) + 6)))
    legend_lines = -(-len(plans) // columns) + 1 if any(labels) else 0
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.5, 3.8 + 0.2 * legend_lines), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        colors = mpl.colormaps["viridis"](np.linspace(0.05, 0.85, len(plans)))
        for (_, plan), color, label in zip(plans, colors, labels, strict=True):
            power_over_rounds(left, plan, color, label)
            airtime_against_participants(right, plan, color)
        left.axhline(1.0, color=_LIMIT, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
        left.set(xlabel="round", ylabel="average power so far, over its limit", ylim=(0, None))
        left.set_xscale("log")
        left.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        right.set(xlabel="participants a round", ylabel="airtime a round, s")
        right.set(xlim=(0, 1.15 * right.get_xlim()[1]), ylim=(0, 1.15 * right.get_ylim()[1]))
        if any(labels):
            figure.legend(title=_heading(plans[0][0]), loc="outside lower center", ncols=columns)
        figure.suptitle(_plain(title), fontsize=10, color="#30353b")
    return figure


def _plain(text: str) -> str:
    """What a user named, as it stands: a $ would begin a formula."""
    return text.replace("$", r"\$")


def of_frontier(curves: Sequence[tuple[str, Sequence[float], Sequence[float], Sequence[bool]]]) -> Figure:
    """What a round is worth against its airtime, a curve for each policy.

    A curve is a name, airtimes, worths, and which points are comparable: the others are pale and not joined.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.8, 4.0), layout="constrained")
        axes = figure.subplots()
        for (name, *points), color, style in zip(curves, _POLICY_COLORS, _POLICY_STYLES, strict=False):
            airtime_s, worth, comparable = map(np.asarray, points)
            look: Any = {"color": color, "linewidth": 1.6, "markersize": 4.5}
            axes.plot(airtime_s[comparable], worth[comparable], style, label=name, **look)
            others = ~comparable
            axes.plot(
                airtime_s[others], worth[others], style[0], linestyle="", markerfacecolor="none", alpha=0.5, **look
            )
        axes.set(xscale="log", yscale="log", xlabel="airtime a round, s")
        axes.set_ylabel("worth in the bound's sampling term, N / mean of 1/π")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_formatter(NullFormatter())
        axes.grid(which="minor", linewidth=0.3)
        axes.legend(loc="upper left")
    return figure


def power_over_rounds(axes: Axes, plan: Plan, color: Any, label: str) -> None:
    """The running average of power over its limit; at most a point for every pixel or so."""
    rounds = np.arange(1, plan.rounds + 1)
    shown = np.unique(np.geomspace(1, plan.rounds, 1500).astype(int)) - 1
    axes.plot(rounds[shown], plan.running_power[shown], color=color, linewidth=1.5, label=label or None)


def airtime_against_participants(axes: Axes, plan: Plan, color: Any) -> None:
    """One point, with its intervals."""
    x, y = plan.mean_participants, plan.airtime_s
    errors = [[[e.value - e.ci[0]], [e.ci[1] - e.value]] if e.ci else None for e in (x, y)]
    axes.errorbar(x.value, y.value, xerr=errors[0], yerr=errors[1], fmt="o", color=color, markersize=6, elinewidth=1)


def _label(variant: Mapping[str, Any]) -> str:
    values = [f"{value:g}" if isinstance(value, float) else shown_setting(value) for value in variant.values()]
    return _plain(", ".join(values))


def _heading(variant: Mapping[str, Any]) -> str:
    return _plain(", ".join(key.rpartition(".")[2] for key in variant))


class Panel(NamedTuple):
    """A plot of a metric against a cost, a line for each arm."""

    title: str
    arms: Sequence[Arm]
    metric: Metric
    cost: Cost
    target: float | None = None


_COST_LABELS: Mapping[Cost, str] = {
    "airtime_s": "airtime so far, s",
    "rounds": "round",
    "energy": "energy so far",
    "round_time_s": "round time so far, s",
    "wall_s": "wall time, s",
}


def of_arms(panels: Sequence[Panel], note: str = "", moving_average: int = 0) -> Figure:
    """Accuracy or loss over what it cost: a line for the mean over seeds, a band from the lowest to the highest.

    Two panels a row. note: what the figure has to say of itself. moving_average: over how many rounds.
    """
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.9 * columns + 0.4, 3.5 * rows), layout="constrained")
        for axes, panel in zip(figure.subplots(rows, columns, squeeze=False).flat, panels, strict=False):
            for arm, (color, dashes) in zip(panel.arms, _looks(panel.arms), strict=True):
                band(axes, arm, panel.metric, panel.cost, moving_average, color=color, linestyle=dashes)
            if panel.target is not None:
                axes.axhline(panel.target, color=_LIMIT, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
            axes.set(xlabel=_COST_LABELS[panel.cost], xlim=(0, None), title=_plain(panel.title))
            axes.set_ylabel("test accuracy" if panel.metric == "accuracy" else "test loss")
            if panel.metric == "accuracy":
                axes.set_ylim(0, None)
            axes.legend(loc="lower right" if panel.metric == "accuracy" else "upper right", fontsize=8)
        said = " ".join([note] * bool(note) + [f"Moving average over {moving_average} rounds."] * bool(moving_average))
        if said:
            figure.suptitle(_plain(said), fontsize=9, color=_LIMIT, wrap=True)
    return figure


def _looks(arms: Sequence[Arm]) -> Iterator[tuple[str, Any]]:
    """Colours and dashes: uniform choice is grey, and dashed as what it is compared with."""
    ranks = {True: 0, False: 0}
    pairs = sum(arm.uniform for arm in arms) > 1
    for arm in arms:
        rank = ranks[arm.uniform]
        ranks[arm.uniform] += 1
        dashes = _DASHES[rank % len(_DASHES)] if pairs else "-"
        yield _ARM_COLORS[0 if arm.uniform else 1 + rank % (len(_ARM_COLORS) - 1)], dashes


def band(axes: Axes, arm: Arm, metric: Metric, cost: Cost, moving_average: int, *, color: str, linestyle: Any) -> None:
    """An arm's line, and its band over seeds, as far as all of its runs have come."""
    every = arm.settings["training"]["evaluate_every"]
    window = max(1, round(moving_average / every))
    curves = [
        (
            [one.spent(cost) for one in run.evaluations],
            list(smoothed([getattr(one, metric) for one in run.evaluations], window)),
        )
        for run in arm.runs.values()
    ]
    first, last = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    x = np.linspace(first, last, 150)
    values = np.array([np.interp(x, *curve) for curve in curves])
    axes.plot(x, values.mean(axis=0), label=_plain(arm.name), color=color, linestyle=linestyle, linewidth=1.5)
    if len(curves) > 1:
        axes.fill_between(x, values.min(axis=0), values.max(axis=0), color=color, alpha=0.16, linewidth=0)


def of_prediction(
    measured: Sequence[tuple[str, float, bool]], predicted: Mapping[str, Sequence[float]], target: str, note: str = ""
) -> Figure:
    """Airtime to a target over λ: measured (an arrow where it is more than that) and by each prediction."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.8, 4.0), layout="constrained")
        axes = figure.subplots()
        places = range(len(measured))
        for (name, airtimes), color in zip(predicted.items(), _ARM_COLORS[1:], strict=False):
            axes.plot(places, airtimes, "--", color=color, linewidth=1.3, label=f"predicted, {name}")
        for place, (_, airtime_s, reached) in enumerate(measured):
            axes.plot(place, airtime_s, "o" if reached else "^", color="#30353b", markersize=6, zorder=3)
        axes.plot([], [], "o", color="#30353b", label="measured")
        axes.plot([], [], "^", color="#30353b", label="more than that: not reached")
        low, high = (f([airtime_s for _, airtime_s, _ in measured]) for f in (min, max))
        axes.set(yscale="log", xlabel="λ", ylabel=f"airtime to {target}, s", ylim=(low / 4, 6 * high))
        axes.set_xticks(places, [name for name, _, _ in measured])
        axes.legend(fontsize=8)
        if note:
            figure.suptitle(_plain(note), fontsize=9, color=_LIMIT, wrap=True)
    return figure
