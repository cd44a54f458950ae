"""The data sets that are known by name: where they are looked for, what their files must be, where they come from."""

from __future__ import annotations

import hashlib
import os
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import NamedTuple

from fadewise.data.cache import cache_folder
from fadewise.errors import FadewiseError, NotAllowed

_BLOCK = 1 << 20
_ATTEMPTS = 3
_TIMEOUT_S = 60
_PAUSE_S = 1.0

Progress = Callable[[str, int, int | None], None]
"""Told how a download goes: the file's name, the bytes that are there, and of how many, where that is known."""


class File(NamedTuple):
    """One file of a release. md5: None where its publisher has published no checksum."""

    name: str
    md5: str | None = None
    size: int | None = None
    url: str | None = None


class Release(NamedTuple):
    """One form in which a data set is published.

    layout: the name of the form, for those who can read one but not another.
    folders: what the folder is called that has the files, as patterns.
    found_by: patterns of the files by which the release is known to be there.
    bare: the files are known by their names alone, whatever their folder is called.
    archive: the file is the location, not the folder that it lies in.
    files: the files, where it is known which there must be.
    """

    layout: str
    folders: tuple[str, ...]
    found_by: tuple[str, ...]
    bare: bool = False
    archive: bool = False
    files: tuple[File, ...] = ()


class DataSet(NamedTuple):
    """A data set by name. fetched: the files that a download is made of."""

    title: str
    releases: tuple[Release, ...]
    fetched: tuple[File, ...] = ()


class Listed(NamedTuple):
    """Whether a data set is there. found: where; None where it is not. how_to_get: a sentence."""

    name: str
    title: str
    found: Path | None
    how_to_get: str


class Checked(NamedTuple):
    """What a file of a data set is like: ok, no published checksum, missing, truncated or wrong checksum."""

    path: Path
    state: str
    detail: str = ""


OK, UNKNOWN, MISSING = "ok", "no published checksum", "missing"
TRUNCATED, WRONG = "truncated", "wrong checksum"

_TORONTO = "https://www.cs.toronto.edu/~kriz/"
_HUB = "https://huggingface.co/datasets/flwrlabs/femnist/resolve/main/data/"
_CIFAR_FOLDERS = ("cifar-10-batches-bin", "cifar-10-batches-py", "cifar10", "cifar-10")
_CIFAR_BINARY = File(
    "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", url=_TORONTO + "cifar-10-binary.tar.gz"
)
_CIFAR_PYTHON = File(
    "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", url=_TORONTO + "cifar-10-python.tar.gz"
)
_FEMNIST = tuple(File(f"train-0000{n}-of-00003.parquet", url=f"{_HUB}train-0000{n}-of-00003.parquet") for n in range(3))
_BUILT_IN = "handwriting"
_BATCH_BYTES = 30_730_000

DATA_SETS: dict[str, DataSet] = {
    "cifar10": DataSet(
        "CIFAR-10: 60,000 colour images, 10 classes",
        (
            Release(
                "binary",
                _CIFAR_FOLDERS,
                ("data_batch_[1-5].bin", "test_batch.bin"),
                bare=True,
                files=(
                    File("data_batch_1.bin", "5dd7e06a14cb22eb9f671a540d1b7c25", _BATCH_BYTES),
                    File("data_batch_2.bin", "5ea93a67294ea407fff1d09f752e9692", _BATCH_BYTES),
                    File("data_batch_3.bin", "942cd6a4bcdd0dd3c604fbe906cb4421", _BATCH_BYTES),
                    File("data_batch_4.bin", "ae636b3ba5c66a11e91e8cb52e771fcb", _BATCH_BYTES),
                    File("data_batch_5.bin", "53f37980c15c3d472c316c40844f3f0d", _BATCH_BYTES),
                    File("test_batch.bin", "803d5f7f4d78ea53de84dbe85f74fb6d", _BATCH_BYTES),
                ),
            ),
            Release(
                "python",
                _CIFAR_FOLDERS,
                ("data_batch_[1-5]", "test_batch"),
                bare=True,
                files=(
                    File("data_batch_1", "c99cafc152244af753f735de768cd75f"),
                    File("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
                    File("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
                    File("data_batch_4", "634d18415352ddfa80567beed471001a"),
                    File("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
                    File("test_batch", "40351d587109b95175f43aff81a1287e"),
                ),
            ),
            Release("binary", _CIFAR_FOLDERS, (_CIFAR_BINARY.name,), bare=True, archive=True, files=(_CIFAR_BINARY,)),
            Release("python", _CIFAR_FOLDERS, (_CIFAR_PYTHON.name,), bare=True, archive=True, files=(_CIFAR_PYTHON,)),
        ),
        (_CIFAR_BINARY,),
    ),
    "femnist": DataSet(
        "FEMNIST: handwritten characters of 3,597 writers, 62 classes",
        (
            Release("parquet", ("femnist*",), ("*.parquet",)),
            Release("leaf", ("leaf-femnist*", "femnist*"), ("train/*.json", "test/*.json", "*.json")),
        ),
        _FEMNIST,
    ),
    "mnist-by-writer": DataSet(
        "MNIST by writer: handwritten digits of 836 writers, 10 classes",
        (Release("parquet", ("mnist-by-writer*",), ("*.parquet",)),),
    ),
}


def located(name: str, layout: str | None = None) -> Path:
    """Where a data set is, in this layout if one is given; a sentence where it is not."""
    place = _placed(name, layout)
    if place is None:
        raise _not_found(name, layout)
    return place[0]


def listed() -> list[Listed]:
    """All known data sets."""
    places = {name: _placed(name) for name in DATA_SETS}
    return [
        Listed(name, DATA_SETS[name].title, place and place[0], _how_to_get(name)) for name, place in places.items()
    ]


def checked(name: str) -> list[Checked]:
    """Each file of a data set that is here, compared with its published checksum where it has one."""
    place = _placed(name)
    if place is None:
        raise _not_found(name)
    path, release = place
    if release.archive:
        return [_checked(path, release.files[0])]
    if release.files:
        return [_checked(path / file.name, file) for file in release.files]
    files = sorted({file for pattern in release.found_by for file in path.glob(pattern)})
    expected = {file.name: file for file in DATA_SETS[name].fetched}
    if expected.keys() & {file.name for file in files}:  # a download: its other files must be there too
        files = sorted({*files, *(path / file for file in expected)})
    return [_checked(file, expected.get(file.name, File(file.name))) for file in files]


def fetch(name: str, progress: Progress | None = None) -> Path:
    """Downloads a data set into the downloads folder, going on where an earlier attempt ended."""
    data_set = _known(name)
    if not data_set.fetched:
        raise FadewiseError(f"the data set {name} cannot be downloaded; {_how_to_get(name)}")
    folder = downloads() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in data_set.fetched:
            _fetch(file, folder, progress or (lambda *_: None))
    except OSError as error:
        raise FadewiseError(
            f"the folder {folder} cannot be written: {error.strerror or error}; set FADEWISE_CACHE to one that can"
        ) from None
    return folder


def downloads() -> Path:
    """The folder into which data sets are downloaded, each into one by its name."""
    return cache_folder() / "downloads"


def _known(name: str) -> DataSet:
    if name == _BUILT_IN:
        raise FadewiseError(f"the data set {name} is built in: there is nothing to check or to fetch")
    if name not in DATA_SETS:
        raise NotAllowed("the data set", name, "one of " + ", ".join(DATA_SETS))
    return DATA_SETS[name]


def _not_found(name: str, layout: str | None = None) -> FadewiseError:
    variable = os.environ.get("FADEWISE_DATA")
    looked = [f"FADEWISE_DATA ({variable})" if variable else "FADEWISE_DATA (not set)", "data", str(downloads())]
    form = "" if layout is None or len({release.layout for release in _known(name).releases}) == 1 else f" as {layout}"
    return FadewiseError(
        f"the data set {name} was not found{form} in {looked[0]}, {looked[1]} or {looked[2]}; {_how_to_get(name)}"
    )


def _how_to_get(name: str) -> str:
    if _known(name).fetched:
        return f"`fadewise data fetch {name}` gets it, or set FADEWISE_DATA to the folder that has it"
    return f"it has no download: put its files into {downloads() / name}, or set FADEWISE_DATA to the folder that does"


def _placed(name: str, layout: str | None = None) -> tuple[Path, Release] | None:
    """The first release that is there, in the first place that has one."""
    for root in _roots():
        for release in _known(name).releases:
            if layout is not None and release.layout != layout:
                continue
            for folder in _candidates(root, release):
                for pattern in release.found_by:
                    files = sorted(folder.glob(pattern))
                    if files:
                        return (files[0] if release.archive else folder), release
    return None


def _roots() -> Iterator[Path]:
    if os.environ.get("FADEWISE_DATA"):
        yield Path(os.environ["FADEWISE_DATA"]).expanduser()
    yield Path("data")
    yield downloads()


def _candidates(root: Path, release: Release) -> Iterator[Path]:
    """The folders that may have a release: the root itself and those in it with a known name."""
    if release.bare or any(root.absolute().match(pattern) for pattern in release.folders):
        yield root
    for pattern in release.folders:
        yield from (path for path in sorted(root.glob(pattern)) if path.is_dir())


def _checked(path: Path, file: File) -> Checked:
    try:
        size = path.stat().st_size
        if file.size is not None and size < file.size:
            return Checked(path, TRUNCATED, f"{size} of {file.size} bytes")
        if path.suffix == ".parquet" and not _whole_parquet(path):
            return Checked(path, TRUNCATED, f"{size} bytes, without parquet's end")
        if file.md5 is None:
            return Checked(path, UNKNOWN)
        found = _md5(path)
        if found == file.md5:
            return Checked(path, OK)
        if path.suffix == ".gz" and _ends_early(path):
            return Checked(path, TRUNCATED, f"{size} bytes, without gzip's end")
        return Checked(path, WRONG, f"expected {file.md5}, found {found}")
    except FileNotFoundError:
        return Checked(path, MISSING)
    except OSError as error:
        raise FadewiseError(f"{path} cannot be read: {error.strerror or error}") from None


def _whole_parquet(path: Path) -> bool:
    """Whether a file begins and ends as parquet does."""
    with path.open("rb") as file:
        begins = file.read(4) == b"PAR1"
        file.seek(-min(4, path.stat().st_size), os.SEEK_END)
        return begins and file.read() == b"PAR1"


def _ends_early(path: Path) -> bool:
    """Whether a gzip file stops before its end, and is sound up to there."""
    reader = zlib.decompressobj(wbits=31)
    with path.open("rb") as file:
        try:
            while block := file.read(_BLOCK):
                reader.decompress(block)
        except zlib.error:
            return False
    return not reader.eof


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _fetch(file: File, folder: Path, progress: Progress) -> None:
    """One file, into a .part file that an interrupted download leaves and the next one continues."""
    path, part = folder / file.name, folder / f"{file.name}.part"
    if _checked(path, file).state in (OK, UNKNOWN):
        progress(file.name, path.stat().st_size, path.stat().st_size)
        return
    _download(file, part, progress)
    if file.md5 is not None and (found := _md5(part)) != file.md5:
        part.unlink()
        raise FadewiseError(f"{file.url} has the wrong checksum: expected {file.md5}, found {found}; it was removed")
    if path.suffix == ".parquet" and not _whole_parquet(part):
        part.unlink()
        raise FadewiseError(f"{file.url} is not parquet, or was cut off; it was removed")
    part.replace(path)


def _download(file: File, part: Path, progress: Progress) -> None:
    reason: object = "nothing came"
    failures = 0
    while failures < _ATTEMPTS:
        before = part.stat().st_size if part.exists() else 0
        try:
            total = _transfer(file, part, progress)
            size = part.stat().st_size
            if total is None or size == total:
                return
            reason = f"the transfer ended after {size} of {total} bytes"
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"HTTP {error.code} {error.reason}"
            if error.code == 416:  # there is nothing after what is here
                if error.headers.get("Content-Range") == f"bytes */{before}":
                    return
                part.unlink(missing_ok=True)  # it is of another file
            elif error.code < 500:
                break
        except (urllib.error.URLError, _Broken) as error:
            reason = getattr(error, "reason", error)
        # Whatever brought something is no failure: a long download over a bad line still arrives.
        failures = 0 if part.exists() and part.stat().st_size > before else failures + 1
        if failures < _ATTEMPTS:
            time.sleep(_PAUSE_S)
    raise FadewiseError(
        f"{file.url} cannot be downloaded ({reason}); try again later, or download it elsewhere and put it, "
        f"as {file.name}, into the folder {part.parent}"
    )


class _Broken(Exception):
    """An answer that breaks off, or is no part of the file."""


def _blocks(answer: HTTPResponse) -> Iterator[bytes]:
    """The body of an answer; errors of reading are told from those of writing it down."""
    try:
        while block := answer.read(_BLOCK):
            yield block
    except (OSError, HTTPException) as error:
        raise _Broken(getattr(error, "strerror", None) or error) from None


def _transfer(file: File, part: Path, progress: Progress) -> int | None:
    """Adds to a .part file what one request brings; how many bytes the whole file has, where that is known."""
    assert file.url is not None
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(file.url, headers={"Range": f"bytes={start}-"} if start else {})
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
        length = answer.headers.get("Content-Length")
        if answer.status == 206:
            if not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                raise _Broken("the server answered with another part of the file")
        else:  # the server begins anew
            start = 0
        total = None if length is None else start + int(length)
        done = start
        with part.open("r+b" if start else "wb") as out:
            out.seek(start)
            out.truncate()
            progress(file.name, done, total)
            for block in _blocks(answer):
                out.write(block)
                done += len(block)
                progress(file.name, done, total)
            out.flush()
            os.fsync(out.fileno())
    return total
