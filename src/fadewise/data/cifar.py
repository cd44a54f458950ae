"""CIFAR-10 from its official releases: binary or Python, unpacked or still in the archive."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy._core.multiarray import _reconstruct  # what the pickles call
from numpy.typing import NDArray

from fadewise.data import cache, sources
from fadewise.data.base import Data, Images, Labels, Pool
from fadewise.data.held import Held, check_labels
from fadewise.data.partitions import IID, Partition
from fadewise.errors import FadewiseError

CLASSES = 10
PER_FILE = 10_000
_SIDE, _CHANNELS = 32, 3
_PIXELS = _SIDE * _SIDE * _CHANNELS
_TRAINING = tuple(f"data_batch_{number}" for number in range(1, 6))
_TEST = "test_batch"
_BLOCK = 1 << 20
_ENDINGS = {"cifar-10-batches-bin": ".bin", "cifar-10-batches-py": ""}
"""The folders that the archives hold, and how the names of their files end."""


@dataclass(frozen=True)
class CIFAR10(Data):
    """CIFAR-10 (Krizhevsky, 2009): 50,000 training and 10,000 test images of 32x32 pixels, 10 classes.

    path: the folder cifar-10-batches-bin or cifar-10-batches-py, or the archive (.tar.gz) of either;
        else it is looked for, see `fadewise data list`.
    """

    kind: ClassVar[str] = "cifar10"
    partition: Partition = IID()  # noqa: RUF009  (it is frozen)
    path: str | Path | None = None

    def place(self) -> Path:
        return sources.located("cifar10") if self.path is None else Path(self.path)

    def federation(self, devices: int, seed: int) -> Held:
        path = self.place()
        pool, moments = cache.stored(self.kind, _files(path), {}, lambda: read(path))
        return Held(pool, self.partition, devices, seed, where=str(path), moments=moments)


def read(path: Path) -> Pool:
    """All of CIFAR-10 from a folder or an archive."""
    batches: dict[str, tuple[Images, Labels]] = {}
    for name, where, content in _archived(path) if path.is_file() else _unpacked(path):
        images, labels = _binary(where, content) if name.endswith(".bin") else _pickled(where, content)
        if len(labels) != PER_FILE:
            raise FadewiseError(f"{where} has {len(labels)} images; it must have {PER_FILE}: it is cut off or another")
        check_labels(where, labels, CLASSES)
        batches[name.removesuffix(".bin")] = images, labels
    for name in (*_TRAINING, _TEST):
        if name not in batches:
            raise FadewiseError(f"{path} has no {name}; all of {', '.join(_TRAINING)} and {_TEST} are needed")
    images, labels = (np.concatenate([batches[name][part] for name in _TRAINING]) for part in (0, 1))
    return Pool(images, labels, CLASSES, None, *batches[_TEST])


def _files(path: Path) -> list[Path]:
    """The files to be read."""
    if path.is_file():
        return [path]
    folder, ending = _layout(path)
    return [folder / f"{name}{ending}" for name in (*_TRAINING, _TEST)]


def _layout(path: Path) -> tuple[Path, str]:
    """The folder with the batches, and how their names end."""
    for folder in (path, *(path / name for name in _ENDINGS)):
        for ending in _ENDINGS.values():
            if any((folder / f"{name}{ending}").is_file() for name in (*_TRAINING, _TEST)):
                return folder, ending
    if not path.exists():
        raise FadewiseError(f"{path} is not there; it must be a folder or an archive of CIFAR-10")
    raise FadewiseError(
        f"{path} has no CIFAR-10 in it; it must be the folder cifar-10-batches-bin or cifar-10-batches-py, "
        "or the archive (.tar.gz) of either"
    )


def _unpacked(path: Path) -> Iterator[tuple[str, str, bytes]]:
    for file in _files(path):
        try:
            yield file.name, str(file), file.read_bytes()
        except OSError as error:
            raise FadewiseError(f"{file} cannot be read: {error.strerror or error}") from None


def _archived(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """The batches in an archive, from one pass over it."""
    wanted = {f"{name}{ending}" for name in (*_TRAINING, _TEST) for ending in _ENDINGS.values()}
    try:
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                name = Path(member.name).name
                file = archive.extractfile(member) if name in wanted and member.isfile() else None
                if file is not None:
                    yield name, f"{path}: {member.name}", file.read()
            while stream.read(_BLOCK):  # gzip's checksum comes last
                pass
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise FadewiseError(
            f"{path} cannot be read as an archive (.tar.gz): it is cut off, damaged or another file ({error})"
        ) from None


def _binary(where: str, content: bytes) -> tuple[Images, Labels]:
    """A label byte and then the red, the green and the blue plane, for each image."""
    if len(content) % (1 + _PIXELS):
        raise FadewiseError(
            f"{where} has {len(content)} bytes, which is no multiple of {1 + _PIXELS}: it is cut off or another file"
        )
    samples = np.frombuffer(content, np.uint8).reshape(-1, 1 + _PIXELS)
    return _channels_last(samples[:, 1:]), samples[:, 0].astype(np.int32)


def _pickled(where: str, content: bytes) -> tuple[Images, Labels]:
    """A pickled dictionary with the same planes under b'data'."""
    try:
        batch = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        planes, labels = batch.get(b"data"), np.asarray(batch.get(b"labels"))
    except FadewiseError:
        raise
    except Exception as error:  # broken pickles raise nearly anything
        raise FadewiseError(f"{where} cannot be read as a CIFAR-10 batch: it is cut off or another ({error})") from None
    if not isinstance(planes, np.ndarray) or planes.dtype != np.uint8 or planes.shape[1:] != (_PIXELS,):
        raise FadewiseError(f"{where} cannot be read as a CIFAR-10 batch: data are not uint8 of shape (n, {_PIXELS})")
    if labels.shape != planes.shape[:1] or labels.dtype.kind not in "iu":
        raise FadewiseError(f"{where} cannot be read as a CIFAR-10 batch: labels are not one whole number an image")
    return _channels_last(planes), labels.astype(np.int32)


class _Unpickler(pickle.Unpickler):
    """Reads arrays of numbers and what Python has for data, and nothing that could run a program."""

    def find_class(self, module: str, name: str) -> Any:
        # The release of 2009 says numpy.core; by that name NumPy 2 has it only with a warning.
        place = module.replace("numpy._core", "numpy.core"), name
        allowed = {
            ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
        }
        if place not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in it")
        return allowed[place]


def _channels_last(planes: NDArray[np.uint8]) -> Images:
    images = planes.reshape(-1, _CHANNELS, _SIDE, _SIDE).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images)
