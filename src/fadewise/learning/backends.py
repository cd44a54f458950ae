"""What computes: PyTorch, or the native kernel where the model is of its family and the processor can."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise.data.base import Federation, Images, Labels, Shard
from fadewise.errors import FadewiseError
from fadewise.learning.models import CNN
from fadewise.learning.native import library
from fadewise.learning.training import Training


class Backend(ABC):
    """Takes the steps of local SGD, and evaluates."""

    name: ClassVar[str]

    @abstractmethod
    def train(
        self, model: NDArray[np.float32], shard: Shard, batches: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """A step on each of these minibatches (rows of the shard's arrays), from the model.

        Returns what the model has become (valid until the next call) and each step's loss.
        """

    @abstractmethod
    def evaluate(self, model: NDArray[np.float32], images: Images, labels: Labels) -> tuple[int, float]:
        """How many samples are classified right, and the sum of their losses."""


class Choice(NamedTuple):
    """A backend, and why it: a sentence. `target` is the native kernel's instruction set, None for PyTorch."""

    target: str | None
    sentence: str

    @property
    def name(self) -> str:
        """As in environment.json."""
        return "pytorch" if self.target is None else f"native, {self.target}"


def choose(training: Training, federation: Federation) -> Choice:
    """What `training.backend` comes to for this model, these data and this machine."""
    if training.backend == "pytorch":
        return Choice(None, "computing with PyTorch, as training.backend says")
    why_not = _not_of_the_family(training, federation)
    targets = library.targets()
    if why_not is None and not targets:
        why_not = "this installation has none; it is built where there is a C++ compiler"
    if why_not is None:
        return Choice(targets[0], f"computing with the native kernel ({targets[0]})")
    if training.backend == "native":
        raise FadewiseError(f"training.backend is 'native', but the native kernel cannot be used: {why_not}")
    return Choice(None, f"computing with PyTorch, not with the native kernel: {why_not}")


_LARGEST = {
    "height": 1024,
    "width": 1024,
    "first_maps": 1024,
    "second_maps": 1024,
    "hidden": 65536,
    "classes": 65536,
    "batch_size": 4096,
}
"""As in `interface.cpp`, which would refuse what is larger; `auto` has to know before."""


def _not_of_the_family(training: Training, federation: Federation) -> str | None:
    """Why the native kernel cannot train this, or None where it can."""
    model = training.model
    height, width, channels = federation.image_shape
    if not isinstance(model, CNN):
        return "the model is not a cnn"
    if model.normalisation:
        return "model.normalisation is true, which it does not do"
    if model.kernel not in (3, 5):
        return f"model.kernel is {model.kernel}, it does 3 and 5"
    if channels not in (1, 3):
        return f"images have {channels} channels, it does 1 and 3"
    if training.precision != "float32":
        return f"training.precision is {training.precision!r}, it computes in float32"
    if training.device != "cpu":
        return f"training.device is {training.device!r}, it is for CPUs"
    sizes = {"height": height, "width": width, "classes": federation.classes, "batch_size": training.batch_size}
    sizes |= {"first_maps": model.first_maps, "second_maps": model.second_maps, "hidden": model.hidden}
    for name, largest in _LARGEST.items():
        if sizes[name] > largest:
            return f"{name} is {sizes[name]}, it goes up to {largest}"
    return None
