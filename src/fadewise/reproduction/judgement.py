"""A trained model by class: what it knows of each, and of what each group of devices has."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fadewise import config
from fadewise.data.base import Federation
from fadewise.errors import FadewiseError
from fadewise.learning.local import Learner
from fadewise.reports import runs
from fadewise.rounds import Experiment
from fadewise.simulation.engine import Simulation, one_thread
from fadewise.simulation.folder import CHECKPOINT, Checkpoint
from fadewise.simulation.ranks import Ranks
from fadewise.state import load_state


def judged(folder: Path) -> dict[str, list[float]]:
    """Of the model in a run's last checkpoint: `classes`, its accuracy on the test samples of each class;
    `groups`, that on test samples in the proportions in which each group of devices has the classes.
    """
    settings = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    experiment = config.experiment(settings, str(folder / "config.toml"))
    with one_thread():
        simulation = Simulation(experiment, Ranks())
        checkpoint = load_state(folder / CHECKPOINT, Checkpoint(simulation.memory, 0, 0))
        classes = by_class(experiment, simulation.federation, checkpoint.memory.model)
    sizes = [size for _, size in runs.groups_of(settings)]
    groups = [float(held @ classes) for held in class_shares(simulation.federation, sizes)]
    return {"classes": classes.tolist(), "groups": groups}


def by_class(experiment: Experiment, federation: Federation, model: NDArray[np.float32]) -> NDArray[np.float64]:
    """Accuracy on the test samples of each class; 0 for one that the test set does not have."""
    assert experiment.training is not None
    accuracy = np.zeros(federation.classes)
    for label in range(federation.classes):
        of_class = copy.copy(federation)
        rows = np.flatnonzero(federation.test_labels == label)
        of_class.test_images, of_class.test_labels = federation.test_images[rows], federation.test_labels[rows]
        if len(rows):
            learner = Learner(experiment.training, of_class, experiment.seed)
            accuracy[label] = learner.evaluate(model, 0, 1).correct / len(rows)
    return accuracy


def class_shares(federation: Federation, sizes: Sequence[int]) -> list[NDArray[np.float64]]:
    """For each group of devices in a row, which part of its training samples is of each class."""
    if sum(sizes) != len(federation.sizes):
        raise FadewiseError(f"the groups are of {sum(sizes)} devices; there are {len(federation.sizes)}")
    result, first = [], 0
    for size in sizes:
        counts = np.zeros(federation.classes)
        for device in range(first, first + size):
            shard = federation.shard(device)
            counts += np.bincount(shard.labels[shard.rows], minlength=federation.classes)
        result.append(counts / counts.sum())
        first += size
    return result
