"""Images by writer from parquet files, as FEMNIST is released on the Hugging Face hub."""

from __future__ import annotations

import io
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.data import cache, sources
from fadewise.data.base import Data, Images, Labels, Pool
from fadewise.data.held import Held
from fadewise.data.partitions import ByOwner, Partition
from fadewise.errors import FadewiseError

_IMAGE, _WRITER, _LABELS = "image", "writer_id", ("character", "label")
_CHARACTERS = {c: number for number, c in enumerate(string.digits + string.ascii_uppercase + string.ascii_lowercase)}
"""The class of each character, as LEAF and the release on the hub number them."""

_BATCH_ROWS = 8192
_MODES = {"1": "L", "L": "L", "LA": "L", "P": "RGB", "RGB": "RGB", "RGBA": "RGB"}
"""What is made of each kind of image: grey or colour, without its transparency."""


@dataclass(frozen=True)
class Writers(Data):
    """Images by writer: FEMNIST, MNIST by writer, or any data set in the same parquet columns.

    The columns: `image` (PNG, as bytes or as a struct with them), `writer_id`, and `character` or `label` (a
    class from 0, or a digit or letter). Writers are owners in order of appearance, and of each a tenth is
    held out for the test set. Needs pyarrow and pillow (the `train` extra).

    path: a .parquet file or a folder of them; else `dataset` is looked for, see `fadewise data list`.
    classes: how many there are; else one more than the largest class that appears.
    """

    kind: ClassVar[str] = "writers"
    partition: Partition = ByOwner()  # noqa: RUF009  (it is frozen)
    path: str | Path | None = None
    dataset: Literal["femnist", "mnist-by-writer"] = "femnist"
    classes: int | None = None

    def __post_init__(self) -> None:
        checks.choice("dataset", self.dataset, ("femnist", "mnist-by-writer"))
        if self.classes is not None:
            checks.whole("classes", self.classes, least=1)

    def place(self) -> Path:
        return sources.located(self.dataset, "parquet") if self.path is None else Path(self.path)

    def federation(self, devices: int, seed: int) -> Held:
        path = self.place()
        files = parquet_files(path)
        pool, moments = cache.stored(self.kind, files, {"classes": self.classes}, lambda: read(files, self.classes))
        return Held(pool, self.partition, devices, seed, where=str(path), moments=moments)


def parquet_files(path: Path) -> list[Path]:
    """The files at a path, by name."""
    if path.is_dir():
        files = sorted(path.glob("*.parquet"))
        if not files:
            raise FadewiseError(f"{path} has no .parquet file in it")
        return files
    if not path.exists():
        raise FadewiseError(f"{path} is not there; it must be a .parquet file or a folder of them")
    return [path]


def read(files: list[Path], classes: int | None = None) -> Pool:
    """All images of some parquet files."""
    parquet = _Parquet(files[0])
    opened = [parquet.opened(file) for file in files]
    rows = sum(file.metadata.num_rows for file in opened)
    if not rows:
        raise FadewiseError(f"{files[0]} has no rows; it must have one for each image")
    images: Images | None = None
    labels, owners = np.empty(rows, np.int32), np.empty(rows, np.int32)
    writers: dict[Any, int] = {}
    done = 0
    for path, file in zip(files, opened, strict=True):
        first = done
        for pngs, names, characters in parquet.batches(path, file):
            part = slice(done, done + len(pngs))
            for number, png in enumerate(pngs, start=done):
                pixels = _pixels(f"{path}, row {number - first}", png)
                if images is None:
                    images = np.empty((rows, *pixels.shape), np.uint8)
                elif pixels.shape != images.shape[1:]:
                    raise FadewiseError(
                        f"{path}, row {number - first}: the image is of shape {pixels.shape}; "
                        f"it must be as the first image, {images.shape[1:]}"
                    )
                images[number] = pixels
            labels[part] = _classes(f"{path}, row", characters, done - first, classes)
            owners[part] = [writers.setdefault(name, len(writers)) for name in names]
            if None in writers:
                raise FadewiseError(f"{path}, row {done - first + names.index(None)}: {_WRITER} is missing")
            done += len(pngs)
    assert images is not None
    return Pool(images, labels, int(labels.max()) + 1 if classes is None else classes, owners)


class _Parquet:
    """The reading of parquet, with pyarrow imported where it is needed and its errors as sentences."""

    def __init__(self, path: Path) -> None:
        try:
            import PIL.Image  # noqa: F401
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise FadewiseError(
                f"{path} is read with pyarrow and pillow, which are not installed: pip install 'fadewise[train]'"
            ) from None
        self._arrow, self._parquet = pyarrow, pyarrow.parquet

    def opened(self, path: Path) -> Any:
        try:
            path.open("rb").close()  # so that a missing file is told as such
        except OSError as error:
            raise FadewiseError(f"{path} cannot be read: {error.strerror or error}") from None
        try:
            return self._parquet.ParquetFile(path)
        except (self._arrow.ArrowException, OSError) as error:
            raise self._damaged(path, error) from None

    def batches(self, path: Path, file: Any) -> Iterator[tuple[list[bytes], list[Any], Any]]:
        """PNGs, writers and characters, some rows at a time."""
        names = file.schema_arrow.names
        label = next((name for name in _LABELS if name in names), _LABELS[0])
        missing = [name for name in (_IMAGE, _WRITER, label) if name not in names]
        if missing:
            raise FadewiseError(
                f"{path} has no column {missing[0]}; it has {', '.join(names)} and must have "
                f"{_IMAGE}, {_WRITER} and {' or '.join(_LABELS)}"
            )
        kind = file.schema_arrow.field(_IMAGE).type
        packed = self._arrow.types.is_struct(kind)
        if packed and kind.get_field_index("bytes") < 0:
            raise FadewiseError(f"{path}: the column {_IMAGE} holds {kind}; it must hold PNG files, as bytes")
        try:
            for batch in file.iter_batches(_BATCH_ROWS, columns=[_IMAGE, _WRITER, label]):
                table = self._arrow.table(batch)
                image = table[_IMAGE].combine_chunks()
                pngs = (image.field("bytes") if packed else image).to_pylist()
                yield pngs, table[_WRITER].to_pylist(), table[label].to_pylist()
        except (self._arrow.ArrowException, OSError) as error:
            raise self._damaged(path, error) from None

    def _damaged(self, path: Path, error: Exception) -> FadewiseError:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        return FadewiseError(f"{path} cannot be read as parquet: {reason}; it is cut off, damaged or another file")


def _pixels(where: str, png: object) -> NDArray[np.uint8]:
    import PIL.Image

    if not isinstance(png, bytes):
        raise FadewiseError(f"{where}: the image is no PNG file, as bytes")
    try:
        with PIL.Image.open(io.BytesIO(png), formats=("PNG",)) as image:
            if image.mode not in _MODES:
                raise FadewiseError(
                    f"{where}: the image is of mode {image.mode}; it must be one of {', '.join(_MODES)}"
                )
            mode = _MODES[image.mode]
            plain = image if image.mode == mode else image.convert(mode)
            pixels = np.frombuffer(plain.tobytes(), np.uint8)
            return pixels.reshape(plain.height, plain.width, len(mode))
    except (OSError, SyntaxError, ValueError, EOFError) as error:  # what pillow raises for damaged files
        if isinstance(error, FadewiseError):
            raise
        raise FadewiseError(f"{where}: the image cannot be read as PNG ({str(error)[:60]})") from None


def _classes(where: str, characters: list[Any], first: int, classes: int | None) -> Labels:
    """Classes as numbers; digits and letters are numbered as in FEMNIST."""
    numbers = [_CHARACTERS.get(value, -1) if isinstance(value, str) else value for value in characters]
    for row, number in enumerate(numbers, start=first):
        if type(number) is not int or not 0 <= number < (classes or 2**31):
            allowed = "a class from 0, a digit or a letter" if classes is None else f"a class from 0 to {classes - 1}"
            raise FadewiseError(f"{where} {row} has the label {characters[row - first]!r}; it must be {allowed}")
    return np.array(numbers, np.int32)
