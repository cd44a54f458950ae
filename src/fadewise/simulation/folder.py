"""A run is a folder: what was asked for, every round's record, two checkpoints and a summary.

    config.toml         the settings, defaults included
    environment.json    the machine and the versions that the run was last started with
    rounds.jsonl        a record a line; the same run, the same bytes, however often it was killed
    timing.jsonl        a line a round too, everything on the wall clock
    checkpoint.npz      the last one, and the one before it: checkpoint-previous.npz
    summary.json        when the run has ended

A checkpoint is written to a temporary file, synced and renamed. It holds how long rounds.jsonl was;
resuming cuts the file there and goes on.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import tomli_w

from fadewise.errors import FadewiseError, shown
from fadewise.files import write_whole
from fadewise.manifest import differences
from fadewise.simulation.records import Record, parsed
from fadewise.state import load_state, save_state, sync_folder

if TYPE_CHECKING:
    from fadewise.simulation.engine import Memory

CONFIG, ENVIRONMENT, SUMMARY = "config.toml", "environment.json", "summary.json"
ROUNDS, TIMING = "rounds.jsonl", "timing.jsonl"
CHECKPOINT, PREVIOUS = "checkpoint.npz", "checkpoint-previous.npz"
_LOCK = "lock"
_PATIENCE_S = 5.0
"""How long to wait for the processes of a run that was just killed to be gone."""


class Checkpoint(NamedTuple):
    """What a run goes on from.

    rounds_bytes, timing_bytes: how long the two files of lines were.
    """

    memory: Memory
    rounds_bytes: Any
    timing_bytes: Any


class RunFolder:
    """A run's folder, held by this process alone until it is closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _said(path):
            path.mkdir(parents=True, exist_ok=True)
            self._lock = (path / _LOCK).open("w")
        self._hold()
        self._rounds: IO[bytes] | None = None
        self._timing: IO[bytes] | None = None

    def _hold(self) -> None:
        give_up_at = time.monotonic() + _PATIENCE_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() > give_up_at:
                    raise FadewiseError(
                        f"{self.path} is being written by another process; wait for it, or stop it"
                    ) from None
                time.sleep(0.05)

    def claim(self, settings: Mapping[str, Any]) -> None:
        """Finds that the folder is this run's, or free.

        A folder that another configuration has made is refused, but for `rounds`: a run may be continued. Nothing is
        written yet: whether the run can begin at all, nobody knows before its data and the checkpoint have been read.
        """
        config = self.path / CONFIG
        if config.exists():
            try:
                before = tomllib.loads(config.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise FadewiseError(
                    f"{config} cannot be read: {error}; use another folder, or remove this one"
                ) from None
            for key, theirs, ours in differences(before, settings):
                if key != "rounds":
                    raise FadewiseError(
                        f"{self.path} holds a run with another configuration: {key} is {_as_set(theirs)} there and "
                        f"{_as_set(ours)} here; use another folder, or the same settings"
                    )
        elif any((self.path / name).exists() for name in (ROUNDS, CHECKPOINT, PREVIOUS)):
            raise FadewiseError(
                f"{self.path} has records of a run but no {CONFIG}; use another folder, or remove this one"
            )

    def describe(self, settings: Mapping[str, Any], environment: Mapping[str, Any]) -> list[str]:
        """Writes down whose the folder is, and on what the run is made; what a person should know of that."""
        said = list(_other_environment(self.path / ENVIRONMENT, environment))
        write(self.path / CONFIG, tomli_w.dumps(dict(settings)))
        write(self.path / ENVIRONMENT, json.dumps(environment, indent=1) + "\n")
        return said

    def last_checkpoint(self, like: Memory) -> tuple[Checkpoint | None, list[str]]:
        """What to go on from, and what a person should know of that: the last checkpoint that can be read."""
        said: list[str] = []
        template = Checkpoint(like, 0, 0)
        found = False
        for name in (CHECKPOINT, PREVIOUS):
            path = self.path / name
            if not path.exists():
                continue
            found = True
            try:
                checkpoint = load_state(path, template)
                sizes = {ROUNDS: int(checkpoint.rounds_bytes), TIMING: int(checkpoint.timing_bytes)}
                for file, size in sizes.items():
                    if not (self.path / file).exists() or (self.path / file).stat().st_size < size:
                        raise FadewiseError(f"{file} is shorter than it was when {name} was written")
                return checkpoint, said
            except FadewiseError as error:
                said.append(f"{path} is not usable ({error}); falling back")
        if found or self.rounds_written():
            said.append(f"no checkpoint in {self.path} can be read; beginning with round 0")
        return None, said

    def rounds_written(self) -> int:
        """How many records there are, whether or not there is a checkpoint."""
        try:
            return (self.path / ROUNDS).read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    def go_on_from(self, checkpoint: Checkpoint | None) -> None:
        """Opens the files of lines, cut to where the checkpoint was written."""
        rounds_bytes = 0 if checkpoint is None else int(checkpoint.rounds_bytes)
        timing_bytes = 0 if checkpoint is None else int(checkpoint.timing_bytes)
        with _said(self.path):
            self._rounds = _opened_at(self.path / ROUNDS, rounds_bytes)
            self._timing = _opened_at(self.path / TIMING, timing_bytes)

    def last_record(self) -> Record:
        """The record of the last round that was played."""
        lines = (self.path / ROUNDS).read_text(encoding="utf-8").splitlines()
        return parsed(lines[-1])

    def write_round(self, record: str, timing: str) -> None:
        """Adds a line to each file."""
        assert self._rounds is not None
        assert self._timing is not None
        with _said(self.path):
            self._rounds.write(record.encode() + b"\n")
            self._timing.write(timing.encode() + b"\n")

    def save(self, memory: Memory) -> None:
        """Writes a checkpoint; until it is whole, the last one is in place."""
        assert self._rounds is not None
        assert self._timing is not None
        with _said(self.path):
            for file in (self._rounds, self._timing):
                os.fsync(file.fileno())
            checkpoint = Checkpoint(memory, self._rounds.tell(), self._timing.tell())
            fresh = self.path / "checkpoint-fresh.npz"
            save_state(fresh, checkpoint)
            last = self.path / CHECKPOINT
            if last.exists():
                last.replace(self.path / PREVIOUS)
            fresh.replace(last)
            sync_folder(self.path)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Writes the summary: the run has ended."""
        write(self.path / SUMMARY, json.dumps(summary, indent=1) + "\n")

    def close(self) -> None:
        """Lets go of the folder."""
        for file in (self._rounds, self._timing, self._lock):
            if file is not None:
                with _said(self.path):
                    file.close()


def _as_set(value: Any) -> str:
    return "not set" if value is None else shown(value)


def summary_of(path: Path) -> dict[str, Any] | None:
    """The summary of a run that has ended, None of one that has not."""
    try:
        result: dict[str, Any] = json.loads((path / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return result


def write(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    with _said(path):
        write_whole(path, text)


def _opened_at(path: Path, size: int) -> IO[bytes]:
    file = path.open("ab", buffering=0)  # whoever watches a run sees whole lines
    file.truncate(size)
    file.seek(size)
    return file


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """What the system says of a file, in a sentence."""
    try:
        yield
    except (OSError, FadewiseError) as error:
        cause = error.__cause__ if isinstance(error, FadewiseError) else error
        if not isinstance(cause, OSError):
            raise
        if cause.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FadewiseError(
                f"the disk of {path} is full; the last checkpoint is kept: make room, and the same command goes on"
            ) from None
        raise FadewiseError(f"{path} cannot be written: {cause.strerror or cause}") from None


def _other_environment(path: Path, environment: Mapping[str, Any]) -> Iterator[str]:
    """Sentences on what is not as it was when the run was last started."""
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if not isinstance(before, dict):
        return
    for key in ("fadewise", "torch", "numpy", "processor", "backend"):
        if before.get(key) != environment.get(key):
            yield (
                f"the run was started with {key} {before.get(key)} and goes on with {environment.get(key)}: "
                "its bits may differ from those of an uninterrupted run"
            )
