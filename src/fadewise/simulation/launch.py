"""Starts the processes of runs: the ranks of one run, or several runs at once, one to a core."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fadewise.errors import FadewiseError
from fadewise.rounds import Experiment, begin, play

_ROUNDS_LOOKED_AT = 10


class Job(NamedTuple):
    """A run to be made.

    source, settings: where its settings came from, and what they are; experiment: what they make.
    """

    name: str
    source: str
    settings: Mapping[str, Any]
    experiment: Experiment
    folder: Path


class Event(NamedTuple):
    """What happens to a run: it began, has told its progress or a sentence, failed (why), or ended."""

    job: Job
    kind: str
    value: Any


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def under_torchrun() -> bool:
    """Whether torchrun (or something that sets what it sets) has started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def ranks_for(experiment: Experiment) -> int:
    """How many ranks one run can use: not more than there are cores, nor participants in a round."""
    states, most = begin(experiment), 1
    for number in range(min(_ROUNDS_LOOKED_AT, experiment.rounds)):
        played, states = play(experiment, states, number)
        most = max(most, len(played.draw.devices))
    return min(cores(), most)


def launched(jobs: Sequence[Job], ranks: int, at_once: int) -> Iterator[Event]:
    """Makes all the runs, `at_once` at a time with `ranks` processes each, and tells what happens.

    A run that fails does not stop the others. When the caller stops listening, all processes are ended.
    """
    waiting = list(jobs)
    with selectors.DefaultSelector() as selector, tempfile.TemporaryDirectory(prefix="fadewise-") as scratch:
        running: list[_Run] = []
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    running.append(_Run(waiting.pop(0), ranks, Path(scratch), selector))
                    yield Event(running[-1].job, "began", None)
                for key, _ in selector.select():
                    run, rank = key.data
                    yield from run.heard(rank, selector)
                    if run.ended:
                        running.remove(run)
                        yield Event(run.job, "failed" if run.error else "ended", run.error)
        finally:
            for run in running:
                run.kill()


class _Run:
    """The processes of one run."""

    def __init__(self, job: Job, ranks: int, scratch: Path, selector: selectors.BaseSelector) -> None:
        self.job = job
        self.error: str | None = None
        self._lost = False
        self._open = ranks
        store = tempfile.mktemp(prefix="store-", dir=scratch)  # torch makes the file
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pipes: list[int] = []
        self._partial: dict[int, bytes] = {}
        self._logs: list[Path] = []
        for rank in range(ranks):
            log = Path(f"{store}-{rank}.log")
            try:
                process, pipe = _started(log)
            except OSError as error:
                why = error.strerror or error
                raise FadewiseError(f"process {rank + 1} of {ranks} of a run cannot be started: {why}") from None
            self._processes.append(process)
            self._pipes.append(pipe)
            self._logs.append(log)
            selector.register(pipe, selectors.EVENT_READ, (self, rank))
            task = {
                "source": job.source,
                "settings": job.settings,
                "folder": str(job.folder),
                "rank": rank,
                "ranks": ranks,
                "store": store,
                "parent": os.getpid(),
            }
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it has ended already; `_gone` says why
                process.stdin.write(json.dumps(task).encode() + b"\n")
                process.stdin.close()

    @property
    def ended(self) -> bool:
        """Whether every process of the run has ended."""
        return self._open == 0

    def heard(self, rank: int, selector: selectors.BaseSelector) -> Iterator[Event]:
        """What a process has told since it was last asked."""
        text = os.read(self._pipes[rank], 65536)
        if not text:
            selector.unregister(self._pipes[rank])
            os.close(self._pipes[rank])
            self._open -= 1
            self._gone(rank, self._processes[rank].wait())
            return
        *lines, self._partial[rank] = (self._partial.get(rank, b"") + text).split(b"\n")
        for line in lines:
            told = json.loads(line)
            if "error" in told:
                # What went wrong first explains; that a rank misses another only follows from it.
                if self.error is None or (self._lost and not told["lost"]):
                    self.error, self._lost = told["error"], told["lost"]
            else:
                ((kind, value),) = told.items()
                yield Event(self.job, kind, value)

    def _gone(self, rank: int, code: int) -> None:
        if code == 0:
            return
        if code < 0 and (self.error is None or self._lost):
            name = signal.Signals(-code).name
            why = " (the system ends what takes too much memory)" if name == "SIGKILL" else ""
            self.error = f"a process of this run was ended by {name}{why}; the same command goes on from the checkpoint"
            self._lost = False
        elif self.error is None:
            last = (self._logs[rank].read_text(errors="replace").strip().splitlines() or ["it says nothing"])[-1]
            self.error = f"a process of this run has ended with code {code}: {last}"
        self.kill()

    def kill(self) -> None:
        """Ends all processes of the run."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()


def _started(log: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A process that waits for its task, and the end of the pipe on which it tells."""
    ours, theirs = os.pipe()
    try:
        with log.open("wb") as file:
            # Whatever a library prints is no message: messages have a pipe of their own.
            printed = sys.stderr.fileno() if os.environ.get("FADEWISE_DEBUG") else file.fileno()
            process = subprocess.Popen(
                # -P: a user's queue.py in the folder where the command is given is not Python's.
                [sys.executable, "-P", "-m", "fadewise.simulation.worker", str(theirs)],
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=printed,
                pass_fds=[theirs],
                env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
    finally:
        os.close(theirs)
    return process, ours
