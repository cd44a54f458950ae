"""Local SGD by the native kernel."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fadewise.data.base import Federation, Images, Labels, Shard
from fadewise.learning.backends import Backend
from fadewise.learning.models import CNN
from fadewise.learning.native.library import Kernel, Samples, Shape
from fadewise.learning.training import Training


class Native(Backend):
    """The kernel gathers minibatches from the data set's own memory and normalises them on the way."""

    name: ClassVar[str] = "native"

    def __init__(self, training: Training, federation: Federation, target: str) -> None:
        self._kernel = Kernel(shape_of(training, federation), target)
        self._step_size = training.step_size
        self._mean, self._scale = federation.mean, np.float32(1) / federation.deviation

    def train(
        self, model: NDArray[np.float32], shard: Shard, batches: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        trained = model.copy()
        losses = self._kernel.train(trained, self._samples(shard.images, shard.labels), batches, self._step_size)
        return trained, losses

    def evaluate(self, model: NDArray[np.float32], images: Images, labels: Labels) -> tuple[int, float]:
        correct, losses = self._kernel.evaluate(model, self._samples(images, labels), np.arange(len(labels)))
        return correct, math.fsum(losses)

    def _samples(self, images: Images, labels: Labels) -> Samples:
        return Samples(images, labels, self._mean, self._scale)


def shape_of(training: Training, federation: Federation) -> Shape:
    """The member of the family that is to be trained."""
    model = training.model
    assert isinstance(model, CNN)
    return Shape(
        *federation.image_shape,
        model.kernel,
        model.first_maps,
        model.second_maps,
        model.hidden,
        federation.classes,
        training.batch_size,
    )
