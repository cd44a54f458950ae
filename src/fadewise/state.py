"""State is a NamedTuple of arrays (states may hold states): saving one is saving its arrays."""

from __future__ import annotations

import contextlib
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fadewise.errors import FadewiseError

S = TypeVar("S", bound=tuple[Any, ...])


class NoState(NamedTuple):
    """The state of a part that remembers nothing from one round to the next."""


def flatten(state: tuple[Any, ...], prefix: str = "") -> dict[str, NDArray[Any]]:
    """The arrays of a state by name; an inner state's names are joined with a dot."""
    arrays: dict[str, NDArray[Any]] = {}
    for name in getattr(state, "_fields", ()):
        value = getattr(state, name)
        if isinstance(value, tuple):
            arrays |= flatten(value, f"{prefix}{name}.")
        else:
            arrays[prefix + name] = np.asarray(value)
    return arrays


def unflatten(arrays: Mapping[str, NDArray[Any]], like: S, prefix: str = "") -> S:
    """A state of the same kind as `like` from its arrays by name."""
    values: list[Any] = []
    for name in getattr(like, "_fields", ()):
        model = getattr(like, name)
        if isinstance(model, tuple):
            values.append(unflatten(arrays, model, f"{prefix}{name}."))
            continue
        if prefix + name not in arrays:
            raise FadewiseError(f"the saved state has no array {prefix + name}: another kind of state was saved")
        value, model = arrays[prefix + name], np.asarray(model)
        if value.shape != model.shape or value.dtype != model.dtype:
            raise FadewiseError(
                f"the saved array {prefix + name} is {value.dtype} of shape {value.shape}; "
                f"it must be {model.dtype} of shape {model.shape}: another number of devices was saved"
            )
        values.append(value)
    return type(like)(*values)


def save_state(path: str | Path, state: tuple[Any, ...]) -> None:
    """Writes a state to a file; whatever happens, the file is the old one or the new one, whole."""
    path = Path(path)
    temporary = path.with_name(path.name + ".part")
    try:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **flatten(state))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise FadewiseError(f"the state cannot be saved to {path}: {error.strerror or error}") from error
        raise


def sync_folder(path: Path) -> None:
    """Makes the renames in a folder last through a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_state(path: str | Path, like: S) -> S:
    """Reads a state that `save_state` wrote; `like` is a fresh state of the same kind and size."""
    try:
        arrays = read_arrays(Path(path), "a saved state")
    except OSError as error:
        raise FadewiseError(f"{path} cannot be read as a saved state: {error.strerror or error}") from None
    more = sorted(set(arrays) - set(flatten(like)))
    state = unflatten(arrays, like)
    if more:
        raise FadewiseError(f"the saved state has an array {more[0]} too many: another kind of state was saved")
    return state


def read_arrays(path: Path, what: str) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file, whole and with their checksums checked; `what` says what it should be."""
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise FadewiseError(f"{path} cannot be read as {what}: it is not an .npz file, or cut off")
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
    except FadewiseError:
        raise
    except (EOFError, ValueError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise FadewiseError(f"{path} cannot be read as {what}: {error}") from None
