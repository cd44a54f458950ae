"""Plans and runs as tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fadewise import statistics
from fadewise.planning import Plan
from fadewise.reports.comparison import COSTS, Comparison, Row
from fadewise.reports.curves import Cost
from fadewise.statistics import Estimate

if TYPE_CHECKING:
    from fadewise.simulation.bench import Result


def of_plan(title: str, plan: Plan) -> Table:
    """One plan, a line for each of its costs with what it means."""
    one_seed = len(plan.seeds) == 1
    seeds = f"seed {plan.seeds[0]}" if one_seed else f"{len(plan.seeds)} seeds"
    shortest = statistics.BATCHES * statistics.SHORTEST_BATCH
    if plan.rounds < shortest:
        caption = f"no ± from fewer than {shortest:,} rounds of one seed; --seeds 0-4 gives it over seeds"
    else:
        caption = "± over batches of one seed's rounds; --seeds 0-4 gives it over seeds"
    table = Table(
        title=escape(f"{title}: {plan.devices} devices, {plan.rounds} rounds, {seeds}"),
        caption=caption if one_seed else None,
        box=box.SIMPLE_HEAD,
    )
    table.add_column("a round", no_wrap=True)
    table.add_column("mean", justify="right", no_wrap=True)
    table.add_column("±", justify="right", no_wrap=True)
    table.add_column("", min_width=_LEAST_WORDS)
    unit = "W" if plan.in_watts else "in units of the link"
    energy = [("energy", plan.energy, "J, transmitted by all participants")] if plan.in_watts else []
    for name, estimate, meaning in [
        ("participants", plan.mean_participants, "devices that send"),
        ("airtime", plan.airtime_s, "s on the air"),
        ("round time", plan.round_time_s, "s, with overhead and computing"),
        ("mean power", plan.mean_power, f"{unit}, average over devices and rounds"),
        ("worst power", plan.worst_power, f"{unit}, of the device that spends most of its limit"),
        ("worst of limit", plan.worst_power_ratio, "the same over that device's limit"),
        ("power slack", plan.power_slack, "of the limit left unspent at the end (below 0: overspent)"),
        *energy,
        ("objective y0", plan.objective, "Σ 1/(N·q) + λ·q·airtime"),
        ("mean 1/π", plan.variance_factor, "sampling term of the bound, 1 if everyone takes part"),
        ("fallback", plan.fallback_rate, "of rounds nobody volunteered"),
        ("excluded", plan.excluded_share, "of the devices out of reach"),
    ]:
        table.add_row(name, _value(estimate), _half(estimate), meaning)
    table.add_row("power settled", _settled(plan), "", "first round from which mean power stays within 5% of its limit")
    return table


def of_sweep(title: str, plans: Sequence[tuple[Mapping[str, Any], Plan]]) -> Table:
    """Several plans, a line each, headed by what was varied."""
    keys = list(plans[0][0])
    varied = ", ".join(f"{letter} = {key}" for letter, key in zip(_LETTERS, keys, strict=False))
    # Whole tables and long lists as values would fill the screen: then the lines are numbered, and listed below.
    cells_of = [[shown_setting(variant[key]) for key in keys] for variant, _ in plans]
    if any(len(cell) > _WIDEST for cells in cells_of for cell in cells) or len(keys) > len(_LETTERS):
        listed = [
            f"{number}: " + ", ".join(f"{key} = {cell}" for key, cell in zip(keys, cells, strict=True))
            for number, cells in enumerate(cells_of, 1)
        ]
        keys, varied, cells_of = ["#"], ", ".join(keys), [[str(number)] for number in range(1, len(plans) + 1)]
        headings: Sequence[str] = keys
    else:
        listed, headings = [], _LETTERS[: len(keys)]
    table = Table(
        title=escape(f"{title}; {varied}"),
        caption=escape("\n".join(listed)) or None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
        pad_edge=False,
    )
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    columns: dict[str, Callable[[Plan], str]] = {
        "sending": lambda plan: _value(plan.mean_participants),
        "±": lambda plan: _half(plan.mean_participants, otherwise="unsettled"),
        "airtime": lambda plan: _value(plan.airtime_s),
        "round s": lambda plan: _value(plan.round_time_s),
        "power": lambda plan: f"{plan.mean_power.value:.3g}",
        "worst/P̄": lambda plan: f"{plan.worst_power_ratio.value:.3g}",
        "settled": _settled,
        "y0": lambda plan: _value(plan.objective),
        "1/π": lambda plan: _value(plan.variance_factor),
        "asked": lambda plan: f"{plan.fallback_rate.value:.2g}",
    }
    if all(plan.round_time_s.value == plan.airtime_s.value for _, plan in plans):
        del columns["round s"]
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for cells, (_, plan) in zip(cells_of, plans, strict=True):
        table.add_row(*map(escape, cells), *(cell(plan) for cell in columns.values()))
    return table


def print_whole(table: Table) -> None:
    """Prints a table, wider than the terminal if it must be: a number that is cut off would be another number.

    Words give way first, in columns that wrap, down to the columns' least widths.
    """
    words = [column for column in table.columns if not column.no_wrap]
    for column in words:
        column.max_width = column.min_width
    needed = Console(width=1000).measure(table).maximum
    for column in words:
        column.max_width = None
    Console(width=max(Console().width, needed)).print(table)


def shown_setting(value: Any) -> str:
    """A setting's value as TOML has it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {shown_setting(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown_setting, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def of_runs(runs: Sequence[tuple[Path, Mapping[str, Any] | None]]) -> Table:
    """Runs by their folders and summaries, a line each; one that has not ended has no summary."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("run", overflow="fold", min_width=_LEAST_WORDS)
    for heading in ("rounds", "accuracy", "loss", "airtime s", "mean power"):
        table.add_column(heading, justify="right", no_wrap=True)
    for path, summary in runs:
        if summary is None:
            table.add_row(escape(str(path)), "not ended")
        else:
            table.add_row(
                escape(str(path)),
                str(summary["rounds"]),
                f"{summary['accuracy']:.4f}",
                f"{summary['loss']:.4f}",
                f"{summary['airtime_s']:.1f}",
                f"{summary['mean_power']:.3g}",
            )
    return table


def of_comparison(found: Comparison) -> Table:
    """What a target cost each configuration, and below each that over the reference's, with its interval."""
    title = (
        f"To {found.target}; ratios are over {found.reference.name}" if len(found.rows) > 1 else f"To {found.target}"
    )
    table = Table(title=escape(title), box=box.SIMPLE_HEAD)
    table.add_column("", overflow="fold", min_width=_LEAST_WORDS)
    for heading in ("reached by", "airtime s", "rounds", "energy"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in found.rows:
        table.add_row(
            escape(row.arm.name), f"{row.reached} of {len(row.arm.runs)}", *(cost_cell(row, c) for c in COSTS)
        )
        if row.ratios:
            one = row.ratios[COSTS[0]]
            how = f"{one.seeds} seed{'s' * (one.seeds > 1)}, {'paired' if one.paired else 'not paired'}"
            cells = [str(row.ratios[cost]).replace(" (", "\n(") for cost in COSTS]
            table.add_row(f"  ratio (interval)\n  ({how})", "", *cells)
    return table


def print_comparison(found: Comparison) -> None:
    """The table, and below it why what could not be paired could not."""
    print_whole(of_comparison(found))
    for name, keys in found.unshared.items():
        Console().print(f"{name} is not paired: it differs in {', '.join(keys)}", highlight=False, markup=False)


def cost_cell(row: Row, cost: Cost) -> str:
    """What a target cost on average; more than that where a run never reached it."""
    at = row.costs[cost]
    return ("" if at.reached else "> ") + f"{at.cost:.4g}"


def of_bench(results: Sequence[Result]) -> Table:
    """Backends, a line each, and networks, a column each."""
    table = Table(
        title="ms a step (times as fast as PyTorch in float32)",
        caption="steps of 32 samples on one core; medians, the backends taking turns\n"
        "CIFAR-10, FEMNIST: the paper's networks for these; McMahan, LEAF: theirs",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    for result in results:
        table.add_column(result.network, justify="right", no_wrap=True)
    for speeds in zip(*(result.speeds for result in results), strict=True):
        cells = [f"{speed.step_ms:.2f} ({speed.speedup:.2f})" for speed in speeds]
        table.add_row(speeds[0].backend, *cells)
    return table


_LEAST_WORDS = 18
"""How narrow a column of words may become: room for "ratio (interval)"."""

_WIDEST = 16
"""How long a varied setting's values may be to have a column."""

_LETTERS = "abcdefghijkl"
"""What the columns of varied settings are headed by: the settings' names would fill the screen."""


def _value(estimate: Estimate) -> str:
    return "–" if math.isnan(estimate.value) else f"{estimate.value:.4g}"


def _half(estimate: Estimate, otherwise: str = "not settled") -> str:
    if not estimate.settled:
        return otherwise
    return "" if estimate.ci is None else f"{(estimate.ci[1] - estimate.ci[0]) / 2:.2g}"


def _settled(plan: Plan) -> str:
    return "not yet" if plan.settled_round is None else str(plan.settled_round)
