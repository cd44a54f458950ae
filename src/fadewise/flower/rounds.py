"""The server's side of a round: who is believed, who sends, what each update counts, and the books.

    round = Round(rules, books, number, answers)    # after the decisions: round.draw says who sends
    closed = round.close(deliveries)                # after the updates: closed.change, closed.books, closed.record

Nothing here knows of a network, waits, or changes what it is given. What the same answers and deliveries
give is the same, to the bit, in whatever order they came.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise.flower import delivery
from fadewise.flower.answers import Answer
from fadewise.flower.rules import Rules
from fadewise.flower.screening import screened, update_complaint
from fadewise.learning import aggregation
from fadewise.randomness import Stream
from fadewise.sampling import Decision, Draw, Poisson

_NORMS = 64
"""Over how many updates the usual norm is a median, and"""
_FEW = 8
"""how many it takes to know what is usual."""


class Books(NamedTuple):
    """What the server remembers from round to round, besides the model.

    deliveries: of every device (see `delivery`).
    heard: how many volunteered rounds each device has told of, this round's included; -1 after it was refused,
        as what it volunteered meanwhile was not lost.
    unheard_rounds: for how many rounds each device has not been believed since it last was.
    delivered, lost, refused: how often each device's update came, was announced and did not come, and how
        often the device was not believed.
    spent: each device's transmit power, expected over the draw and summed over the rounds.
    norms: of the last updates, NaN where there have been fewer; `updates` in all.
    airtime_s: the network's time so far.
    """

    deliveries: delivery.Deliveries
    heard: NDArray[np.int64]
    unheard_rounds: NDArray[np.int64]
    delivered: NDArray[np.int64]
    lost: NDArray[np.int64]
    refused: NDArray[np.int64]
    spent: NDArray[np.float64]
    norms: NDArray[np.float64]
    updates: Any
    airtime_s: Any

    @classmethod
    def opened(cls, rules: Rules) -> Books:
        """Before the first round."""
        heard, unheard_rounds, delivered, lost, refused = np.zeros((5, rules.devices), np.int64)
        return cls(
            deliveries=delivery.nothing_known(rules.devices, rules.delivery_intervals),
            heard=heard,
            unheard_rounds=unheard_rounds,
            delivered=delivered,
            lost=lost,
            refused=refused,
            spent=np.zeros(rules.devices),
            norms=np.full(_NORMS, np.nan),
            updates=0,
            airtime_s=0.0,
        )


class Delivery(NamedTuple):
    """What a participant sent: its update, as one vector of float32, and its mean training loss (NaN if unsaid)."""

    update: NDArray[np.float32]
    loss: float = math.nan


class Record(NamedTuple):
    """A round on devices. Where not otherwise said, lists have one entry for each participant, in rising order.

    answered: how many devices were believed. refused: why others were not, by device. silent: who else did not
        answer in time.
    participants: who volunteered, or had to be asked (`fallback`).
    probability, power, inclusion: q, P and π. delivery: 1/ρ, by which the weight is multiplied.
    weights: what each update counts, w/(π·ρ), or w/floor if that is less.
    delivered, lost: of the participants, whose update counted and whose did not come.
    losses, update_norms: of the delivered, in their order.
    cut_share: the part of the average that the floor cuts off in expectation, of all who answered.
    excluded_share: the part of the average whose devices were out of reach, silent or refused.
    airtime_s: how long the band was busy with the participants' updates, as the devices have it from their
        channels: the network's time, not the wall's. In all so far: `total_airtime_s`.
    mean_power: the expected transmit power (with the fallback), averaged over devices and rounds so far.
    metrics: what the model was found to be worth after the round, where it was evaluated.
    """

    round: int
    answered: int
    refused: dict[str, str]
    silent: list[int]
    participants: list[int]
    probability: list[float]
    power: list[float]
    inclusion: list[float]
    delivery: list[float]
    weights: list[float]
    fallback: bool
    delivered: list[int]
    lost: list[int]
    losses: list[float | None]
    update_norms: list[float]
    cut_share: float
    excluded_share: float
    airtime_s: float
    total_airtime_s: float
    mean_power: float
    metrics: Mapping[str, float] = {}

    def line(self) -> str:
        """The record as a line of `rounds.jsonl`: the same record, the same bytes."""
        return json.dumps(self._asdict(), allow_nan=False, separators=(",", ":"))


class Closed(NamedTuple):
    """What a round came to: what is added to the model, the books after it, and what is told of it."""

    change: NDArray[np.float64]
    books: Books
    record: Record


class Round:
    """A round from the devices' answers on. Devices that did not answer count as out of reach.

    draw: who sends, with the true inclusion probabilities; `draw.asked` has not volunteered and must be
        told that it is asked, so that it counts its power.
    weights: what the update of each of `draw.devices` counts.
    refused: why a device is not believed, by device.
    """

    def __init__(self, rules: Rules, books: Books, number: int, answers: Sequence[Answer]) -> None:
        self.number = number
        self._rules = rules
        self._books = books
        self._shares = np.broadcast_to(rules.policy.shares, rules.devices)
        # A device that answers every round cannot claim attempts that went unheard, and weigh more for them.
        most_volunteered = np.where(books.heard < 0, number, books.heard + books.unheard_rounds)
        self.answers, self.refused = screened(rules, number, most_volunteered, answers)
        probability, power = np.zeros((2, rules.devices))
        for device, answer in self.answers.items():
            probability[device], power[device] = answer.probability, answer.power
        self.decision = Decision(probability, power, rules.policy.shares)
        self.draw: Draw = Poisson(rules.fallback).draw(self.decision, Stream(rules.seed, number))
        self.delivery = (
            delivery.reciprocal(books.deliveries)[self.draw.devices]
            if rules.delivery_intervals
            else np.ones(len(self.draw.devices))
        )
        assert self.draw.inclusion is not None  # Poisson draws are never biased
        self.weights = self.draw.shares / np.maximum(self.draw.inclusion / self.delivery, rules.floor)

    def close(self, size: int, deliveries: Mapping[int, Delivery]) -> Closed:
        """The round's end, with the updates that came in time, by device.

        size: how many numbers the model has.
        """
        devices = self.draw.devices.tolist()
        total = np.zeros(size, np.int64)
        refused = {device: "sent an update that nobody asked for" for device in deliveries if device not in devices}
        refused |= self.refused
        delivered: list[int] = []
        norms: list[float] = []
        losses: list[float | None] = []
        usual = float(np.nanmedian(self._books.norms)) if int(self._books.updates) >= _FEW else math.nan
        most = aggregation.LARGEST / max(len(devices), 1)
        for device, weight in zip(devices, self.weights.tolist(), strict=True):
            if device not in deliveries:
                continue
            update, loss = deliveries[device]
            if update.shape != (size,):
                refused[device] = (
                    f"sent an update of shape {update.shape}; the model has {size} numbers"
                    if len(update)
                    else "sent no update with the model's names and shapes"
                )
                continue
            norm = math.sqrt(float(np.square(update, dtype=np.float64).sum()))
            complaint = update_complaint(self._rules, norm, loss, usual, weight, most)
            if complaint is not None:
                refused[device] = complaint
                continue
            aggregation.add(total, update, weight)
            delivered.append(device)
            norms.append(norm)
            losses.append(None if math.isnan(loss) else float(loss))
        lost = [device for device in devices if device not in deliveries]
        books = self._entered(delivered, lost, refused, norms)
        record = self._recorded(books, delivered, lost, refused, norms, losses)
        return Closed(self._rules.server_step_size * aggregation.value_of(total), books, record)

    def _entered(self, delivered: list[int], lost: list[int], refused: dict[int, str], norms: list[float]) -> Books:
        """The books after the round."""
        books, rules = self._books, self._rules
        heard, unheard_rounds = books.heard.copy(), books.unheard_rounds + 1
        unheard = np.zeros(rules.devices, np.int64)
        for device, answer in self.answers.items():
            if heard[device] >= 0:
                # A device whose file was removed counts from 0 again.
                unheard[device] = max(answer.volunteered - heard[device], 0)
            heard[device] = answer.volunteered + answer.takes_part
            unheard_rounds[device] = 0
        heard[[device for device in self.refused if 0 <= device < rules.devices]] = -1
        counts = {"delivered": delivered, "lost": lost, "refused": [d for d in refused if 0 <= d < rules.devices]}
        counted = {name: getattr(books, name).copy() for name in counts}
        for name, of_these in counts.items():
            counted[name][of_these] += 1
        last = books.norms.copy()
        for index, norm in enumerate(norms):
            last[(int(books.updates) + index) % _NORMS] = norm
        assert self.draw.population_inclusion is not None
        return Books(
            deliveries=delivery.attempted(books.deliveries, unheard, lost, delivered),
            heard=heard,
            unheard_rounds=unheard_rounds,
            **counted,
            spent=books.spent + self.decision.power * self.draw.population_inclusion,
            norms=last,
            updates=int(books.updates) + len(norms),
            airtime_s=float(books.airtime_s) + self.airtime_s,
        )

    @property
    def airtime_s(self) -> float:
        """How long the participants are on the air, one after the other."""
        return float(np.array([self.answers[device].airtime_s for device in self.draw.devices.tolist()]).sum())

    def _recorded(
        self,
        books: Books,
        delivered: list[int],
        lost: list[int],
        refused: dict[int, str],
        norms: list[float],
        losses: list[float | None],
    ) -> Record:
        draw, rules = self.draw, self._rules
        assert draw.inclusion is not None
        out_of_reach = np.flatnonzero(self.decision.probability == 0)
        known = self.answers.keys() | refused.keys()
        return Record(
            round=self.number,
            answered=len(self.answers),
            refused={str(device): why for device, why in sorted(refused.items())},
            silent=[device for device in range(rules.devices) if device not in known],
            participants=draw.devices.tolist(),
            probability=self.decision.probability[draw.devices].tolist(),
            power=draw.power.tolist(),
            inclusion=draw.inclusion.tolist(),
            delivery=self.delivery.tolist(),
            weights=self.weights.tolist(),
            fallback=draw.fallback,
            delivered=delivered,
            lost=lost,
            losses=losses,
            update_norms=norms,
            cut_share=self._cut_share(),
            excluded_share=float(self._shares[out_of_reach].sum()),
            airtime_s=self.airtime_s,
            total_airtime_s=float(books.airtime_s),
            mean_power=float(books.spent.mean()) / (self.number + 1),
        )

    def _cut_share(self) -> float:
        """Σ w·(1 - π·ρ/floor) over the devices whose π·ρ is below the floor: in expectation their updates lack that."""
        rules = self._rules
        if rules.floor == 0:
            return 0.0
        assert self.draw.population_inclusion is not None
        arriving = self.draw.population_inclusion / (
            delivery.reciprocal(self._books.deliveries) if rules.delivery_intervals else 1.0
        )
        below = (self.decision.probability > 0) & (arriving < rules.floor)
        return float((self._shares[below] * (1 - arriving[below] / rules.floor)).sum())
