"""Accuracy over the network's time, and when a target was reached."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fadewise.errors import FadewiseError

IN_A_ROW = 3
"""A target counts as reached when the mean of so many evaluations is above it: one alone may be luck."""


class Evaluation(NamedTuple):
    """The model on the test set after some rounds, and what the network had spent by then."""

    rounds: int
    accuracy: float
    loss: float
    airtime_s: float
    round_time_s: float
    energy: float


def evaluations(run: Path) -> list[Evaluation]:
    """The evaluations of a run, from its folder."""
    path = run / "rounds.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise FadewiseError(f"{run} is not a run's folder: {path} cannot be read: {error.strerror or error}") from None
    records = [json.loads(line) for line in lines]
    return [
        Evaluation(
            record["round"] + 1,
            record["accuracy"],
            record["loss"],
            record["total_airtime_s"],
            record["total_round_time_s"],
            record["total_energy"],
        )
        for record in records
        if record["accuracy"] is not None
    ]


def reached(evaluations: Sequence[Evaluation], accuracy: float) -> Evaluation | None:
    """The evaluation at which a target was reached; None if it never was."""
    for last in range(IN_A_ROW, len(evaluations) + 1):
        if sum(one.accuracy for one in evaluations[last - IN_A_ROW : last]) >= IN_A_ROW * accuracy:
            return evaluations[last - 1]
    return None
