"""A study that trains in seconds, and `fadewise reproduce` for it: `python tests/reproduction/tiny.py OUT ROUNDS`."""

from __future__ import annotations

import sys
from pathlib import Path

from fadewise import errors, studies
from fadewise.reports import markdown, plots
from fadewise.reports.plots import Panel
from fadewise.reproduction import command
from fadewise.reproduction.study import Line, Numbers, Page, Scale, Study

SMALL = {
    "data.samples_per_writer": 20.0,
    "model": {"kind": "logistic"},
    "training.steps": 2,
    "training.batch_size": 8,
    "training.evaluate_every": 5,
}


def study(rounds: int, name: str = "tiny") -> Study:
    def lines(scale: Scale) -> list[Line]:
        return [
            Line("uniform", "handwriting/het-uniform", SMALL, rounds, seeds=2),
            Line("proposed", "handwriting/het", SMALL, rounds, seeds=2, judged=True),
        ]

    def page(numbers: Numbers) -> Page:
        arms = numbers.arms(lines(numbers.scale))
        figure = plots.of_arms([Panel("tiny", arms, "accuracy", "airtime_s")], numbers.note, numbers.moving_average)
        return Page(markdown.of_targets(arms, [0.01], "airtime_s"), {name: figure})

    return Study(name, "A tiny study", "About it.", "too small to mean anything", lines, page)


def main() -> None:
    out, rounds = Path(sys.argv[1]), int(sys.argv[2])
    studies.by_name = lambda: {"tiny": study(rounds)}
    try:
        command.reproduce(["tiny"], "quick", None, 2, out, None)
    except errors.FadewiseError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
