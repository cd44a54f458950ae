"""The work that every peer of the training benchmark does: the network, the data, a participant's steps.

Every participant starts from the server's model and takes 10 steps of plain SGD on batches of 32, drawn with
replacement from its own samples; the mean of the participants' models is the new model. Nothing is evaluated.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from protocol import Shape
from torch import Tensor, nn

STEPS = 10
BATCH = 32
LEARNING_RATE = 0.01
SEED = 20


def network(shape: Shape, *, tuned: bool) -> nn.Module:
    """The paper's network."""
    layers = nn.Sequential(
        nn.Conv2d(shape.channels, 32, 5, padding="same"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 5, padding="same"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (shape.side // 4) ** 2, 256),
        nn.ReLU(),
        nn.Linear(256, shape.classes),
    )
    return layers.to(memory_format=torch.channels_last) if tuned else layers


@dataclass(frozen=True)
class Device:
    """One device's own samples, in bytes."""

    images: Tensor
    labels: Tensor
    channels_last: bool

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Some of them as the network takes them: (rows, channels, height, width), float32."""
        images = self.images[rows]
        if self.channels_last:
            images = images.permute(0, 3, 1, 2)
        return images.float().div_(255), self.labels[rows]


class Samples:
    """Random samples for all devices; in memory as (height, width, channels) where tuned."""

    def __init__(self, shape: Shape, *, tuned: bool) -> None:
        random = np.random.default_rng(SEED)
        sizes = (shape.side, shape.side, shape.channels) if tuned else (shape.channels, shape.side, shape.side)
        count = shape.devices * shape.samples
        self._images = torch.from_numpy(random.integers(0, 256, (count, *sizes), np.uint8))
        self._labels = torch.from_numpy(random.integers(0, shape.classes, count))
        self._each = shape.samples
        self._tuned = tuned

    def __getitem__(self, device: int) -> Device:
        own = slice(device * self._each, (device + 1) * self._each)
        return Device(self._images[own], self._labels[own], self._tuned)


@functools.cache
def samples(shape: Shape, *, tuned: bool) -> Samples:
    """Those of this process, made when first asked for."""
    return Samples(shape, tuned=tuned)


class Loader:
    """A participant's batches of one round, each made as it is asked for."""

    def __init__(self, dataset: Device, generator: torch.Generator | None = None) -> None:
        self.dataset = dataset
        self._generator = generator

    def __len__(self) -> int:
        return STEPS

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for _ in range(STEPS):
            yield self.dataset.take(torch.randint(len(self.dataset), (BATCH,), generator=self._generator))


def train(model: nn.Module, loader: Loader) -> None:
    """A participant's steps."""
    model.train()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    for images, labels in loader:
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()
