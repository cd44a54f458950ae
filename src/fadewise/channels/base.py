"""What every channel is: parameters in a frozen dataclass, state in a NamedTuple, two pure methods."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fadewise.randomness import Stream

State = TypeVar("State", bound=tuple[Any, ...])


class Channel(ABC, Generic[State]):
    """How good each device's link is in a round: its power gain g = |h|², 0 where it is unreachable.

    A channel is a frozen dataclass whose fields are its settings: each is a key of the `[channel]` table,
    but for `link`, which the experiment supplies. A field that is a channel itself is a table in the table.
    """

    kind: ClassVar[str]
    """Its name in configurations."""

    def check(self, devices: int, rounds: int, warm_start_rounds: int) -> None:
        """Refuses what this channel cannot give to an experiment, before its first round; held channels too."""
        for inner in self.held():
            inner.check(devices, rounds, warm_start_rounds)

    def held(self) -> list[Channel[Any]]:
        """The channels that this one has among its fields."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return [value for value in values if isinstance(value, Channel)]

    @abstractmethod
    def init(self, devices: int, stream: Stream) -> State:
        """The state before the first round; `stream` is that round's."""

    @abstractmethod
    def step(self, state: State, devices: int, stream: Stream) -> tuple[NDArray[np.float64], State]:
        """The gains of a round's `devices` devices, from `stream.first_device` on, and the next state."""
