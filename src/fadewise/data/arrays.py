"""Data of one's own: arrays that are already in memory, or memory maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadewise import checks
from fadewise.data.base import Data, Images, Labels, Pool
from fadewise.data.held import Held
from fadewise.data.partitions import IID, ByOwner, Partition
from fadewise.errors import SettingError


@dataclass(frozen=True, eq=False)
class Arrays(Data):
    """Images and labels as arrays. For programs only: a configuration file cannot hold them, so it has no kind.

    images: uint8, (samples, height, width) or (samples, height, width, channels).
    labels: the class of each, a whole number from 0.
    owners: whose each is, a whole number from 0.
    test_images, test_labels: a test set, of the same shape; else a tenth of each owner's samples is held out.
    classes: how many there are; else one more than the largest label.
    partition: else by owner where owners are given, and IID where not.
    """

    images: NDArray[Any]
    labels: ArrayLike
    owners: ArrayLike | None = None
    test_images: NDArray[Any] | None = None
    test_labels: ArrayLike | None = None
    classes: int | None = None
    partition: Partition | None = None

    def __post_init__(self) -> None:
        self.pool()

    def pool(self) -> Pool:
        """The arrays, checked; images are copied only if they do not lie one after another, as a view's may not."""
        images = _images("images", self.images)
        labels = _numbers("labels", self.labels, len(images))
        owners = None if self.owners is None else _numbers("owners", self.owners, len(images))
        if (self.test_images is None) != (self.test_labels is None):
            given, missing = ("test_labels", "test_images") if self.test_images is None else _TEST_FIELDS
            raise SettingError(missing, f"is missing; {given} must come with it")
        test_images, test_labels = None, None
        if self.test_images is not None and self.test_labels is not None:
            test_images = _images("test_images", self.test_images)
            if test_images.shape[1:] != images.shape[1:]:
                raise SettingError(
                    "test_images", f"are of shape {test_images.shape[1:]}; they must be as images, {images.shape[1:]}"
                )
            test_labels = _numbers("test_labels", self.test_labels, len(test_images))
        largest = max(int(array.max()) for array in (labels, test_labels) if array is not None)
        classes = largest + 1 if self.classes is None else checks.whole("classes", self.classes, least=1)
        return Pool(images, labels, classes, owners, test_images, test_labels)

    def federation(self, devices: int, seed: int) -> Held:
        pool = self.pool()
        partition = self.partition or (IID() if pool.owners is None else ByOwner())
        return Held(pool, partition, devices, seed, where="arrays")


_TEST_FIELDS = ("test_images", "test_labels")


def _images(name: str, value: object) -> Images:
    array = np.asarray(value)
    if array.dtype != np.uint8:
        raise SettingError(name, f"are {array.dtype}; they must be uint8, 0 to 255")
    if array.ndim == 3:
        array = array[..., np.newaxis]
    if array.ndim != 4 or not array.size:
        raise SettingError(
            name,
            f"have shape {np.shape(array)}; it must be (samples, height, width) or "
            "(samples, height, width, channels), with at least one sample",
        )
    return np.ascontiguousarray(array)


def _numbers(name: str, value: ArrayLike, samples: int) -> Labels:
    array = np.asarray(value)
    if array.shape != (samples,):
        raise SettingError(name, f"have shape {array.shape}; there must be one for each of {samples} images")
    if array.dtype.kind not in "iu":
        raise SettingError(name, f"are {array.dtype}; they must be whole numbers from 0")
    for sample in np.flatnonzero((array < 0) | (array >= 2**31))[:1]:
        raise SettingError(name, f"have {array[sample]} for sample {sample}; it must be a whole number from 0")
    return array.astype(np.int32)
