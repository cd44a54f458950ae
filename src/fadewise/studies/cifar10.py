"""CIFAR-10 over heterogeneous channels: the airtime that the paper's policy and uniform choice need.

    python -m fadewise.studies.cifar10 --seeds 0-2 --out runs/cifar10

The presets paper/cifar10-het (λ = 100, exact) and paper/cifar10-het-uniform (M = 2.41) under the same seeds:
the same channels, data, minibatches and initial model. Airtime is that of the first evaluation (every 25 rounds)
that reaches an accuracy. Runs that are there are not made again, and one that was stopped goes on.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from fadewise import config
from fadewise.errors import FadewiseError
from fadewise.reports.curves import Evaluation, evaluations
from fadewise.simulation import command

TARGETS = (0.5, 0.6, 0.65, 0.7)
PRESETS = {"λ = 100": "paper/cifar10-het", "uniform": "paper/cifar10-het-uniform"}


def made(out: Path, seeds: Sequence[int], rounds: int) -> dict[tuple[str, int], list[Evaluation]]:
    """The evaluations of every run, made where they are missing."""
    jobs = {
        (name, seed): command.job(
            preset,
            config.with_settings(config.read(preset), {"seed": seed, "rounds": rounds}),
            out / Path(preset).name / f"seed-{seed}",
            f"{name}, seed {seed}",
        )
        for seed in seeds
        for name, preset in PRESETS.items()
    }
    command.make(list(jobs.values()))
    return {key: evaluations(job.folder) for key, job in jobs.items()}


def first(curve: Sequence[Evaluation], accuracy: float) -> Evaluation | None:
    """The first evaluation that reaches an accuracy."""
    return next((one for one in curve if one.accuracy >= accuracy), None)


def table(curves: dict[tuple[str, int], list[Evaluation]]) -> Table:
    """A line for each run, and for each seed the ratios."""
    result = Table(title="Airtime to accuracy, s (round)", box=box.SIMPLE_HEAD)
    result.add_column("")
    result.add_column("seed", justify="right")
    for target in TARGETS:
        result.add_column(f"{target:.2f}", justify="right")
    result.add_column("best", justify="right")
    for (name, seed), curve in curves.items():
        at = [first(curve, target) for target in TARGETS]
        cells = ["–" if one is None else f"{one.airtime_s:.0f} ({one.rounds})" for one in at]
        result.add_row(name, str(seed), *cells, f"{max(one.accuracy for one in curve):.3f}")
    seeds = sorted({seed for _, seed in curves})
    ratios: dict[float, list[float]] = {target: [] for target in TARGETS}
    for seed in seeds:
        cells = []
        for target in TARGETS:
            paper, uniform = (first(curves[name, seed], target) for name in PRESETS)
            if paper is None or uniform is None:
                cells.append("–")
            else:
                ratios[target].append(paper.airtime_s / uniform.airtime_s)
                cells.append(f"{ratios[target][-1]:.2f}")
        result.add_row("ratio", str(seed), *cells, "")
    means = [_mean(ratios[target]) if len(ratios[target]) == len(seeds) else "–" for target in TARGETS]
    result.add_row("ratio, geometric mean", "", *means, "")
    return result


def _mean(ratios: Sequence[float]) -> str:
    return f"{math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios)):.2f}"


def main() -> None:
    """Trains and prints the table."""
    parser = argparse.ArgumentParser(description="Airtime to accuracy on CIFAR-10, scheduled and not.")
    parser.add_argument("--out", type=Path, default=Path("runs/cifar10"), help="the folder of the runs")
    parser.add_argument("--seeds", default="0-2")
    parser.add_argument("--rounds", type=int, default=2000)
    arguments = parser.parse_args()
    try:
        curves = made(arguments.out, config.parse_seeds(arguments.seeds), arguments.rounds)
    except FadewiseError as error:
        raise SystemExit(f"{parser.prog}: {error}") from None
    Console(width=100).print(table(curves))


if __name__ == "__main__":
    main()
