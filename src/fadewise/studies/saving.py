"""What scheduling saves: the paper's policy against uniform choice, trained to the same accuracy.

    python -m fadewise.studies.saving --out out/saving --plot out/saving.svg

Trains on the built-in handwriting set, 100 writers over heterogeneous channels, with as many devices a round
on average and the same average power for both. One run on each core; less than a minute on two. Runs that are in the
folder already are not made again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from fadewise import config
from fadewise.errors import FadewiseError
from fadewise.reports.curves import Evaluation, evaluations, reached
from fadewise.simulation import command

POLICIES = {"uniform choice": "handwriting/het-uniform", "the paper's policy": "handwriting/het"}
TARGETS = (0.5, 0.6, 0.65)


def made(out: Path, seed: int) -> dict[str, list[Evaluation]]:
    """Both runs' evaluations, made where they are missing."""
    jobs = [
        command.job(source, config.with_settings(config.read(source), {"seed": seed}), out / Path(source).name, name)
        for name, source in POLICIES.items()
    ]
    command.make(jobs)
    return {job.name: evaluations(job.folder) for job in jobs}


def table(curves: dict[str, list[Evaluation]]) -> Table:
    """Airtime to each target, and the ratio."""
    result = Table(title="Airtime to accuracy, s", box=box.SIMPLE_HEAD)
    result.add_column("accuracy", justify="right")
    for name in curves:
        result.add_column(name, justify="right")
    result.add_column("ratio", justify="right")
    result.add_column("saving", justify="right")
    for target in TARGETS:
        uniform, paper = (reached(curve, target) for curve in curves.values())
        cells = ["never" if at is None else f"{at.airtime_s:.1f} (round {at.rounds})" for at in (uniform, paper)]
        ratio = None if uniform is None or paper is None else paper.airtime_s / uniform.airtime_s
        saving = ("–", "–") if ratio is None else (f"{ratio:.2f}", f"{1 - ratio:.0%}")
        result.add_row(f"{target:.2f}", *cells, *saving)
    return result


def main() -> None:
    """Trains, prints the table and draws the figure."""
    parser = argparse.ArgumentParser(description="Airtime to the same accuracy, scheduled and not.")
    parser.add_argument("--out", type=Path, default=Path("runs/saving"), help="the folder of the runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="where to draw the figure (.svg, .png or .pdf)")
    arguments = parser.parse_args()
    try:
        curves = made(arguments.out, arguments.seed)
        Console().print(table(curves))
        if arguments.plot is not None:
            from fadewise.reports import plots

            drawn = {
                name: ([one.airtime_s for one in curve], [one.accuracy for one in curve])
                for name, curve in curves.items()
            }
            plots.save(plots.of_accuracy(drawn, TARGETS[-1]), arguments.plot)
            print(f"Figure: {arguments.plot}")
    except FadewiseError as error:
        raise SystemExit(f"{parser.prog}: {error}") from None


if __name__ == "__main__":
    main()
