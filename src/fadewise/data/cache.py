"""Data sets as memory-mapped arrays: files are converted once, and all processes share the pages.

An entry is a folder of .npy files with a manifest of what they were made from. It is written under
another name, synced and renamed, so an entry is whole or not there, and two processes that make the
same one at once are harmless: the second finds the first's and drops its own.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise.data.base import Pool
from fadewise.data.held import Moments, training_moments
from fadewise.errors import FadewiseError

_FORMAT = 1
"""To be raised whenever what is stored, or how a test set is held out, changes."""

_MANIFEST = "manifest.json"
_UNFINISHED = ".unfinished-"
_DAY_S = 86400


class Stored(NamedTuple):
    """A pool whose arrays are memory maps, and the moments of its training images."""

    pool: Pool
    moments: Moments


def cache_folder() -> Path:
    """Where converted and downloaded data sets are kept."""
    if os.environ.get("FADEWISE_CACHE"):
        return Path(os.environ["FADEWISE_CACHE"]).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "fadewise"


def stored(kind: str, files: Sequence[Path], options: Mapping[str, Any], read: Callable[[], Pool]) -> Stored:
    """What `read` makes of these files with these options, from the cache where that is still good."""
    made_from = {"format": _FORMAT, "kind": kind, "options": dict(options), "sources": [_stamp(file) for file in files]}
    address = json.dumps([kind, made_from["options"], [str(file.resolve()) for file in files]])
    entry = cache_folder() / f"{kind}-{hashlib.blake2b(address.encode(), digest_size=8).hexdigest()}"
    found = _opened(entry, made_from)
    if found is None:
        pool = read()
        with _told(entry.parent):
            _write(entry, made_from, pool)
        found = _read_back(entry, made_from)
    if found is None:  # the files changed while they were read, or another process sees them otherwise
        raise FadewiseError(f"the cache {entry} cannot be read back; remove it and try again")
    return found


def _stamp(file: Path) -> list[str | int]:
    """What tells one version of a file from another without reading it."""
    try:
        status = file.stat()
    except OSError as error:
        raise FadewiseError(f"{file} cannot be read: {error.strerror or error}") from None
    return [file.name, status.st_size, status.st_mtime_ns]


def _opened(entry: Path, made_from: Mapping[str, Any]) -> Stored | None:
    """The entry's arrays; None where it is missing, damaged, or made from something else."""
    try:
        manifest = json.loads((entry / _MANIFEST).read_text())
        if any(manifest[key] != value for key, value in made_from.items()):
            return None
        if any(_stamp(entry / name) != [name, *stamp] for name, stamp in manifest["arrays"].items()):
            return None
        arrays: dict[str, NDArray[Any]] = {
            name.removesuffix(".npy"): np.load(entry / name, mmap_mode="r") for name in manifest["arrays"]
        }
        moments = Moments(*np.array(arrays.pop("moments")))
        return Stored(Pool(classes=manifest["classes"], **arrays), moments)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, EOFError):
        return None


def _read_back(entry: Path, made_from: Mapping[str, Any]) -> Stored | None:
    """An entry that was just put in place; another process may be putting its own there in this instant."""
    for _ in range(100):
        found = _opened(entry, made_from)
        if found is not None:
            return found
        time.sleep(0.01)
    return None


def _write(entry: Path, made_from: Mapping[str, Any], pool: Pool) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    _sweep(entry.parent)
    temporary = entry.parent / f"{_UNFINISHED}{uuid.uuid4().hex}"
    temporary.mkdir()
    try:
        arrays = {name: value for name, value in pool._asdict().items() if isinstance(value, np.ndarray)}
        stamps = {}
        for name, array in {**arrays, "moments": np.stack(training_moments(pool))}.items():
            path = temporary / f"{name}.npy"
            with path.open("wb") as file:
                _save(file, array)
                os.fsync(file.fileno())
            stamps[path.name] = _stamp(path)[1:]
        with (temporary / _MANIFEST).open("w") as manifest:
            json.dump({**made_from, "classes": pool.classes, "arrays": stamps}, manifest)
            manifest.flush()
            os.fsync(manifest.fileno())
        _put(temporary, entry, made_from)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _save(file: BinaryIO, array: NDArray[Any]) -> None:
    """As np.save writes it, which would not say why where the disk is full."""
    array = np.ascontiguousarray(array)
    np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
    file.write(array.data)
    file.flush()


def _put(temporary: Path, entry: Path, made_from: Mapping[str, Any]) -> None:
    """Renames a finished entry to its name; whoever has an older one open keeps reading that."""
    for _ in range(100):
        try:
            temporary.rename(entry)
            return
        except OSError as error:
            # A folder that is not empty cannot be renamed over: it is another process's, or no longer good.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        if _opened(entry, made_from) is not None:
            return
        old = entry.parent / f"{_UNFINISHED}{uuid.uuid4().hex}"
        try:
            entry.rename(old)
        except FileNotFoundError:  # another process was faster
            continue
        shutil.rmtree(old, ignore_errors=True)
    raise FadewiseError(f"the cache {entry} is being replaced over and over; end the other processes that use it")


def _sweep(root: Path) -> None:
    """Removes what processes left that were killed while writing."""
    for path in root.glob(f"{_UNFINISHED}*"):
        try:
            old = time.time() - path.stat().st_mtime > _DAY_S
        except OSError:
            continue
        if old:
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _told(root: Path) -> Iterator[None]:
    """A disk that is full or cannot be written, as one sentence."""
    try:
        yield
    except OSError as error:
        raise FadewiseError(
            f"the cache folder {root} cannot be written: {error.strerror or error}; "
            "set FADEWISE_CACHE to a folder that can"
        ) from None
