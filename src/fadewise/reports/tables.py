"""Plans and runs as tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from fadewise.planning import Plan
from fadewise.statistics import Estimate


def of_plan(title: str, plan: Plan) -> Table:
    """One plan, a line for each of its costs with what it means."""
    seeds = f"seed {plan.seeds[0]}" if len(plan.seeds) == 1 else f"{len(plan.seeds)} seeds"
    table = Table(title=f"{title}: {plan.devices} devices, {plan.rounds} rounds, {seeds}", box=box.SIMPLE_HEAD)
    table.add_column("a round", no_wrap=True)
    table.add_column("mean", justify="right", no_wrap=True)
    table.add_column("± 95%", justify="right", no_wrap=True)
    table.add_column("")
    unit = "W" if plan.in_watts else "in units of the link"
    energy = [("energy", plan.energy, "J, transmitted by all participants")] if plan.in_watts else []
    for name, estimate, meaning in [
        ("participants", plan.mean_participants, "devices that send"),
        ("airtime", plan.airtime_s, "s on the air"),
        ("round time", plan.round_time_s, "s, with overhead and computing"),
        ("mean power", plan.mean_power, f"{unit}, average over devices and rounds"),
        ("worst power", plan.worst_power, f"{unit}, of the device that spends most"),
        ("power slack", plan.power_slack, "of the limit left unspent at the end (below 0: overspent)"),
        *energy,
        ("objective y0", plan.objective, "Σ 1/(N·q) + λ·q·airtime"),
        ("mean 1/π", plan.variance_factor, "sampling variance against everyone taking part"),
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
    table = Table(title=f"{title}; {varied}", box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for letter in _LETTERS[: len(keys)]:
        table.add_column(letter, justify="right", no_wrap=True)
    columns: dict[str, Callable[[Plan], str]] = {
        "sending": lambda plan: _value(plan.mean_participants),
        "±": lambda plan: _half(plan.mean_participants),
        "airtime": lambda plan: _value(plan.airtime_s),
        "round s": lambda plan: _value(plan.round_time_s),
        "power": lambda plan: f"{plan.mean_power.value:.3g}",
        "worst": lambda plan: f"{plan.worst_power.value:.3g}",
        "settled": _settled,
        "y0": lambda plan: _value(plan.objective),
        "1/π": lambda plan: _value(plan.variance_factor),
        "asked": lambda plan: f"{plan.fallback_rate.value:.2g}",
    }
    if all(plan.round_time_s.value == plan.airtime_s.value for _, plan in plans):
        del columns["round s"]
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for variant, plan in plans:
        table.add_row(*(str(variant[key]) for key in keys), *(cell(plan) for cell in columns.values()))
    return table


def of_runs(runs: Sequence[tuple[Path, Mapping[str, Any] | None]]) -> Table:
    """Runs by their folders and summaries, a line each; one that has not ended has no summary."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("run", overflow="fold")
    for heading in ("rounds", "accuracy", "loss", "airtime s", "mean power"):
        table.add_column(heading, justify="right", no_wrap=True)
    for path, summary in runs:
        if summary is None:
            table.add_row(str(path), "not ended")
        else:
            table.add_row(
                str(path),
                str(summary["rounds"]),
                f"{summary['accuracy']:.4f}",
                f"{summary['loss']:.4f}",
                f"{summary['airtime_s']:.1f}",
                f"{summary['mean_power']:.3g}",
            )
    return table


_LETTERS = "abcdefghijkl"
"""What the columns of varied settings are headed by: the settings' names would fill the screen."""


def _value(estimate: Estimate) -> str:
    return "–" if math.isnan(estimate.value) else f"{estimate.value:.4g}"


def _half(estimate: Estimate) -> str:
    return "" if estimate.ci is None else f"{(estimate.ci[1] - estimate.ci[0]) / 2:.2g}"


def _settled(plan: Plan) -> str:
    return "not yet" if plan.settled_round is None else str(plan.settled_round)
