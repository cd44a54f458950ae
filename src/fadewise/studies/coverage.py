"""How often the intervals of `plan` cover the truth, when they are made from one seed.

    python -m fadewise.studies.coverage

Plays the paper's heterogeneous CIFAR-10 network under many seeds, warm-started and from empty queues, some
minutes. The truth is the warm-started mean over all seeds and rounds; its own error is a fifteenth of one seed's.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from fadewise import checks, config, statistics
from fadewise.ledger import Costs, Ledger
from fadewise.rounds import play_all
from fadewise.studies import run

COSTS = ("participants", "airtime_s", "power_ratio", "variance_factor", "objective", "fallback")
LENGTHS = (1000, 3000)


def played(warm_start_rounds: int, seeds: int) -> NDArray[np.float64]:
    """Each of COSTS in every round, under each seed."""
    changes = {"policy.warm_start_rounds": warm_start_rounds, "rounds": max(LENGTHS)}
    experiment = config.load("paper/cifar10-het", changes)
    result = np.empty((len(COSTS), seeds, experiment.rounds))
    places = [Costs._fields.index(name) for name in COSTS]
    for seed in range(seeds):
        ledger = Ledger(experiment.policy, experiment.access)
        for one in play_all(experiment, seed):
            result[:, seed, one.number] = np.array(ledger.enter(one))[places]
    return result


def coverage(series: NDArray[np.float64], truth: float) -> str:
    """Which part of the intervals that are shown covers the truth, and which part is shown."""
    intervals = [statistics.of_rounds(row[None]).ci for row in series]
    shown = [interval for interval in intervals if interval is not None]
    part = f"{len(shown) / len(intervals):.2f} shown"
    return f"– ({part})" if not shown else f"{np.mean([low <= truth <= high for low, high in shown]):.3f} ({part})"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="Measured coverage of one seed's intervals.")
    parser.add_argument("--seeds", type=int, default=240, help="how many seeds (240)")
    arguments = parser.parse_args()
    checks.whole("--seeds", arguments.seeds, least=2)
    table = Table(title=f"Coverage of one seed's intervals, over {arguments.seeds} seeds", box=box.SIMPLE_HEAD)
    table.add_column("cost")
    warm, cold = played(300, arguments.seeds), played(0, arguments.seeds)
    columns = [(name, series, length) for name, series in (("warm", warm), ("cold", cold)) for length in LENGTHS]
    for name, _, length in columns:
        table.add_column(f"{name}, {length:,} rounds", justify="right")
    for place, cost in enumerate(COSTS):
        truth = float(warm[place].mean())
        table.add_row(cost, *(coverage(series[place, :, :length], truth) for _, series, length in columns))
    Console(width=120).print(table)


if __name__ == "__main__":
    run(main)
