"""Algorithm 1, round by round: schedule, train, add up, evaluate, record. The same on every rank.

Every rank holds the server's whole state and computes the same schedule. Each trains its share of the
participants; one sum over the ranks joins what came of it. The sum is of whole numbers, so that its bits
do not depend on how many ranks there are, nor on who trained whom.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fadewise.data.base import Federation
from fadewise.errors import FadewiseError
from fadewise.learning import aggregation
from fadewise.learning.local import Learner
from fadewise.learning.memory import keep_freed_memory
from fadewise.learning.training import Training
from fadewise.ledger import Ledger
from fadewise.policies import Feedback
from fadewise.randomness import Stream
from fadewise.rounds import Experiment, Round, States, begin, play
from fadewise.simulation import Observer
from fadewise.simulation.ranks import Ranks, join
from fadewise.simulation.records import NOTHING, Record, Totals, recorded


class Memory(NamedTuple):
    """All that a run remembers from one round to the next; a checkpoint is these arrays.

    round: the number of the next round.
    model: the global model, x.
    states: of the channel and the policy.
    spent: each device's transmit power, expected over the draw and summed over the rounds so far.
    """

    round: Any
    model: NDArray[np.float32]
    states: States
    spent: NDArray[np.float64]
    totals: Totals


class Walltime(NamedTuple):
    """Where a round's time on the wall went, on this rank; cpu_s is what it had of a processor in that time."""

    wall_s: float
    training_s: float
    evaluation_s: float
    cpu_s: float


class _Trained(NamedTuple):
    """What training a round's participants gave: the new model, and how it went."""

    model: NDArray[np.float32]
    feedback: Feedback
    training_s: float


class Simulation:
    """A run in memory. `memory` is its state, `step` plays one round, `rounds` all that remain."""

    def __init__(self, experiment: Experiment, ranks: Ranks) -> None:
        self.experiment = experiment
        self.training = _training_of(experiment)
        self.ranks = ranks
        self.federation = _federation_of(self.training, experiment)
        self.learner = Learner(self.training, self.federation, experiment.seed)
        self.ledger = Ledger(experiment.policy, experiment.access)
        model = self.learner.initial_model()
        self.memory = Memory(0, model, begin(experiment), self.ledger.spent.copy(), NOTHING)
        self.walltime = Walltime(0.0, 0.0, 0.0, 0.0)

    def resume(self, memory: Memory) -> None:
        """Goes on from what a checkpoint holds."""
        self.memory = memory
        self.ledger.spent[:] = memory.spent

    @property
    def done(self) -> bool:
        """Whether the last round has been played."""
        return int(self.memory.round) >= self.experiment.rounds

    def rounds(self) -> Iterator[Record]:
        """Plays the rounds that remain."""
        while not self.done:
            yield self.step()

    def step(self) -> Record:
        """Plays a round."""
        began, cpu_began = time.perf_counter(), time.process_time()
        experiment, memory = self.experiment, self.memory
        number = int(memory.round)
        trained: list[_Trained] = []

        def train(played: Round) -> Feedback:
            trained.append(self._train(memory.model, played))
            return trained[0].feedback

        played, states = play(experiment, memory.states, number, train=train)
        model, feedback, training_s = trained[0]
        self.ledger.enter(played)
        trained_at = time.perf_counter()
        accuracy = loss = None
        if (number + 1) % self.training.evaluate_every == 0 or number + 1 == experiment.rounds:
            accuracy, loss = self._evaluated(model, number)
        ended = time.perf_counter()
        mean_power = float(self.ledger.spent.mean()) / (number + 1)
        record, totals = recorded(played, feedback, memory.totals, mean_power, accuracy, loss)
        self.memory = Memory(number + 1, model, states, self.ledger.spent, totals)
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
        self.walltime = Walltime(wall_s, training_s, ended - trained_at, cpu_s)
        return record

    def _train(self, model: NDArray[np.float32], played: Round) -> _Trained:
        """x ← x + server step · Σ (w/π)·Δ over the participants, and how it went for each."""
        began = time.perf_counter()
        draw, ranks = played.draw, self.ranks
        participants, weights = len(draw.devices), draw.weights
        # One message for all: the sum, then each participant's loss and norm as the bits of a float64, to
        # which every other rank adds 0.
        message = np.zeros(len(model) + 2 * participants, np.int64)
        total, reports = message[: len(model)], message[len(model) :].view(np.float64).reshape(2, -1)
        stream = Stream(self.experiment.seed, played.number)
        for index in range(ranks.rank, participants, ranks.size):
            outcome = self.learner.train(model, int(draw.devices[index]), stream)
            reports[:, index] = outcome.loss, outcome.update_norm
            if weights[index] * outcome.update_norm < aggregation.LARGEST / participants:
                aggregation.add(total, outcome.update, float(weights[index]))
        training_s = time.perf_counter() - began
        if participants:
            ranks.add(message)
        losses, norms = reports
        self._refuse_divergence(played, losses, norms, weights)
        with np.errstate(over="ignore"):
            moved = (model + self.training.server_step_size * aggregation.value_of(total)).astype(np.float32)
        if not np.isfinite(moved).all():
            raise FadewiseError(
                f"training has diverged in round {played.number}: the model is beyond what float32 holds; a smaller "
                f"training.server_step_size (it is {self.training.server_step_size:g}) helps most often"
            )
        return _Trained(moved, Feedback(draw, losses, norms), training_s)

    def _refuse_divergence(
        self, played: Round, losses: NDArray[np.float64], norms: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> None:
        bad = np.flatnonzero(~((weights * norms < aggregation.LARGEST / max(len(norms), 1)) & np.isfinite(losses)))
        for index in bad[:1]:
            raise FadewiseError(
                f"training has diverged in round {played.number}: the update of device {played.draw.devices[index]} "
                f"has norm {norms[index]:.3g} and loss {losses[index]:.3g}, its weight is {weights[index]:.3g}; a "
                f"smaller training.step_size (it is {self.training.step_size:g}) helps most often"
            )

    def _evaluated(self, model: NDArray[np.float32], number: int) -> tuple[float, float]:
        score = self.learner.evaluate(model, self.ranks.rank, self.ranks.size)
        numbers = np.array([score.correct, score.loss_fixed, not abs(score.loss) < aggregation.LARGEST], np.int64)
        self.ranks.add(numbers)
        if numbers[2]:
            raise FadewiseError(
                f"training has diverged in round {number}: the model's test loss is not a finite number; a smaller "
                f"training.step_size (it is {self.training.step_size:g}) helps most often"
            )
        samples = len(self.federation.test_labels)
        return int(numbers[0]) / samples, float(aggregation.value_of(numbers[1:2])[0]) / samples


@contextmanager
def one_thread() -> Iterator[None]:
    """One intra-op thread: two ranks of one thread are faster than one of two, and always the same bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def simulated(experiment: Experiment, observers: Sequence[Observer]) -> Iterator[Record]:
    """See `fadewise.simulate`."""
    keep_freed_memory()
    ranks = join()
    with one_thread():
        try:
            for record in Simulation(experiment, ranks).rounds():
                for observer in observers:
                    observer.on_round(record)
                yield record
        finally:
            for observer in observers:
                getattr(observer, "close", lambda: None)()


def _training_of(experiment: Experiment) -> Training:
    if experiment.training is None:
        raise FadewiseError("there is nothing to train: the experiment has no data; it needs [data] and [model] tables")
    return experiment.training


def _federation_of(training: Training, experiment: Experiment) -> Federation:
    """The data in devices' hands, refused where a device has none."""
    federation = training.data.federation(experiment.devices, experiment.seed)
    sizes = federation.sizes
    if len(sizes) != experiment.devices:
        raise FadewiseError(f"the data are for {len(sizes)} devices; there are {experiment.devices}")
    for device in np.flatnonzero(sizes < 1)[:1]:
        raise FadewiseError(f"device {device} has no training samples; every device must have at least one")
    return federation
