"""What is remembered of a round: everything about the schedule and the learning, nothing of the wall clock."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import numpy as np

from fadewise.policies import Feedback
from fadewise.rounds import Round


class Record(NamedTuple):
    """A round of training. Lists have one entry for each participant.

    participants: their numbers, in rising order.
    inclusion: the probability π with which each was to be included, that its weight divides by; None
        where the choice is biased.
    weights: what each update counts, w/π.
    power: the transmit power of each.
    losses, update_norms: the mean training loss of each over its local steps, and the norm of its update.
    effective_sample_size: (Σw)²/Σw², how many equal weights would scatter as much.
    fallback: whether nobody had volunteered.
    excluded_share: the part of the devices' shares that could not be reached.
    airtime_s, round_time_s: the network's time for this round; in all so far: `total_airtime_s`,
        `total_round_time_s`.
    energy: Σ P·airtime of the participants, in joules if the link is in watts; in all: `total_energy`.
    mean_power: the expected transmit power (with the fallback), averaged over devices and rounds so far.
    accuracy, loss: on the test set after this round; None where the model was not evaluated.
    """

    round: int
    participants: list[int]
    inclusion: list[float] | None
    weights: list[float]
    power: list[float]
    losses: list[float]
    update_norms: list[float]
    effective_sample_size: float
    fallback: bool
    excluded_share: float
    airtime_s: float
    total_airtime_s: float
    round_time_s: float
    total_round_time_s: float
    energy: float
    total_energy: float
    mean_power: float
    accuracy: float | None
    loss: float | None

    def line(self) -> str:
        """The record as a line of `rounds.jsonl`: the same record, the same bytes."""
        return json.dumps(self._asdict(), allow_nan=False, separators=(",", ":"))


def parsed(line: str) -> Record:
    """The record of a line of `rounds.jsonl`."""
    return Record(**json.loads(line))


class Totals(NamedTuple):
    """The network's time and energy since the first round."""

    airtime_s: Any
    round_time_s: Any
    energy: Any


NOTHING = Totals(0.0, 0.0, 0.0)


def recorded(
    played: Round, feedback: Feedback, before: Totals, mean_power: float, accuracy: float | None, loss: float | None
) -> tuple[Record, Totals]:
    """The record of a round, and the totals after it."""
    draw, times = played.draw, played.times
    energy = math.fsum(draw.power * times.upload_s)
    totals = Totals(
        float(before.airtime_s) + times.airtime_s,
        float(before.round_time_s) + times.round_time_s,
        float(before.energy) + energy,
    )
    weights = draw.weights
    squares = float(np.square(weights).sum())
    record = Record(
        round=played.number,
        participants=draw.devices.tolist(),
        inclusion=None if draw.inclusion is None else draw.inclusion.tolist(),
        weights=weights.tolist(),
        power=draw.power.tolist(),
        losses=[] if feedback.losses is None else feedback.losses.tolist(),
        update_norms=[] if feedback.update_norms is None else feedback.update_norms.tolist(),
        effective_sample_size=float(weights.sum()) ** 2 / squares if squares else 0.0,
        fallback=draw.fallback,
        excluded_share=played.excluded_share,
        airtime_s=times.airtime_s,
        total_airtime_s=totals.airtime_s,
        round_time_s=times.round_time_s,
        total_round_time_s=totals.round_time_s,
        energy=energy,
        total_energy=totals.energy,
        mean_power=mean_power,
        accuracy=accuracy,
        loss=loss,
    )
    return record, totals
