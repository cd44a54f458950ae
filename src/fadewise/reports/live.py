"""Runs while they go on: a bar each for a person, a line at each evaluation for a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich import progress as bar
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from fadewise.simulation.progress import Progress


class Display:
    """Shows how runs go, each known by its name."""

    def __init__(self, bars: bar.Progress | None) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._accuracy: dict[str, str] = {}
        self._began: dict[str, tuple[float, int]] = {}
        self._shown_at: dict[str, float] = {}

    def show(self, name: str, progress: Progress) -> None:
        """After a round."""
        now = time.monotonic()
        began, first = self._began.setdefault(name, (now, progress.round))
        if progress.accuracy is not None:
            self._accuracy[name] = f"{progress.accuracy:.3f}"
        speed = (progress.round - first) / (now - began) if progress.round > first else 0.0
        if self._bars is None:
            if progress.accuracy is not None:
                print(
                    f"{name}: round {progress.round} of {progress.rounds}, accuracy {self._accuracy[name]}, "
                    f"airtime {progress.airtime_s:.1f} s, {speed:.1f} rounds/s",
                    file=sys.stderr,
                    flush=True,
                )
            return
        # Redrawing costs more than a small model's round.
        last = progress.round == progress.rounds
        if not last and progress.accuracy is None and now - self._shown_at.get(name, 0.0) < 0.1:
            return
        self._shown_at[name] = now
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(
                name, total=progress.rounds, completed=first, accuracy="", airtime="", speed=""
            )
        self._bars.update(
            self._tasks[name],
            completed=progress.round,
            accuracy=self._accuracy.get(name, "–"),
            airtime=f"{progress.airtime_s:.0f} s",
            speed=f"{speed:.1f}",
        )

    def say(self, name: str, sentence: str) -> None:
        """What a person should know of a run."""
        if self._bars is None:
            print(f"{name}: {sentence}", file=sys.stderr, flush=True)
        else:
            self._bars.console.print(f"{name}: {sentence}", highlight=False)


@contextmanager
def display() -> Iterator[Display]:
    """A display of runs, on the error stream."""
    if not sys.stderr.isatty():
        yield Display(None)
        return
    columns: list[str | ProgressColumn] = [
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("round"),
        MofNCompleteColumn(),
        TextColumn("accuracy {task.fields[accuracy]}"),
        TextColumn("airtime {task.fields[airtime]}"),
        TextColumn("{task.fields[speed]} rounds/s"),
        TimeRemainingColumn(),
    ]
    with bar.Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Display(bars)
