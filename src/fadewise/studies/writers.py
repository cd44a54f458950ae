"""Whether the built-in handwriting set is hard, and whether its writers matter.

    python -m fadewise.studies.writers

1. The paper's network for FEMNIST, 12 of 200 writers a round (chosen uniformly, averaged by inclusion
   probabilities), 10 steps of 32: accuracy on the 200 writers' held-out samples, and on as many writers who
   take no part.
2. The same network trained by one writer alone: accuracy on that writer's held-out samples, and on everybody's.
3. How much two writers differ in which characters they write.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import fadewise as fw
from fadewise.data import Arrays, Handwriting, writers
from fadewise.data.base import Federation
from fadewise.learning.local import Learner
from fadewise.learning.memory import keep_freed_memory
from fadewise.learning.models import CNN
from fadewise.learning.training import Training
from fadewise.randomness import Stream
from fadewise.simulation.engine import Simulation, one_thread
from fadewise.simulation.ranks import Ranks

WRITERS = 200
PARTICIPANTS = 12.0
ALONE_STEPS = 300
ALONE = 10


def experiment(rounds: int) -> fw.Experiment:
    """FedAvg with uniform choice."""
    policy = fw.Uniform(fw.Link(22e6, 32 * 444_062), WRITERS, participants=PARTICIPANTS)
    training = Training(Handwriting(), CNN(), evaluate_every=25)
    return fw.Experiment(WRITERS, fw.Rayleigh(1.0), policy, rounds=rounds, training=training)


def test_samples(federation: Federation, first: int, last: int) -> Arrays:
    """The held-out samples of some writers as a test set, with a training sample of each class that nobody uses."""
    sizes = held_out(federation)
    ends = np.cumsum(sizes)
    part = slice(int(ends[first] - sizes[first]), int(ends[last - 1]))
    images, labels = federation.test_images[part], federation.test_labels[part]
    return Arrays(
        np.zeros((1, *federation.image_shape), np.uint8),
        np.zeros(1, np.int64),
        test_images=np.array(images),
        test_labels=np.array(labels),
        classes=federation.classes,
    )


def held_out(federation: Federation) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How many samples of each writer are held out: a tenth of what the writer wrote."""
    amounts = writers.amounts(0, 200.0, len(federation.sizes))
    return amounts - federation.sizes


def judge(experiment: fw.Experiment, federation: Federation, data: Arrays) -> Learner:
    """Evaluates on a test set, with the images normalised as in training."""
    assert experiment.training is not None
    tested = data.federation(1, 0)
    tested.mean, tested.deviation = federation.mean, federation.deviation
    return Learner(dataclasses.replace(experiment.training, data=data), tested, 0)


def accuracy(learner: Learner, model: np.ndarray[tuple[int], np.dtype[np.float32]], samples: int) -> float:
    """Of a model on the learner's test set."""
    return learner.evaluate(model, 0, 1).correct / samples


def federated(rounds: int, everybody: Federation) -> Table:
    """The curve of the first part."""
    table = Table(title=f"{PARTICIPANTS:g} of {WRITERS} writers a round", box=box.SIMPLE_HEAD)
    for heading in ("round", "held-out samples", "writers who take no part"):
        table.add_column(heading, justify="right")
    simulation = Simulation(experiment(rounds), Ranks())
    strangers = test_samples(everybody, WRITERS, 2 * WRITERS)
    learner = judge(simulation.experiment, simulation.federation, strangers)
    for record in simulation.rounds():
        if record.accuracy is not None and (record.round + 1) % 50 == 0:
            there = accuracy(learner, simulation.memory.model, len(strangers.test_labels))  # type: ignore[arg-type]
            table.add_row(str(record.round + 1), f"{record.accuracy:.3f}", f"{there:.3f}")
    return table


def alone(everybody: Federation) -> str:
    """The numbers of the second part."""
    one = experiment(1)
    assert one.training is not None
    data = Handwriting().federation(WRITERS, 0)
    learner = Learner(dataclasses.replace(one.training, steps=ALONE_STEPS, step_size=0.05), data, 0)
    start = learner.initial_model()
    own, others = [], []
    for writer in range(ALONE):
        model = start + learner.train(start, writer, Stream(0, 0)).update
        of_writer = test_samples(everybody, writer, writer + 1)
        own.append(accuracy(judge(one, data, of_writer), model, len(of_writer.test_labels)))  # type: ignore[arg-type]
        others.append(accuracy(learner, model, len(data.test_labels)))
    return (
        f"Trained by one writer alone ({ALONE_STEPS} steps; mean of {ALONE} writers): {np.mean(own):.3f} of that "
        f"writer's held-out samples, {np.mean(others):.3f} of everybody's"
    )


def frequencies() -> str:
    """The number of the third part."""
    shares = [np.diff(writers.hand(0, writer).letters, prepend=0) for writer in range(WRITERS)]
    distances = [np.abs(one - other).sum() / 2 for one, other in itertools.combinations(shares, 2)]
    return f"Total variation between two writers' frequencies of characters: {np.mean(distances):.2f} on average"


def main() -> None:
    """Prints all parts."""
    parser = argparse.ArgumentParser(description="How hard the handwriting set is, and whether writers matter.")
    parser.add_argument("--rounds", type=int, default=400)
    rounds = parser.parse_args().rounds
    keep_freed_memory()
    console = Console(width=100)
    everybody = Handwriting().federation(2 * WRITERS, 0)
    with one_thread():
        console.print(frequencies())
        console.print(alone(everybody))
        console.print(federated(rounds, everybody))


if __name__ == "__main__":
    main()
