"""Gains that were measured: a trace from a file."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fadewise.channels.base import Channel
from fadewise.errors import FadewiseError, NotAllowed
from fadewise.randomness import Stream
from fadewise.state import NoState, read_arrays

_COLUMNS = ("round", "device", "gain")


@dataclass(frozen=True, eq=False)
class Trace(Channel[NoState]):
    """The gains of a file: every device's in every round, 0 where the device was unreachable.

    path: a .csv or .parquet file with the columns round, device, gain (both numbered from 0, rows in any
        order), or an .npz file with an array `gains`, a row a round and a column a device. Parquet needs
        pyarrow (the `train` extra). In a TOML file it is relative to that file's folder.
    repeat: start again from the first round where the trace ends; else running past its end is an error. A warm
        start needs it, and sees rounds of the trace that the run sees as well: there are no others.
    """

    kind: ClassVar[str] = "trace"
    path: str | Path
    repeat: bool = False

    def __post_init__(self) -> None:
        # The file is read now, so that a bad one is refused now and not rounds later.
        self.gains.flags.writeable = False

    def check(self, devices: int, rounds: int, warm_start_rounds: int) -> None:
        have, columns = self.gains.shape
        if columns != devices:
            raise FadewiseError(f"{self.path} has gains for {columns} devices; it must have them for {devices}")
        if rounds > have and not self.repeat:
            raise self._ended()
        if warm_start_rounds and not self.repeat:
            raise FadewiseError(
                f"{self.path} has no rounds before round 0 for a warm start to see; "
                "set the channel's repeat = true, or policy.warm_start_rounds = 0"
            )

    def _ended(self) -> FadewiseError:
        rounds = len(self.gains)
        return FadewiseError(
            f"{self.path} ends after round {rounds - 1}; set rounds to {rounds} at most, or the channel's repeat = true"
        )

    @functools.cached_property
    def gains(self) -> NDArray[np.float64]:
        """A row a round, a column a device."""
        return read_trace(Path(self.path))

    def init(self, devices: int, stream: Stream) -> NoState:
        return NoState()

    def step(self, state: NoState, devices: int, stream: Stream) -> tuple[NDArray[np.float64], NoState]:
        rounds, columns = self.gains.shape
        if stream.first_device + devices > columns:
            raise FadewiseError(f"{self.path} has gains for {columns} devices, not for {stream.first_device + devices}")
        if stream.round >= rounds and not self.repeat:
            raise self._ended()
        row = self.gains[stream.round % rounds]
        return row[stream.first_device : stream.first_device + devices].copy(), state


def read_trace(path: Path) -> NDArray[np.float64]:
    """The gains of a trace file, checked: no gaps, nothing negative, infinite or NaN."""
    readers = {".csv": _read_csv, ".npz": _read_npz, ".parquet": _read_parquet}
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise NotAllowed("path", path.name, "a file ending in " + ", ".join(readers))
    try:
        gains = readers[suffix](path)
    except OSError as error:
        raise FadewiseError(f"{path} cannot be read: {error.strerror or error}") from None
    bad = np.argwhere(~((gains >= 0) & (gains < np.inf)))
    if len(bad):
        round_, device = bad[0]
        raise FadewiseError(
            f"{path}: the gain of device {device} in round {round_} is {gains[round_, device]}; "
            "it must be a finite number, 0 where the device is unreachable"
        )
    return gains


def _read_csv(path: Path) -> NDArray[np.float64]:
    values = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            header = [name.strip() for name in next(rows, [])]
            _check_columns(path, header)
            places = [header.index(name) for name in _COLUMNS]
            for row in filter(None, rows):  # a blank line is no row
                try:
                    numbers = [float(field) for field in row]
                    if len(numbers) != len(header):
                        raise ValueError
                except ValueError:
                    what = f"{','.join(row)!r} must be three numbers: {', '.join(header)}"
                    raise FadewiseError(f"{path}, line {rows.line_num}: {what}") from None
                values.append([numbers[place] for place in places])
    except (UnicodeDecodeError, csv.Error) as error:
        raise FadewiseError(f"{path} cannot be read as CSV: {error}") from None
    table = np.array(values, dtype=np.float64).reshape(-1, 3)
    return _arranged(path, *table.T)


def _read_parquet(path: Path) -> NDArray[np.float64]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise FadewiseError(
            f"{path} is parquet, which needs pyarrow: pip install 'fadewise[train]', or give a .csv or .npz file"
        ) from None
    path.open("rb").close()  # so that a missing file is told as such
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise FadewiseError(f"{path} cannot be read as parquet: {str(error).splitlines()[0]}") from None
    _check_columns(path, table.column_names)
    try:
        columns = [np.asarray(table[name].to_numpy(), dtype=np.float64) for name in _COLUMNS]
    except (ValueError, TypeError):
        raise FadewiseError(f"{path}: the columns {', '.join(_COLUMNS)} must hold numbers") from None
    return _arranged(path, *columns)


def _read_npz(path: Path) -> NDArray[np.float64]:
    arrays = read_arrays(path, ".npz")
    if "gains" not in arrays:
        raise FadewiseError(f"{path} has no array named gains; it has {', '.join(arrays) or 'none'}")
    gains = arrays["gains"]
    if gains.dtype.kind not in "fiu":
        raise FadewiseError(f"{path} cannot be read as .npz: gains are {gains.dtype}; they must be real numbers")
    if gains.ndim != 2 or not gains.size:
        raise FadewiseError(f"{path}: gains have shape {gains.shape}; they must be (rounds, devices)")
    return gains.astype(np.float64)


def _check_columns(path: Path, names: list[str]) -> None:
    if sorted(names) != sorted(_COLUMNS):
        has = "the columns " + ", ".join(names) if names else "no columns"
        raise FadewiseError(f"{path} has {has}; it must have {', '.join(_COLUMNS)}")


def _arranged(
    path: Path, rounds: NDArray[np.float64], devices: NDArray[np.float64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A row a round, a column a device, from one line for each; a line missing or twice is refused."""
    if not len(values):
        raise FadewiseError(f"{path} has no rows; it must have one for each device in each round")
    for name, column in (("round", rounds), ("device", devices)):
        wrong = np.flatnonzero(~((column >= 0) & (column == np.floor(column)) & (column < 2**31)))
        if len(wrong):
            raise FadewiseError(
                f"{path}: {name} {column[wrong[0]]:g} in data row {wrong[0] + 1} must be a whole number from 0"
            )
        if column.min() == 1:
            raise FadewiseError(f"{path}: the lowest {name} is 1; {name}s must be numbered from 0")
    shape = (int(rounds.max()) + 1, int(devices.max()) + 1)
    if shape[0] * shape[1] > 4 * len(values) + 1000:  # mostly gaps: name one without making the whole table
        raise FadewiseError(
            f"{path} has {len(values)} rows for {shape[0]} rounds of {shape[1]} devices; it must have one for each"
        )
    place = rounds.astype(np.int64) * shape[1] + devices.astype(np.int64)
    lines = np.bincount(place, minlength=shape[0] * shape[1])
    wrong_lines = np.flatnonzero(lines != 1)
    if len(wrong_lines):
        round_, device = divmod(int(wrong_lines[0]), shape[1])
        what = "no gain" if lines[wrong_lines[0]] == 0 else "more than one gain"
        raise FadewiseError(
            f"{path} has {what} for device {device} in round {round_}; every device needs one in every round "
            "(0 where it was unreachable)"
        )
    gains = np.empty(shape)
    gains.ravel()[place] = values
    return gains
