"""How a peer is told what to do and tells how long it took. Imports nothing but the standard library.

    python benchmarks/peers/<peer>.py --shape cifar|femnist --rounds N [--tuned]

After every round a peer prints one JSON line, {"round": 1, "wall_s": ...}, and waits for a line on stdin before it
starts the next; when stdin ends, so does the peer. `wall_s` runs from that line to the end of the round. The first
round starts by itself, and its line also has `ready_s`, the seconds from the start of the process to the end of
that round. Whatever else a peer prints goes to stderr.

Two manners:

as is   NCHW, float32; allocator and threads as the framework leaves them
tuned   network and inputs channels-last, freed memory kept by the allocator, one intra-op thread a worker
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**31),
    "MALLOC_TOP_PAD_": str(2**26),
}
"""glibc keeps what is freed instead of giving it back. Read as a process starts."""


@dataclass(frozen=True)
class Shape:
    """One size of the work."""

    channels: int
    side: int
    classes: int
    devices: int
    samples: int
    participants: int


SHAPES = {
    "cifar": Shape(channels=3, side=32, classes=10, devices=100, samples=500, participants=6),
    "femnist": Shape(channels=1, side=28, classes=62, devices=3597, samples=200, participants=54),
}


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    shape: Shape
    rounds: int
    tuned: bool
    workers: int


def options(
    description: str | None, *, workers: int, tuned_threads: int = 1, environment: dict[str, str] | None = None
) -> Options:
    """Reads the command line; where the environment is not as the peer has to have it, starts this process over.

    To be called before anything large is imported.

    workers: processes or threads that train at the same time, unless the command line says otherwise.
    tuned_threads: intra-op threads of each in the tuned manner.
    environment: what the peer needs in both manners.
    """
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--workers", type=int, default=workers)
    asked = parser.parse_args()
    needed = dict(environment or {})
    if asked.tuned:
        needed |= KEPT_MEMORY | {"OMP_NUM_THREADS": str(tuned_threads)}
    if any(os.environ.get(key) != value for key, value in needed.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | needed)
    return Options(SHAPES[asked.shape], asked.rounds, asked.tuned, asked.workers)


def alive_s() -> float:
    """Seconds since this process was started, whether or not `options` started it over."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


class Pacer:
    """Times rounds, reports each, and holds the next one back until it is asked for.

    Takes stdin and stdout for itself: whatever else reads, in this process or its children, finds nothing, and
    whatever else prints, prints to stderr.
    """

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.completed = 0
        self._orders: TextIO = os.fdopen(os.dup(0), "r")
        self._reports: TextIO = os.fdopen(os.dup(1), "w")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._started = time.perf_counter()

    def start(self) -> None:
        """The first round starts now."""
        self._started = time.perf_counter()

    def another(self, more: dict[str, float] | None = None) -> bool:
        """A round is over: reports it and waits; whether there is to be another, which then starts now.

        more: what else the peer can say of the round.
        """
        line: dict[str, float] = {**(more or {}), "wall_s": round(time.perf_counter() - self._started, 6)}
        self.completed += 1
        if self.completed == 1:
            line["ready_s"] = round(alive_s(), 3)
        print(json.dumps({"round": self.completed} | line), file=self._reports, flush=True)
        if self.completed >= self.rounds or not self._orders.readline():
            return False
        self._started = time.perf_counter()
        return True
