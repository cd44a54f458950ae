"""What the books of a federation must say, found without a network from who answered and whose update came."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fadewise as fw
from fadewise.flower import Books, Delivery, DeviceAgent, Record, Round, Rules, gains_of_channel
from tests.flower.app.rehearsal.client_app import told

NUMBERS = 5
"""Of the model that the rehearsal's devices add to."""


def agents_of(experiment: fw.Experiment, folder: Path) -> list[DeviceAgent]:
    """An agent for every device, as the rehearsal's ClientApp makes them."""
    policy, seed = experiment.policy, experiment.seed
    assert isinstance(policy, fw.LocalPolicy)
    return [
        DeviceAgent(policy, n, seed, gains_of_channel(experiment.channel, n, seed), folder / f"rehearsal-{n}.npz")
        for n in range(experiment.devices)
    ]


def sent(model: NDArray[np.float32], device: int, number: int) -> Delivery:
    """What the rehearsal's device sends, as the server has it: the trained model, less the model."""
    trained = (model + told(len(model), device, number)).astype(np.float32)
    return Delivery(trained - model, 1.0)


class Replay:
    """The same rounds, device by device, from the records' `silent`, `refused` and `lost` alone."""

    def __init__(self, experiment: fw.Experiment, folder: Path) -> None:
        self.rules = Rules.of(experiment)
        self.agents = agents_of(experiment, folder)
        self.books = Books.opened(self.rules)
        self.model = np.zeros(NUMBERS, np.float32)

    def round(self, number: int, absent: Sequence[int] = (), lost: Sequence[int] = ()) -> Record:
        """A round in which some did not answer and some updates did not come."""
        answers = [agent.decide(number) for agent in self.agents if agent.device not in absent]
        drawn = Round(self.rules, self.books, number, answers)
        for device in drawn.draw.devices.tolist():
            self.agents[device].join(number, device in drawn.draw.asked)
        deliveries = {n: sent(self.model, n, number) for n in drawn.draw.devices.tolist() if n not in lost}
        closed = drawn.close(NUMBERS, deliveries)
        self.books = closed.books
        self.model = (self.model + closed.change).astype(np.float32)
        return closed.record

    def all(self, records: Sequence[dict[str, Any]]) -> list[str]:
        """The lines that the records must be."""
        return [
            self.round(record["round"], [*record["silent"], *map(int, record["refused"])], record["lost"]).line()
            for record in records
        ]
