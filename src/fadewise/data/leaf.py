"""Images by writer in LEAF's JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.data import cache, sources
from fadewise.data.base import Data, Labels, Pool
from fadewise.data.held import Held
from fadewise.data.partitions import ByOwner, Partition
from fadewise.errors import FadewiseError, shown

_SIDE = 28
_KEYS = ("users", "num_samples", "user_data")


@dataclass(frozen=True)
class LEAF(Data):
    """FEMNIST, or a part of it, as LEAF (Caldas et al., 2018) writes it: JSON with a list of pixels an image.

    Users are owners in the order of the files, which are read by name, those of train/ before those of test/.
    LEAF's division into train/ and test/ is not kept, since it may be by user: everything is pooled, and a tenth
    of each user's samples is held out for the test set. A user without samples is nobody.

    path: a .json file, a folder of them, or the folder with train/ and test/; else it is looked for, see
        `fadewise data list`. Images are 28x28 floats from 0 to 1, of which paper is 1.
    """

    kind: ClassVar[str] = "leaf"
    partition: Partition = ByOwner()  # noqa: RUF009  (it is frozen)
    path: str | Path | None = None
    classes: int = 62

    def __post_init__(self) -> None:
        checks.whole("classes", self.classes, least=1)

    def place(self) -> Path:
        return sources.located("femnist", "leaf") if self.path is None else Path(self.path)

    def federation(self, devices: int, seed: int) -> Held:
        path = self.place()
        files = json_files(path)
        pool, moments = cache.stored(self.kind, files, {"classes": self.classes}, lambda: read(files, self.classes))
        return Held(pool, self.partition, devices, seed, where=str(path), moments=moments)


def json_files(path: Path) -> list[Path]:
    """The files at a path, by name, train/ before test/."""
    if path.is_file():
        return [path]
    if not path.exists():
        raise FadewiseError(f"{path} is not there; it must be a .json file of LEAF's or a folder of them")
    divided = [file for part in ("train", "test") for file in sorted((path / part).glob("*.json"))]
    files = divided or sorted(path.glob("*.json"))
    if not files:
        raise FadewiseError(f"{path} has no .json file in it, nor have its folders train and test")
    return files


def read(files: list[Path], classes: int = 62) -> Pool:
    """All samples of some files."""
    numbers: dict[str, int] = {}
    images, labels, owners = [], [], []
    for path in files:
        for user, pixels, characters in _users(path, classes):
            images.append(pixels)
            labels.append(characters)
            owners.append(np.full(len(characters), numbers.setdefault(user, len(numbers)), np.int32))
    if not images:
        raise FadewiseError(f"{files[0].parent} has no samples in its .json files")
    return Pool(np.concatenate(images), np.concatenate(labels), classes, np.concatenate(owners))


def _users(path: Path, classes: int) -> Iterator[tuple[str, NDArray[np.uint8], Labels]]:
    """The users of one file who have samples."""
    content = _content(path)
    users, amounts, samples = (content[key] for key in _KEYS)
    if len(amounts) != len(users):
        raise FadewiseError(
            f"{path}: num_samples has {len(amounts)} numbers for {len(users)} users; one each is needed"
        )
    known = {*map(str, users)}
    if len(known) != len(users):
        twice = next(user for number, user in enumerate(users) if user in users[:number])
        raise FadewiseError(f"{path}: users has {shown(twice)} twice")
    for user in samples:
        if user not in known:
            raise FadewiseError(f"{path}: user {user} is in user_data but not in users")
    for user, amount in zip(users, amounts, strict=True):
        if not isinstance(user, str) or user not in samples:
            raise FadewiseError(f"{path}: user {user} is in users but not in user_data")
        x, y = _lists(f"{path}: user {user}", samples[user])
        if len(x) != len(y):
            raise FadewiseError(f"{path}: user {user} has {len(x)} images and {len(y)} labels")
        if amount != len(y):
            raise FadewiseError(f"{path}: user {user} has {len(y)} samples, but num_samples says {shown(amount)}")
        if y:
            yield user, _pixels(f"{path}: user {user}", x), _labels(f"{path}: user {user}", y, classes)


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise FadewiseError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise FadewiseError(f"{path} cannot be read as JSON: {error}; it is cut off, damaged or another file") from None
    if not isinstance(content, dict):
        raise FadewiseError(f"{path} is not LEAF's JSON: it has no table with {', '.join(_KEYS)}")
    for key, kind in zip(_KEYS, (list, list, dict), strict=True):
        if not isinstance(content.get(key), kind):
            what = "list" if kind is list else "table"
            raise FadewiseError(f"{path} is not LEAF's JSON: it has no {what} {key}")
    return content


def _lists(where: str, data: object) -> tuple[list[Any], list[Any]]:
    if isinstance(data, dict) and isinstance(data.get("x"), list) and isinstance(data.get("y"), list):
        return data["x"], data["y"]
    raise FadewiseError(f"{where} has no lists x and y")


def _pixels(where: str, x: list[Any]) -> NDArray[np.uint8]:
    for sample, row in enumerate(x):
        if not isinstance(row, list) or len(row) != _SIDE * _SIDE:
            has = f"{len(row)} numbers" if isinstance(row, list) else shown(row)
            raise FadewiseError(f"{where}: x of sample {sample} has {has}; it must have {_SIDE * _SIDE} numbers")
    try:
        # Bare `np.array(x)`, so that strings are seen and not read as numbers.
        pixels = np.array(x)
        if pixels.dtype.kind not in "fiu" or pixels.shape != (len(x), _SIDE * _SIDE):
            raise ValueError
    except ValueError:
        raise FadewiseError(f"{where}: x must hold numbers from 0 to 1") from None
    for sample, place in np.argwhere(~((pixels >= 0) & (pixels <= 1)))[:1]:
        raise FadewiseError(
            f"{where}: x of sample {sample} has the number {pixels[sample, place]:g}; it must be from 0 to 1"
        )
    return np.rint(255 * pixels.astype(np.float64)).astype(np.uint8).reshape(-1, _SIDE, _SIDE, 1)


def _labels(where: str, y: list[Any], classes: int) -> Labels:
    for sample, label in enumerate(y):
        if type(label) is not int or not 0 <= label < classes:
            raise FadewiseError(
                f"{where}: sample {sample} has the label {shown(label)}; it must be a class from 0 to {classes - 1}"
            )
    return np.array(y, np.int32)
