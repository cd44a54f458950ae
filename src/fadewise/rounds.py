"""The loop: channel → policy → draw → airtime → training → feedback. The only place where these parts meet."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise import checks, memory
from fadewise.access import TDMA, Access, Times
from fadewise.channels import Channel
from fadewise.errors import FadewiseError
from fadewise.policies import CentralPolicy, Feedback, Policy
from fadewise.randomness import LARGEST_SEED, Stream
from fadewise.sampling import Decision, Draw, Poisson, Sampling

if TYPE_CHECKING:
    from fadewise.learning.training import Training

_BEFORE_THE_START = 2**63
"""Rounds from this address on are those that a warm start has seen; no run comes that far."""

_NUMBERS_A_DEVICE = 12
"""What a round has in memory at once, at the least: gains, state, decision, draw and what the costs need."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """Everything that determines a run: the parts, how many devices and rounds, and the seed.

    training: what the participants train; without it the experiment is a schedule alone.
    """

    devices: int
    channel: Channel[Any]
    policy: Policy[Any]
    sampling: Sampling = Poisson()
    access: Access = TDMA()
    rounds: int = 1000
    seed: int = 0
    training: Training | None = None

    def __post_init__(self) -> None:
        self.checked_devices(self.devices)
        checks.whole("rounds", self.rounds, least=1, most=10**9)
        checks.whole("seed", self.seed, least=0, most=LARGEST_SEED)
        if self.policy.population != self.devices:
            raise FadewiseError(
                f"the policy is for a population of {self.policy.population}; it must be for {self.devices} devices"
            )
        if isinstance(self.policy, CentralPolicy) and self.sampling != Poisson():
            raise FadewiseError(
                f"policy {self.policy.kind} draws its participants itself; it takes no sampling but the default"
            )
        self.sampling.check(self.devices)
        for part in (self.policy, self.channel, self.access):
            _check_sizes(part, self.devices)
        warm_start_rounds = self.policy.warm_start_rounds
        self.channel.check(self.devices, self.rounds, warm_start_rounds)
        memory.needed(_NUMBERS_A_DEVICE * self.devices, f"devices = {self.devices}")
        memory.needed(
            (_NUMBERS_A_DEVICE + warm_start_rounds) * self.devices,
            f"warm_start_rounds = {warm_start_rounds} with devices = {self.devices}",
        )

    @staticmethod
    def checked_devices(devices: object) -> int:
        """The number of devices, which other parts are made with before the experiment is."""
        return checks.whole("devices", devices, least=1, most=10**9)


class States(NamedTuple):
    """What the parts remember between rounds; all that a checkpoint of a schedule needs."""

    channel: Any
    policy: Any


class Round(NamedTuple):
    """What happened in one round.

    excluded_share: the part of the devices' shares that could not be reached, and so not be estimated.
    """

    number: int
    gains: NDArray[np.float64]
    decision: Decision
    draw: Draw
    times: Times
    excluded_share: float


def begin(experiment: Experiment, seed: int | None = None) -> States:
    """The states before round 0."""
    seed = experiment.seed if seed is None else seed
    channel, policy = experiment.channel, experiment.policy
    policy_state = policy.init(experiment.devices)
    if policy.warm_start_rounds:
        seen = np.empty((policy.warm_start_rounds, experiment.devices))
        state = channel.init(experiment.devices, Stream(seed, _BEFORE_THE_START))
        for index in range(policy.warm_start_rounds):
            seen[index], state = channel.step(state, experiment.devices, Stream(seed, _BEFORE_THE_START + index))
        policy_state = policy.warm_started(policy_state, seen)
    return States(channel.init(experiment.devices, Stream(seed, 0)), policy_state)


Trainer = Callable[[Round], Feedback]
"""Trains a round's participants and says how it went."""


def play(
    experiment: Experiment,
    states: States,
    number: int,
    seed: int | None = None,
    train: Trainer = lambda played: Feedback(played.draw),
) -> tuple[Round, States]:
    """One round, from the states before it to those after it."""
    policy = experiment.policy
    stream = Stream(experiment.seed if seed is None else seed, number)
    gains, channel_state = experiment.channel.step(states.channel, experiment.devices, stream)
    decision, draw, policy_state = policy.select(states.policy, gains, stream, experiment.sampling)
    times = experiment.access.times(policy.link, gains, draw)
    played = Round(number, gains, decision, draw, times, _excluded_share(gains, decision))
    policy_state = policy.observe(policy_state, train(played))
    return played, States(channel_state, policy_state)


def play_all(experiment: Experiment, seed: int | None = None) -> Iterator[Round]:
    """All rounds of an experiment, one after the other."""
    states = begin(experiment, seed)
    for number in range(experiment.rounds):
        played, states = play(experiment, states, number, seed)
        yield played


def _excluded_share(gains: NDArray[np.float64], decision: Decision) -> float:
    if gains.min() > 0:
        return 0.0
    return float(np.broadcast_to(decision.shares, gains.shape)[gains == 0].sum())


def _check_sizes(part: Any, devices: int) -> None:
    """Refuses a per-device setting for another number of devices, in a part or in the parts it holds."""
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if isinstance(value, np.ndarray):
            checks.sized(field.name, value, devices)
        elif dataclasses.is_dataclass(value):
            _check_sizes(value, devices)
