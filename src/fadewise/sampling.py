"""From probabilities to participants, with the probability that each was truly to be included.

A local policy says with which probability q_n each device wants to take part; a sampling draws. The
update of a participant counts w_n/π_n, with π_n the true inclusion probability: that, and nothing else,
makes the average unbiased. Whatever can change π (an at-least-one fallback, a fixed size) says so here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.checks import PerDevice
from fadewise.errors import FadewiseError, NotAllowed
from fadewise.randomness import Stream, stream

Array = NDArray[np.float64]
Devices = NDArray[np.int64]

_NOBODY: Devices = np.empty(0, np.int64)


class Decision(NamedTuple):
    """What a policy decided: for each device the probability q, the power P and the share w_n."""

    probability: Array
    power: Array
    shares: PerDevice


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Who sends this round, how loud, and what each update counts.

    devices: the participants, in rising order; the next three have one entry for each of them.
    inclusion: π, the probability that the weights divide by; None where the choice is biased.
    power: the transmit power.
    shares: w_n, the weight in the average that is estimated (one number where all have the same).
    population_inclusion: the true probability, for every device of the population, that this round's
        draw takes it; None where the choice is biased.
    asked: the devices that send without having volunteered and whose power is still to be counted.
    fallback: whether nobody had volunteered.
    """

    devices: Devices
    inclusion: Array | None
    power: Array
    shares: PerDevice
    population_inclusion: Array | None
    asked: Devices
    fallback: bool

    @property
    def weights(self) -> Array:
        """w_n/π_n, which is 1/(N·π_n) for equal shares; a plain mean where the choice is biased."""
        if self.inclusion is None:
            return np.full(len(self.devices), 1 / max(len(self.devices), 1))
        return self.shares / self.inclusion


def drawn(
    decision: Decision,
    devices: Devices,
    population_inclusion: Array | None,
    *,
    inclusion: Array | None = None,
    asked: Devices = _NOBODY,
    fallback: bool = False,
) -> Draw:
    """A Draw of these devices; `inclusion` is for all devices, where weights use another than the true."""
    used = population_inclusion if inclusion is None else inclusion
    shares = decision.shares
    return Draw(
        devices=devices,
        inclusion=None if used is None else used[devices],
        power=decision.power[devices],
        shares=shares[devices] if isinstance(shares, np.ndarray) else shares,
        population_inclusion=population_inclusion,
        asked=asked,
        fallback=fallback,
    )


class Sampling(ABC):
    """How participants are drawn from a decision. Frozen dataclasses; their fields are settings."""

    kind: ClassVar[str]
    biased: ClassVar[bool] = False

    def check(self, devices: int) -> None:  # noqa: B027  (most samplings have nothing to refuse)
        """Refuses settings that cannot be with this many devices."""

    @abstractmethod
    def draw(self, decision: Decision, stream: Stream) -> Draw:
        """This round's participants."""


Fallback = Literal["corrected", "published", "none"]
_FALLBACKS = ("corrected", "published", "none")


def _at_least_one(decision: Decision, devices: Devices, nobody: float, fallback: Fallback, stream: Stream) -> Draw:
    """The draw of `devices`, or, if there is none, of the device with the largest q.

    `nobody` is the probability that there is none. The device asked then has π = q + nobody (among equals
    one is asked at random, each with its part of that); the paper weights it by 1/q, which biases the
    update ("published"), and does not count its power.
    """
    q = decision.probability
    if fallback == "none" or nobody <= 0:
        return drawn(decision, devices, q)
    largest = q.max()
    if largest == 0:  # no device can be reached
        return drawn(decision, devices, q)
    last_resorts = np.flatnonzero(q == largest)
    inclusion = q.copy()
    inclusion[last_resorts] += nobody / len(last_resorts)
    empty = not len(devices)
    if empty:
        one = int(stream.uniforms("fallback", 1)[0] * len(last_resorts))
        devices = last_resorts[one : one + 1]
    published = fallback == "published"
    return drawn(
        decision,
        devices,
        inclusion,
        inclusion=q if published else None,
        asked=devices if empty and not published else _NOBODY,
        fallback=empty,
    )


@dataclass(frozen=True)
class Poisson(Sampling):
    """Every device decides for itself, independently (the paper's draw). Needs no server.

    fallback: what happens when nobody volunteers. The device with the largest q is asked, weighted by
        its true inclusion probability q + Π(1 - q) and its power counted ("corrected"), or as in the
        paper ("published"); or the round is left empty ("none").
    """

    kind: ClassVar[str] = "poisson"
    fallback: Fallback = "corrected"

    def __post_init__(self) -> None:
        checks.choice("fallback", self.fallback, _FALLBACKS)

    def draw(self, decision: Decision, stream: Stream) -> Draw:
        q = decision.probability
        devices = np.flatnonzero(self.volunteers(decision, stream))
        # Π(1 - q) ≤ exp(-Σq), which is 0 in floating point long before Σq = 800.
        nobody = float(np.multiply.reduce(1 - q)) if self.fallback != "none" and q.sum() < 800 else 0.0
        return _at_least_one(decision, devices, nobody, self.fallback, stream)

    @staticmethod
    def volunteers(decision: Decision, stream: Stream) -> NDArray[np.bool_]:
        """Whether each device takes part of its own accord; a device alone finds the same as among all."""
        return stream.uniforms("draw", len(decision.probability)) < decision.probability


@dataclass(frozen=True)
class Systematic(Sampling):
    """One random number for all: devices laid end to end, each q long, and every whole step hits one.

    π = q exactly, ⌊Σq⌋ or ⌈Σq⌉ devices take part, and there is always one while Σq ≥ 1. Choose it where
    a server sees all q: the number of participants hardly varies. Needs a fallback only for Σq < 1.
    """

    kind: ClassVar[str] = "systematic"
    fallback: Fallback = "corrected"

    def __post_init__(self) -> None:
        checks.choice("fallback", self.fallback, _FALLBACKS)

    def draw(self, decision: Decision, stream: Stream) -> Draw:
        ends = np.cumsum(decision.probability)
        hits = np.floor(ends + stream.uniforms("draw", 1)[0])
        # A device is hit where the count of whole steps rises; the first device's count starts from 0.
        devices = np.flatnonzero(np.diff(hits, prepend=0.0))
        return _at_least_one(decision, devices, max(0.0, 1 - float(ends[-1])), self.fallback, stream)


@dataclass(frozen=True)
class FixedSize(Sampling):
    """A knock-out tournament that keeps every π = q exactly and takes ⌊Σq⌋ or ⌈Σq⌉ devices.

    Neighbours meet; the two probabilities a and b are pooled. If a + b < 1 the winner carries all of it
    on and the other is out; else the winner is in and the other carries a + b - 1 on. This is the pivotal
    method (Deville and Tillé, 1998) as a balanced tree, so that it takes log2(N) array operations.

    Choose it over `Systematic` where devices should meet in many combinations: in the paper's network with 4.3
    participants, 15% of the pairs of devices can never be in together (near neighbours, whose probabilities
    add up to less than 1), and under `Systematic` 93%.
    """

    kind: ClassVar[str] = "fixed"
    fallback: Fallback = "corrected"

    def __post_init__(self) -> None:
        checks.choice("fallback", self.fallback, _FALLBACKS)

    def draw(self, decision: Decision, stream: Stream) -> Draw:
        q = decision.probability
        chosen = q >= 1
        playing = np.flatnonzero((q > 0) & ~chosen)
        carried = q[playing]
        words = stream.uniforms("draw", len(playing))  # one for each duel, one for whoever is left
        while len(playing) > 1:
            duels = len(playing) // 2
            a, b = carried[0 : 2 * duels : 2], carried[1 : 2 * duels : 2]
            pool = a + b
            winner_is_in = pool >= 1
            # A device that carries 0 never wins; where both carry 0 either may.
            a_wins = np.where(winner_is_in, (1 - b) / (2 - pool), a / np.where(pool > 0, pool, 1))
            a_won = words[:duels] < a_wins
            words = words[duels:]
            pairs = playing[: 2 * duels].reshape(duels, 2)
            winner, loser = np.where(a_won, pairs.T, pairs.T[::-1])
            chosen[winner[winner_is_in]] = True
            bye = slice(2 * duels, None)
            playing = np.concatenate([np.where(winner_is_in, loser, winner), playing[bye]])
            carried = np.concatenate([np.where(winner_is_in, pool - 1, pool), carried[bye]])
        if len(playing):
            chosen[playing] = words[:1] < carried
        nobody = max(0.0, 1 - float(q.sum()))
        return _at_least_one(decision, np.flatnonzero(chosen), nobody, self.fallback, stream)


@dataclass(frozen=True)
class TopK(Sampling):
    """The `participants` devices with the largest q, always. Biased: it says so and is averaged plainly.

    Every participant counts the same: data shares enter q, and so who takes part, but not the weights.

    Choose it to see what the bias costs: rarely chosen devices' data hardly enter the model.
    """

    kind: ClassVar[str] = "top-k"
    biased: ClassVar[bool] = True
    participants: int = 1

    def __post_init__(self) -> None:
        checks.whole("participants", self.participants, least=1)

    def check(self, devices: int) -> None:
        if self.participants > devices:
            raise NotAllowed("participants", self.participants, f"at most the number of devices, {devices}")

    def draw(self, decision: Decision, stream: Stream) -> Draw:
        q = decision.probability
        best = np.argsort(-q, kind="stable")[: self.participants]
        return drawn(decision, np.sort(best[q[best] > 0]), None)


def simple_random(devices: Devices, size: int, words: Array) -> Devices:
    """`size` of the given devices, every subset as likely as any other: those with the smallest words."""
    if size >= len(devices):
        return devices
    return np.sort(devices[np.argpartition(words, size)[:size]])


SAMPLINGS: dict[str, type[Sampling]] = {s.kind: s for s in (Poisson, Systematic, FixedSize, TopK)}


def draw(decision: Decision, seed: int, round: int, sampling: Sampling | None = None) -> Draw:
    """Draws a round's participants among all devices: the same seed and round give the same draw.

    A device alone cannot draw, as it does not know whether somebody else volunteers. It asks
    `Poisson.volunteers(decision, Stream(seed, round, first_device=n))`.
    """
    words, sampling = stream(seed, round), sampling or Poisson()
    decision = _checked(decision)
    return sampling.draw(decision, words)


def _checked(decision: Decision) -> Decision:
    """A decision that somebody may have made by hand."""
    if not isinstance(decision, Decision):
        raise NotAllowed("the decision", decision, "a Decision(probability, power, shares)")
    probability = checks.per_device("probability", decision.probability, least=0, most=1)
    if not isinstance(probability, np.ndarray):
        raise NotAllowed("probability", decision.probability, "an array, one number a device")
    devices = len(probability)
    power = np.broadcast_to(
        checks.sized("power", checks.per_device("power", decision.power, least=0), devices), devices
    )
    shares = checks.sized("shares", checks.per_device("shares", decision.shares, above=0), devices)
    # Shares are of all devices' sum. Half a device's share, or what data shares may be off by, is rounding.
    missing = 1 - float(np.broadcast_to(shares, devices).sum())
    if missing > (shares / 2 if not isinstance(shares, np.ndarray) else 2e-6):
        raise FadewiseError(
            f"the decision is for {devices} of the devices only, as its shares add up to {1 - missing:.6g}; "
            "a draw is among all of them, and one alone asks Poisson.volunteers(decision, Stream(seed, round, device))"
        )
    return Decision(probability, power, shares)
