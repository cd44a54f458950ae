"""Samples that are made when they are first asked for, and kept in files."""

from __future__ import annotations

import os
import weakref
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadewise.data.base import Images, Labels
from fadewise.errors import FadewiseError

Maker = Callable[[int], tuple[Images, Labels]]


class OnDemand:
    """Samples in units, such as one writer's. Any number of processes may use the same files at once.

    Of the files a unit has its place from the beginning; what is not made yet is a hole and takes no room on
    the disk. A unit is marked as made by its CRC-32, which is written last. So a process that is killed at any
    instant leaves nothing wrong: whoever comes next finds no mark, or one that does not fit, and makes the
    unit again. Two processes that make one unit at once write the same bytes.

    Written with pwrite and read through maps: a write to a map on a full disk would be a signal that kills,
    not an error.

    images, labels: all units' samples one after another; zeros where a unit is not made.
    starts: where each unit begins, and at last where the last one ends.
    """

    images: Images
    labels: Labels
    starts: NDArray[np.int64]

    def __init__(
        self, folder: Path, name: str, sizes: NDArray[np.int64], image_shape: tuple[int, int, int], make: Maker
    ) -> None:
        self.starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        self._folder, self._make = folder, make
        samples, units = int(self.starts[-1]), len(sizes)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._image_file, self.images = self._mapped(f"{name}.images", np.uint8, (samples, *image_shape))
            self._label_file, self.labels = self._mapped(f"{name}.labels", np.int32, (samples,))
            self._mark_file, self._marks = self._mapped(f"{name}.made", np.uint32, (units,))
        except (OSError, OverflowError) as error:
            raise self._unwritable(error) from None
        self._checked = np.zeros(units, np.bool_)

    def made(self, unit: int) -> slice:
        """Sees to it that a unit is made. Where its samples lie."""
        rows = slice(int(self.starts[unit]), int(self.starts[unit + 1]))
        if not self._checked[unit]:
            mark = int(self._marks[unit])
            if mark == 0 or mark != _mark(self.images[rows], self.labels[rows]):
                self._write(unit, rows.start, *self._make(unit))
            self._checked[unit] = True
        return rows

    def all_made(self) -> None:
        """Sees to it that all units are made. Processes begin at different ones, and so share the work."""
        units = len(self._checked)
        first = os.getpid() * 0x9E3779B1 % units
        for unit in range(first, first + units):
            self.made(unit % units)

    def _write(self, unit: int, first: int, images: Images, labels: Labels) -> None:
        try:
            _write_at(self._image_file, images, first * images[0].nbytes)
            _write_at(self._label_file, labels, first * labels.itemsize)
            _write_at(self._mark_file, np.array(_mark(images, labels), np.uint32), unit * 4)
        except OSError as error:
            raise self._unwritable(error) from None

    def _mapped(self, name: str, dtype: type, shape: tuple[int, ...]) -> tuple[int, NDArray[Any]]:
        path = self._folder / name
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        # Kept open: who empties the cache during a run takes the files' names, not the files.
        weakref.finalize(self, os.close, file)
        size = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
        # All who open this file give it the same size; never a smaller one than another has mapped.
        if os.fstat(file).st_size < size:
            os.truncate(file, size)
        return file, np.memmap(path, dtype, "r", shape=shape)

    def _unwritable(self, error: Exception) -> FadewiseError:
        reason = getattr(error, "strerror", None) or error
        return FadewiseError(
            f"samples cannot be kept in {self._folder} ({reason}); "
            "set FADEWISE_CACHE to a folder that can be written to and has room"
        )


def _mark(images: Images, labels: Labels) -> int:
    return zlib.crc32(_bytes(labels), zlib.crc32(_bytes(images))) or 1


def _bytes(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _write_at(file: int, array: NDArray[Any], offset: int) -> None:
    left = _bytes(array)
    while left:
        written = os.pwrite(file, left, offset)
        left, offset = left[written:], offset + written
