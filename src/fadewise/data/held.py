"""A pool of samples in devices' hands: a partition of what is not held out for the test set."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise.data.base import Federation, Images, Labels, Pool, Shard
from fadewise.data.partitions import Partition
from fadewise.errors import FadewiseError
from fadewise.randomness import Stream

_CHUNK_BYTES = 1 << 24
_HELD_OUT_SEED = 0
"""The test set is not the run's to draw: over all seeds a model is tested on the same samples."""


class Moments(NamedTuple):
    """Mean and standard deviation of each channel, in units of the uint8 values."""

    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]


class Held(Federation):
    """A pool that a partition has shared out.

    The test set is the pool's own; where it has none, a tenth of each owner's samples (a tenth of all,
    where owners are unknown) is held out before anything is shared out, the same for every seed and
    every partition, and of it those owners' samples are kept of whom some device has a training sample.

    where: what the samples are called in what is said of bad ones.
    moments: of the pool's training samples, if they are known already.
    """

    def __init__(
        self,
        pool: Pool,
        partition: Partition,
        devices: int,
        seed: int,
        *,
        where: str = "the data",
        moments: Moments | None = None,
    ) -> None:
        check_labels(where, pool.labels, pool.classes)
        if pool.test_labels is not None:
            check_labels(f"the test set of {where}", pool.test_labels, pool.classes)
        held_out = None if pool.test_images is not None else held_out_rows(pool)
        self._images, self._labels = pool.images, pool.labels
        self._starts, self._rows = _shared_out(pool, held_out, partition, devices, seed)
        self.classes = pool.classes
        height, width, channels = pool.images.shape[1:]
        self.image_shape = (height, width, channels)
        self.test_images, self.test_labels = _test_set(pool, held_out, self._rows, where)
        self.mean, self.deviation = moments or training_moments(pool)

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self._starts)

    def shard(self, device: int) -> Shard:
        if not 0 <= device < len(self._starts) - 1:
            raise FadewiseError(f"there is no device {device}; the devices are 0 to {len(self._starts) - 2}")
        return Shard(self._images, self._labels, self._rows[self._starts[device] : self._starts[device + 1]])


def held_out_rows(pool: Pool) -> NDArray[np.bool_]:
    """Which samples are held out: of an owner's n, max(1, round(n/10)) at random, of a single one none."""
    samples = len(pool.labels)
    owners = np.zeros(samples, np.int32) if pool.owners is None else pool.owners
    sizes = np.bincount(owners)
    tenths = np.where(sizes < 2, 0, np.maximum(1, np.rint(sizes / 10))).astype(np.int64)
    order = np.lexsort((Stream(_HELD_OUT_SEED, 0).uniforms("held out", samples), owners))
    rank = np.arange(samples) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    result = np.zeros(samples, np.bool_)
    result[order[rank < np.repeat(tenths, sizes)]] = True
    return result


def training_moments(pool: Pool) -> Moments:
    """Mean and deviation over all training images, whoever has them; a constant channel's deviation is 1.

    Sums are of whole numbers and so exact: the same bits however the images are cut into chunks.
    """
    images = pool.images
    rows = np.arange(len(images)) if pool.test_images is not None else np.flatnonzero(~held_out_rows(pool))
    _, height, width, channels = images.shape
    # Summed over samples first: NumPy is slow at sums of which each has few channels beside it in memory.
    sums, squares = np.zeros((2, height * width * channels), np.int64)
    step = max(1, _CHUNK_BYTES // max(1, len(sums)))
    for start in range(0, len(rows), step):
        chunk = images[rows[start : start + step]].reshape(-1, len(sums))
        sums += chunk.sum(axis=0, dtype=np.int64)
        squares += np.square(chunk, dtype=np.uint16).sum(axis=0, dtype=np.int64)
    sums, squares = (total.reshape(-1, channels).sum(axis=0) for total in (sums, squares))
    count = max(1, len(rows) * height * width)
    mean = sums / count
    # In whole numbers of any size: the difference of two nearly equal floats would lose what is looked for.
    variances = [count * int(q) - int(s) ** 2 for s, q in zip(sums, squares, strict=True)]
    deviation = np.sqrt([variance / count**2 for variance in variances])
    deviation[deviation == 0] = 1
    return Moments(mean.astype(np.float32), deviation.astype(np.float32))


def check_labels(where: str, labels: Labels, classes: int) -> None:
    """Refuses labels that are no class, naming the first of them."""
    for sample in np.flatnonzero((labels < 0) | (labels >= classes))[:1]:
        raise FadewiseError(
            f"{where}: sample {sample} has the label {labels[sample]}; it must be a class from 0 to {classes - 1}"
        )


def _shared_out(
    pool: Pool, held_out: NDArray[np.bool_] | None, partition: Partition, devices: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if held_out is None:
        return partition.rows(pool.labels, pool.owners, devices, seed)
    training = np.flatnonzero(~held_out)
    owners = None if pool.owners is None else pool.owners[training]
    starts, rows = partition.rows(pool.labels[training], owners, devices, seed)
    return starts, training[rows]


def _test_set(
    pool: Pool, held_out: NDArray[np.bool_] | None, rows: NDArray[np.int64], where: str
) -> tuple[Images, Labels]:
    if pool.test_images is not None and pool.test_labels is not None:
        images, labels = pool.test_images, pool.test_labels
    else:
        assert held_out is not None
        if pool.owners is not None:
            used = np.zeros(int(pool.owners.max(initial=-1)) + 1, np.bool_)
            used[pool.owners[rows]] = True
            held_out = held_out & used[pool.owners]
        images, labels = pool.images[held_out], pool.labels[held_out]
    if not len(labels):
        raise FadewiseError(f"{where} has no sample to test on; give it a test set, or two samples to an owner")
    return images, labels
