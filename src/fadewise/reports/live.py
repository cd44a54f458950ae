"""Runs while they go on: a bar each for a person, a line at each evaluation for a log."""

from __future__ import annotations

import datetime
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
        self._first: dict[str, tuple[float, int]] = {}
        self._shown_at: dict[str, float] = {}

    def begin(self, name: str, rounds: int) -> None:
        """When a run's processes start: what they read first takes its time."""
        if self._bars is not None and name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=rounds, accuracy="–", airtime="–", speed="–")

    def show(self, name: str, progress: Progress) -> None:
        """After a round."""
        now = time.monotonic()
        first_at, first = self._first.setdefault(name, (now, progress.round))
        if progress.accuracy is not None:
            self._accuracy[name] = f"{progress.accuracy:.3f}"
        speed = (progress.round - first) / (now - first_at) if progress.round > first else None
        if self._bars is None:
            if progress.accuracy is not None:
                line = f"{name}: round {progress.round} of {progress.rounds}, accuracy {self._accuracy[name]}, "
                line += f"airtime {progress.airtime_s:.1f} s"
                if speed is not None:
                    left = datetime.timedelta(seconds=round((progress.rounds - progress.round) / speed))
                    line += f", {speed:.1f} rounds/s, {left} left"
                print(line, file=sys.stderr, flush=True)
            return
        # Redrawing costs more than a small model's round.
        last = progress.round == progress.rounds
        if not last and progress.accuracy is None and now - self._shown_at.get(name, 0.0) < 0.1:
            return
        self._shown_at[name] = now
        self.begin(name, progress.rounds)
        self._bars.update(
            self._tasks[name],
            completed=progress.round,
            accuracy=self._accuracy.get(name, "–"),
            airtime=f"{progress.airtime_s:.0f} s",
            speed="–" if speed is None else f"{speed:.1f}",
        )

    def say(self, name: str, sentence: str) -> None:
        """What a person should know of a run."""
        if self._bars is None:
            print(f"{name}: {sentence}", file=sys.stderr, flush=True)
        else:
            self._bars.console.print(f"{name}: {sentence}", highlight=False)


@contextmanager
def display(*, lines: bool = False) -> Iterator[Display]:
    """A display of runs, on the error stream; in lines even for a person, where others write there too."""
    if lines or not sys.stderr.isatty():
        yield Display(None)
        return
    columns: list[str | ProgressColumn] = [
        TextColumn("{task.description}"),
        BarColumn(bar_width=8),  # so that all fits into 80 columns
        TextColumn("round"),
        MofNCompleteColumn(),
        TextColumn("at {task.fields[speed]}/s"),
        TextColumn("accuracy {task.fields[accuracy]}"),
        TextColumn("airtime {task.fields[airtime]}"),
        TimeRemainingColumn(),
    ]
    with bar.Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Display(bars)
