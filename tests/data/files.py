"""Small files in the layouts of the releases, and where the real ones are."""

import io
import json
import pickle
import struct
import tarfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import PIL.Image
import pyarrow
import pyarrow.parquet
import pytest
from numpy.typing import NDArray

from fadewise.data import cifar

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def shared(name: str) -> Path:
    """A folder of real files; the test is skipped where it is not there."""
    if not (SHARED / name).exists():
        pytest.skip(f"the real files are not there: {SHARED / name}")
    return SHARED / name


class Cifar:
    """A small CIFAR-10, a few images a file, in all official layouts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, per_file: int = 6) -> None:
        monkeypatch.setattr(cifar, "PER_FILE", per_file)
        random = np.random.default_rng(0)
        self.planes = random.integers(0, 256, (6, per_file, 3072), np.uint8)
        self.labels = random.integers(0, 10, (6, per_file)).astype(np.uint8)
        self.folder = folder

    @property
    def images(self) -> NDArray[np.uint8]:
        """By file; pixel by pixel, as the page of the release describes the planes."""
        pixels = np.empty((*self.planes.shape[:2], 32, 32, 3), np.uint8)
        for row in range(32):
            for column in range(32):
                for channel in range(3):
                    pixels[:, :, row, column, channel] = self.planes[:, :, 1024 * channel + 32 * row + column]
        return pixels

    def binary(self) -> Path:
        folder = self._folder("cifar-10-batches-bin")
        for name, planes, labels in zip(BATCHES, self.planes, self.labels, strict=True):
            (folder / f"{name}.bin").write_bytes(np.column_stack([labels, planes]).tobytes())
        return folder

    def python(self) -> Path:
        folder = self._folder("cifar-10-batches-py")
        for name, planes, labels in zip(BATCHES, self.planes, self.labels, strict=True):
            batch = {b"batch_label": name.encode(), b"labels": labels.tolist(), b"data": planes, b"filenames": [b"a"]}
            (folder / name).write_bytes(pickled_as_in_2009(batch))
        return folder

    def archive(self, folder: Path) -> Path:
        path = self.folder / f"{folder.name.replace('batches-bin', 'binary').replace('batches-py', 'python')}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            archive.add(folder, folder.name)
        return path

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "readme.html").write_text("no batch")
        return folder


class _Python2Pickler(pickle._Pickler):
    """Writes bytes and NumPy's names as Python 2 did; the official batches are its pickles."""

    write: Any
    memoize: Any
    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)

    def save_bytes(self, value: bytes) -> None:
        self.write(pickle.BINSTRING + struct.pack("<i", len(value)) + value)
        self.memoize(value)

    def save_str(self, value: str) -> None:
        self.save_bytes(value.encode("latin1"))

    def save_global(self, value: Any, name: str | None = None) -> None:
        module = value.__module__.replace("numpy._core", "numpy.core")
        self.write(pickle.GLOBAL + f"{module}\n{value.__name__}\n".encode())
        self.memoize(value)

    dispatch |= {bytes: save_bytes, str: save_str, type: save_global, type(len): save_global}


def pickled_as_in_2009(value: object) -> bytes:
    file = io.BytesIO()
    _Python2Pickler(file, 2).dump(value)
    assert b"numpy.core.multiarray" in file.getvalue()
    return file.getvalue()


def same(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    """Whether two tuples hold equal arrays and numbers, or nothing, in the same places."""
    return all((a is None and b is None) or np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def png(pixels: NDArray[np.uint8], mode: str | None = None) -> bytes:
    file = io.BytesIO()
    image = PIL.Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(file, "PNG")
    return file.getvalue()


def parquet(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def leaf(path: Path, given: dict[str, list[int]], seed: int = 0, **changes: Any) -> dict[str, NDArray[np.float64]]:
    """A LEAF file of users with these labels; the pixels of each user. `changes` replace parts of the file."""
    random = np.random.default_rng(seed)
    pixels = {user: np.round(random.random((len(labels), 784)), 3) for user, labels in given.items()}
    content = {
        "users": list(given),
        "num_samples": [len(labels) for labels in given.values()],
        "user_data": {user: {"x": pixels[user].tolist(), "y": labels} for user, labels in given.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content | changes))
    return pixels
