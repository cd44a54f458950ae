"""Runs that survive and scale: ranks, records, checkpoints, run folders. Needs torch, which is imported late."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from fadewise.errors import FadewiseError
from fadewise.rounds import Experiment

if TYPE_CHECKING:
    from fadewise.simulation.records import Record


class Observer(Protocol):
    """Is told of every round. `simulation.observers` has those that ship."""

    def on_round(self, record: Record) -> None:
        """Called after each round."""


def simulate(experiment: Experiment, observers: Sequence[Observer] = ()) -> Iterator[Record]:
    """Trains, yielding each round's record: `for record in simulate(experiment): ...`.

    Everything is in memory, in this process, on one core (under torchrun: on all ranks, of which each
    sees the same records). Runs that are to survive are made by `fadewise run`.
    """
    require_torch()
    from fadewise.simulation.engine import simulated

    return simulated(experiment, observers)


def require_torch() -> None:
    """Refuses to go on without torch."""
    if importlib.util.find_spec("torch") is None:  # importing it takes seconds
        raise FadewiseError("training needs torch: pip install 'fadewise[train]'")
