"""The built-in handwriting set: 62 characters by any number of writers, drawn here, with nothing to download."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.data import strokes, writers
from fadewise.data.base import Data, Federation, Images, Labels, Shard
from fadewise.data.cache import cache_folder
from fadewise.data.ondemand import OnDemand
from fadewise.errors import FadewiseError
from fadewise.randomness import LARGEST_SEED

MOST_TESTED = 4096
"""Of more writers than these, the held-out samples of the first ones are the test set."""

_FORMAT = 1
_MEASURED = 64


@dataclass(frozen=True)
class Handwriting(Data):
    """Digits and letters in many hands, as FEMNIST has them: each device has one writer's characters.

    Not FEMNIST, but of its shape: 28 × 28 grey pixels, dark ink on white paper, 62 classes in its order, as
    unequal in frequency; writers differ in hand, in letter frequencies and in how much they wrote. A tenth of
    every writer's samples is held out. A writer's samples depend on `seed` and the writer's number alone.

    samples_per_writer: how many on average, held-out ones included; each has 8 at least. FEMNIST has 224.
    seed: the writers'. Not the run's: all runs meet the same writers, as with data that are downloaded.
    """

    kind: ClassVar[str] = "handwriting"
    samples_per_writer: float = 200.0
    seed: int = 0

    def __post_init__(self) -> None:
        average = checks.number("samples_per_writer", self.samples_per_writer, least=writers.FEWEST, most=1e5)
        object.__setattr__(self, "samples_per_writer", average)
        object.__setattr__(self, "seed", checks.whole("seed", self.seed, least=0, most=LARGEST_SEED))

    def federation(self, devices: int, seed: int) -> Written:  # noqa: ARG002  # who has what is not drawn
        return Written(self.seed, self.samples_per_writer, checks.whole("devices", devices, least=1))


class Written(Federation):
    """What `devices` writers wrote. Drawn when it is first asked for, and kept in the cache folder."""

    classes = writers.CLASSES
    image_shape = (strokes.SIDE, strokes.SIDE, 1)

    def __init__(self, seed: int, samples_per_writer: float, devices: int) -> None:
        self._seed = seed
        amounts = writers.amounts(seed, samples_per_writer, devices)
        held_out = np.maximum(1, np.rint(amounts / 10)).astype(np.int64)
        self._sizes = amounts - held_out
        self._held_out = held_out[:MOST_TESTED]
        self._folder = cache_folder() / f"handwriting-{devices}-{_digest(seed, amounts)}"
        self._training = OnDemand(self._folder, "training", self._sizes, self.image_shape, self._training_samples)

    @property
    def sizes(self) -> NDArray[np.int64]:
        return self._sizes

    def shard(self, device: int) -> Shard:
        if not 0 <= device < len(self._sizes):
            raise FadewiseError(f"there is no device {device}; the devices are 0 to {len(self._sizes) - 1}")
        rows = self._training.made(device)
        return Shard(self._training.images, self._training.labels, np.arange(rows.start, rows.stop))

    @functools.cached_property
    def test_images(self) -> Images:  # type: ignore[override]  # made when first asked for
        return self._tested.images

    @functools.cached_property
    def test_labels(self) -> Labels:  # type: ignore[override]  # made when first asked for
        return self._tested.labels

    @functools.cached_property
    def mean(self) -> NDArray[np.float32]:  # type: ignore[override]  # made when first asked for
        return np.array([self._moments[0]], np.float32)

    @functools.cached_property
    def deviation(self) -> NDArray[np.float32]:  # type: ignore[override]  # made when first asked for
        return np.array([self._moments[1]], np.float32)

    @functools.cached_property
    def _tested(self) -> OnDemand:
        test = OnDemand(self._folder, "test", self._held_out, self.image_shape, self._held_out_samples)
        test.all_made()
        return test

    @functools.cached_property
    def _moments(self) -> tuple[float, float]:
        """Mean and deviation of the first writers' pixels: they are told well enough from these."""
        path = self._folder / "moments.json"
        try:
            kept = json.loads(path.read_text())
            return float(kept["mean"]), float(kept["deviation"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # not there yet, or broken: it is quickly made again
        total = squares = pixels = 0
        for writer in range(min(_MEASURED, len(self._sizes))):
            images = self._training.images[self._training.made(writer)]
            total += int(images.sum(dtype=np.int64))
            squares += int(np.square(images, dtype=np.uint16).sum(dtype=np.int64))
            pixels += images.size
        mean, deviation = total / pixels, ((pixels * squares - total**2) ** 0.5) / pixels
        _write_whole(path, json.dumps({"mean": mean, "deviation": deviation}))
        return mean, deviation

    def _training_samples(self, writer: int) -> tuple[Images, Labels]:
        return writers.samples(self._seed, writer, 0, int(self._sizes[writer]))

    def _held_out_samples(self, writer: int) -> tuple[Images, Labels]:
        return writers.samples(self._seed, writer, int(self._sizes[writer]), int(self._held_out[writer]))


def _digest(seed: int, amounts: NDArray[np.int64]) -> str:
    """Of all that the samples come from. Some are drawn and taken in, and with them the code and the fonts."""
    images, labels = writers.samples(seed, 0, 0, 32)
    parts = (_FORMAT, seed, *(zlib.crc32(array.data) for array in (amounts, images, labels)), strokes.glyphs().digest)
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def _write_whole(path: Path, text: str) -> None:
    """All of it or nothing. What cannot be kept is made again."""
    part = path.with_suffix(f".{os.getpid()}")
    try:
        part.write_text(text)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
