"""What this machine gets from each backend: the milliseconds of a step on one core, side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise.data import Arrays
from fadewise.data.base import Federation
from fadewise.learning.backends import Backend, Choice, choose
from fadewise.learning.memory import keep_freed_memory
from fadewise.learning.models import CNN, Shape
from fadewise.learning.native import library
from fadewise.learning.native.backend import Native
from fadewise.learning.pytorch import PyTorch
from fadewise.learning.training import Precision, Training
from fadewise.learning.vector import FlatModule, built
from fadewise.simulation.engine import one_thread

SAMPLES, SEED = 500, 20
REFERENCE = "PyTorch, float32"
"""What the others are compared with."""


class Network(NamedTuple):
    """A published network on the images that it was published for."""

    name: str
    model: CNN
    image_shape: Shape
    classes: int


NETWORKS = (
    Network("CIFAR-10", CNN(), (32, 32, 3), 10),
    Network("FEMNIST", CNN(), (28, 28, 1), 62),
    Network("McMahan", CNN(second_maps=64, hidden=512), (28, 28, 1), 10),
    Network("LEAF", CNN(second_maps=64, hidden=2048), (28, 28, 1), 62),
)
"""The paper's two, by their data sets, and those of McMahan et al. and of the LEAF benchmark."""


class Work(NamedTuple):
    """A participant's work, on random images: the same for whatever computes it."""

    training: Training
    federation: Federation
    model: NDArray[np.float32]
    batches: NDArray[np.int64]

    def done_by(self, backend: Backend) -> NDArray[np.float32]:
        """What the model becomes."""
        return backend.train(self.model, self.federation.shard(0), self.batches)[0]


class Speed(NamedTuple):
    """Of one backend: a step's time, and how many times as fast as the reference it is, in medians over the turns."""

    backend: str
    step_ms: float
    speedup: float


class Result(NamedTuple):
    """Of one network: all backends, and what `training.backend = "auto"` comes to."""

    network: str
    speeds: list[Speed]
    auto: Choice

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        speeds = [speed._asdict() for speed in self.speeds]
        return {"network": self.network, "auto": self.auto.name, "why": self.auto.sentence, "backends": speeds}


def measured(network: Network, turns: int = 5) -> Result:
    """The backends take turns, so that each ratio is of times measured together."""
    keep_freed_memory()
    work = work_of(network)
    with one_thread():
        calls = {name: _participant(work, backend) for name, backend in backends(work, network).items()}
        times = seconds_of(calls, turns)
    steps, reference = len(work.batches), times[REFERENCE]
    speeds = [
        Speed(
            name,
            1000 * statistics.median(seconds) / steps,
            statistics.median(r / s for r, s in zip(reference, seconds, strict=True)),
        )
        for name, seconds in times.items()
    ]
    return Result(network.name, speeds, choose(work.training, work.federation))


def work_of(network: Network) -> Work:
    """Ten steps of 32 on a device with 500 samples."""
    random = np.random.default_rng(SEED)
    images = random.integers(0, 256, (SAMPLES, *network.image_shape), np.uint8)
    labels = random.integers(0, network.classes, SAMPLES)
    data = Arrays(images, labels, test_images=images[:1], test_labels=labels[:1], classes=network.classes)
    training = Training(data, network.model)
    model = _module(network).vector.numpy().copy()
    batches = random.integers(0, SAMPLES, (training.steps, training.batch_size))
    return Work(training, data.federation(1, SEED), model, batches)


def backends(work: Work, network: Network) -> dict[str, Backend]:
    """All that this machine has: each instruction set of the native kernel, PyTorch in both precisions."""
    found: dict[str, Backend] = {
        f"native, {target}": Native(work.training, work.federation, target) for target in library.targets()
    }
    precisions: tuple[Precision, ...] = ("float32", "bfloat16")
    for precision in precisions:
        training = Training(work.training.data, network.model, precision=precision)
        found[f"PyTorch, {precision}"] = PyTorch(training, work.federation, _module(network))
    return found


def seconds_of(calls: Mapping[str, Callable[[], object]], turns: int) -> dict[str, list[float]]:
    """Processor time of a call of each in every turn, after one that warms up: others at work do not count."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(turns):
        for name, call in calls.items():
            began = time.process_time()
            call()
            times[name].append(time.process_time() - began)
    return times


def _participant(work: Work, backend: Backend) -> Callable[[], object]:
    return lambda: work.done_by(backend)


def _module(network: Network) -> FlatModule:
    return FlatModule(built(lambda: network.model.build(network.image_shape, network.classes), SEED), "cpu")
