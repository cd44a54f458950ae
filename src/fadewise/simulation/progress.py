"""What a run tells while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """How far a run has come."""

    round: int
    rounds: int
    accuracy: float | None
    airtime_s: float


class Hearer(NamedTuple):
    """Who is told how a run goes: `progress` after every round, `say` of what a person should know."""

    progress: Callable[[Progress], None]
    say: Callable[[str], None]
