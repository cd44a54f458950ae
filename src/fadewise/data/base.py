"""What every data set comes to: samples in devices' hands, and a test set in the server's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.uint8]
"""(samples, height, width, channels), in this order in memory; often a memory map that all ranks share."""

Labels = NDArray[np.int32]


class Shard(NamedTuple):
    """Where one device's training samples lie: `rows` of arrays that other devices may share."""

    images: Images
    labels: Labels
    rows: NDArray[np.int64]


class Pool(NamedTuple):
    """A data set as its files have it, before any device holds a sample.

    owners: whose each training sample is, numbered from 0; None where the data set does not say.
    test_images, test_labels: the official test set; None where a tenth of each owner's samples is held out.
    """

    images: Images
    labels: Labels
    classes: int
    owners: NDArray[np.int32] | None = None
    test_images: Images | None = None
    test_labels: Labels | None = None


class Federation(ABC):
    """Samples in devices' hands. What training sees of any data set.

    mean, deviation: of each channel of the training images, in units of the uint8 values.
    test_images, test_labels: the server's test set.
    """

    classes: int
    image_shape: tuple[int, int, int]
    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]
    test_images: Images
    test_labels: Labels

    @property
    @abstractmethod
    def sizes(self) -> NDArray[np.int64]:
        """How many training samples each device has; at least one."""

    @abstractmethod
    def shard(self, device: int) -> Shard:
        """A device's training samples; what is made on demand is made here."""


@dataclass(frozen=True)
class Data(ABC):
    """A data set that a configuration can name: the fields are the keys of its `[data]` table."""

    kind: ClassVar[str]

    def place(self) -> Path | None:
        """Where its files are, refused where they were not found; None of data that have no files."""
        return None

    @abstractmethod
    def federation(self, devices: int, seed: int) -> Federation:
        """The data in the hands of `devices` devices; `seed` is the run's and decides who has what."""
