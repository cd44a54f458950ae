"""The paper's last figure: how average power comes down to its limit, for V from 1 to 100,000.

    python -m fadewise.studies.power --plot docs/results/power.svg

Runs each V for ten times as many rounds as V has units, and 2,000 at least: a million for V = 100,000, a few
minutes. `--rounds` caps them. Power includes that of devices asked because nobody volunteered. λ = 1,000 is
the hard case: there somebody has to be asked in four rounds of ten.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from fadewise import config
from fadewise.planning import Plan, plan
from fadewise.studies import run

PENALTY_WEIGHTS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)


def plans(airtime_weight: float, most_rounds: int) -> Iterator[tuple[dict[str, float], Plan]]:
    """The plan of the paper's heterogeneous CIFAR-10 network for each V."""
    for penalty_weight in PENALTY_WEIGHTS:
        changes = {
            "policy.airtime_weight": airtime_weight,
            "policy.penalty_weight": penalty_weight,
            "rounds": min(most_rounds, max(2000, int(10 * penalty_weight))),
        }
        yield {"policy.penalty_weight": penalty_weight}, plan(config.load("paper/cifar10-het", changes))


def main() -> None:
    """Prints the table and draws the figure."""
    parser = argparse.ArgumentParser(description="Average power over rounds, for several V.")
    parser.add_argument("--rounds", type=int, default=10**6, help="at most this many rounds for any V")
    parser.add_argument("--airtime-weight", type=float, default=100.0, help="λ (100)")
    parser.add_argument("--plot", type=Path, help="where to draw the figure (.svg, .png or .pdf)")
    arguments = parser.parse_args()
    if arguments.plot is not None:
        from fadewise.reports import plots

        plots.check_writable(arguments.plot)
    done = list(plans(arguments.airtime_weight, arguments.rounds))
    table = Table(title=f"Average power over its limit, λ = {arguments.airtime_weight:g}", box=box.SIMPLE_HEAD)
    for heading in ("V", "rounds", "over all rounds", "within 5% from round", "worst device", "fallback"):
        table.add_column(heading, justify="right")
    for variant, one in done:
        table.add_row(
            f"{variant['policy.penalty_weight']:g}",
            f"{one.rounds:,}",
            f"{one.running_power[-1]:.3f}",
            "not yet" if one.settled_round is None else f"{one.settled_round:,}",
            f"{one.worst_power.value:.3f}",
            f"{one.fallback_rate.value:.1%}",
        )
    Console(width=100).print(table)
    if arguments.plot is not None:
        title = f"Heterogeneous CIFAR-10 network, λ = {arguments.airtime_weight:g}"
        plots.save(plots.of_plans(title, done), arguments.plot)
        print(f"Figure: {arguments.plot}")


if __name__ == "__main__":
    run(main)
