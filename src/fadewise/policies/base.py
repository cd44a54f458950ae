"""What every policy is: parameters in a frozen dataclass, state in a NamedTuple, three pure methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fadewise.checks import PerDevice
from fadewise.link import Link
from fadewise.randomness import Stream
from fadewise.sampling import Decision, Draw, Sampling

LONGEST_WARM_START = 100_000
"""Rounds that a policy may want to see before the first: they are all in memory at once."""

State = TypeVar("State", bound=tuple[Any, ...])


class Feedback(NamedTuple):
    """What a round told: who sent and who had to be asked (`draw.asked`), and how their training went.

    losses: the mean training loss of each of `draw.devices`; None where nothing was trained.
    update_norms: the Euclidean norm of each one's update; None where nothing was trained.
    """

    draw: Draw
    losses: NDArray[np.float64] | None = None
    update_norms: NDArray[np.float64] | None = None


class Policy(ABC, Generic[State]):
    """Who should send in a round, and how loud.

    A policy is a frozen dataclass. Its fields are its settings: each is a key of the `[policy]` table,
    but for `link` and `population`, which the experiment supplies.
    """

    kind: ClassVar[str]
    """Its name in configurations."""
    keeps_mean_power: ClassVar[bool]
    """Whether it promises that average power comes to at most the link's `mean_power`."""
    warm_start_rounds: int = 0
    """How many rounds of channel it wants to see (through `warm_started`) before the first round."""

    link: Link
    population: int

    @abstractmethod
    def init(self, devices: int) -> State:
        """The state before the first round, for all devices or (local policies) for some of them."""

    @abstractmethod
    def select(
        self, state: State, gains: NDArray[np.float64], stream: Stream, sampling: Sampling
    ) -> tuple[Decision, Draw, State]:
        """Who sends this round, given every device's channel gain."""

    def observe(self, state: State, feedback: Feedback) -> State:
        """The state after the round has told how it went."""
        return state

    def warm_started(self, state: State, gains: NDArray[np.float64]) -> State:
        """The state before the first round when these gains (a row a round) have been seen before."""
        return state

    @property
    def shares(self) -> PerDevice:
        """The weight w_n of each device in the average that is to be estimated."""
        return 1 / self.population


class LocalPolicy(Policy[State]):
    """A policy by which each device decides from its own channel and its own state alone.

    `decide` is elementwise: deciding for N devices at once gives the same bits as each deciding alone.
    """

    @abstractmethod
    def decide(self, state: State, gains: NDArray[np.float64]) -> tuple[Decision, State]:
        """With which probability each device takes part, and at which power it would send."""

    def select(
        self, state: State, gains: NDArray[np.float64], stream: Stream, sampling: Sampling
    ) -> tuple[Decision, Draw, State]:
        decision, state = self.decide(state, gains)
        return decision, sampling.draw(decision, stream), state


class CentralPolicy(Policy[State]):
    """A policy that sees every device's channel and draws the participants itself."""
