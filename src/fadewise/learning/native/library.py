"""The native kernel's C interface, through ctypes, which lets other Python threads run while it computes."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.ctypeslib import ndpointer
from numpy.typing import NDArray

from fadewise.errors import FadewiseError
from fadewise.learning.native.build import LIBRARY


class Shape(NamedTuple):
    """A member of the family, as `interface.hpp` has it; `batch` is the most samples in a step."""

    height: int
    width: int
    channels: int
    kernel: int
    maps1: int
    maps2: int
    hidden: int
    classes: int
    batch: int

    @property
    def parameters(self) -> int:
        """How many there are."""
        taps, features = self.kernel**2, self.maps2 * (self.height // 4) * (self.width // 4)
        layers = (
            (self.channels * taps, self.maps1),
            (self.maps1 * taps, self.maps2),
            (features, self.hidden),
            (self.hidden, self.classes),
        )
        return sum((inputs + 1) * outputs for inputs, outputs in layers)


class Samples(NamedTuple):
    """Images (sample, height, width, channel), and how they are normalised: (pixel - mean)·scale."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int32]
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]


class Kernel:
    """A network's working memory; one participant at a time. Different threads use different ones."""

    def __init__(self, shape: Shape, target: str) -> None:
        self._library = library()
        self.shape = shape
        self._handle = self._library.fadewise_create(target.encode(), (ctypes.c_int32 * len(shape))(*shape))
        if not self._handle:
            raise FadewiseError(
                f"the native kernel cannot make a network of {shape} for {target}: it is beyond its "
                'family, this machine or its memory; training.backend = "pytorch" does without it'
            )

    def train(
        self,
        parameters: NDArray[np.float32],
        samples: Samples,
        rows: NDArray[np.int64],
        step_size: float,
    ) -> NDArray[np.float32]:
        """A step of SGD on each row of `rows`, changing `parameters`; the mean loss of each step's batch."""
        self._check_sizes(parameters, samples)
        steps, batch = rows.shape
        losses = np.empty(steps, np.float32)
        status = self._library.fadewise_train(
            self._handle, parameters, samples.images, samples.labels, len(samples.labels),
            np.ascontiguousarray(rows), steps, batch, step_size, samples.mean, samples.scale, losses,
        )  # fmt: skip
        _check(status)
        return losses

    def evaluate(
        self, parameters: NDArray[np.float32], samples: Samples, rows: NDArray[np.int64]
    ) -> tuple[int, NDArray[np.float64]]:
        """How many of these rows of the samples are classified right, and each one's loss."""
        self._check_sizes(parameters, samples)
        losses = np.empty(len(rows))
        correct = self._library.fadewise_evaluate(
            self._handle, parameters, samples.images, samples.labels, len(samples.labels), rows, len(rows),
            samples.mean, samples.scale, losses,
        )  # fmt: skip
        _check(correct)
        return int(correct), losses

    def _check_sizes(self, parameters: NDArray[np.float32], samples: Samples) -> None:
        """ctypes checks what arrays hold and how they lie, but the kernel would read beyond one that is too short."""
        height, width, channels = self.shape[:3]
        expected = [(self.shape.parameters,), (len(samples.labels), height, width, channels), (channels,), (channels,)]
        given = [array.shape for array in (parameters, samples.images, samples.mean, samples.scale)]
        if given != expected:
            raise FadewiseError(
                f"parameters, images, mean and scale have shapes {given}; for this network they must be {expected}"
            )

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.fadewise_destroy(self._handle)


def targets() -> list[str]:
    """The instruction sets that this machine has, the fastest first; none where no library can be loaded."""
    try:
        loaded = library()
    except OSError:
        return []
    names: list[str] = []
    while (name := loaded.fadewise_target(len(names))) is not None:
        names.append(name.decode())
    return names


def multiply_adds(target: str, rounds: int) -> int:
    """Multiply-adds at the pace that this instruction set allows, to be timed; how many they were."""
    return int(library().fadewise_multiply_adds(target.encode(), rounds))


@functools.cache
def library() -> Any:
    """The library with its functions' types."""
    loaded = ctypes.CDLL(str(LIBRARY))
    handle, count, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
    samples = (_array(np.uint8), _array(np.int32), count)
    normalisation = (_array(np.float32), _array(np.float32))
    loaded.fadewise_target.argtypes = (ctypes.c_int,)
    loaded.fadewise_target.restype = ctypes.c_char_p
    loaded.fadewise_create.argtypes = (ctypes.c_char_p, ctypes.POINTER(ctypes.c_int32))
    loaded.fadewise_create.restype = handle
    loaded.fadewise_destroy.argtypes = (handle,)
    loaded.fadewise_destroy.restype = None
    loaded.fadewise_train.argtypes = (
        handle, _result(np.float32), *samples, _array(np.int64), count, ctypes.c_int32, number,
        *normalisation, _result(np.float32),
    )  # fmt: skip
    loaded.fadewise_train.restype = ctypes.c_int
    loaded.fadewise_evaluate.argtypes = (
        handle, _array(np.float32), *samples, _array(np.int64), count, *normalisation, _result(np.float64),
    )  # fmt: skip
    loaded.fadewise_evaluate.restype = count
    loaded.fadewise_multiply_adds.argtypes = (ctypes.c_char_p, count)
    loaded.fadewise_multiply_adds.restype = count
    return loaded


def _array(dtype: type) -> Any:
    return ndpointer(dtype, flags=("C_CONTIGUOUS", "ALIGNED"))


def _result(dtype: type) -> Any:
    return ndpointer(dtype, flags=("C_CONTIGUOUS", "ALIGNED", "WRITEABLE"))


def _check(status: int) -> None:
    if status < 0:
        raise FadewiseError("a sample's row or label is out of range; rows begin at 0, labels are below the classes")
