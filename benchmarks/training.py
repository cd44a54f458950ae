"""Rounds per second of training, against other frameworks on the same work.

    make bench-peers                      # once: their environments, some gigabytes
    python benchmarks/training.py         # --shape femnist, --repeats 9, --peers flower,plain

The work: the paper's CNN, 10 steps of 32 for each participant, nothing evaluated. CIFAR shape: 6 of 100 devices a
round; FEMNIST shape: 54 of 3,597. Every contestant is a process (or several) that makes one round when it is told to
(`peers/protocol.py`); they take turns, so that each ratio is of times measured side by side. fadewise does all that
`fadewise run` does in a round: schedule, training, sum over the ranks, record and, now and then, a checkpoint.

Columns: seconds a round and milliseconds a participant-step (medians); rounds a second over those of Flower as its
users run it and over those of Flower tuned, the medians of the ratios of each turn; seconds from the start of the
process to the end of its first round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

PEERS = Path(__file__).parent / "peers"
ENVIRONMENTS = Path(__file__).parents[1] / ".venv-peers"
STEPS = 10
PARTICIPANTS = {"cifar": 6, "femnist": 54}


class Contestant(NamedTuple):
    """A way to do the work: the script and how it is called."""

    name: str
    script: str
    words: tuple[str, ...] = ()


CONTESTANTS = (
    Contestant("fadewise, native", "ours"),
    Contestant("fadewise, PyTorch", "ours", ("--backend", "pytorch")),
    Contestant("fadewise, PyTorch, bfloat16", "ours", ("--backend", "pytorch", "--precision", "bfloat16")),
    Contestant("Flower, as is", "flower"),
    Contestant("Flower, tuned", "flower", ("--tuned",)),
    Contestant("pfl-research, as is", "pfl_research"),
    Contestant("pfl-research, tuned", "pfl_research", ("--tuned",)),
    Contestant("FedLab, as is", "fed_lab"),
    Contestant("FedLab, tuned", "fed_lab", ("--tuned",)),
    Contestant("BlazeFL, as is", "blaze_fl"),
    Contestant("BlazeFL, tuned", "blaze_fl", ("--tuned",)),
    Contestant("PyTorch loop, as is", "plain"),
    Contestant("PyTorch loop, tuned", "plain", ("--tuned",)),
)


class Running:
    """A contestant at work."""

    def __init__(self, contestant: Contestant, shape: str, rounds: int) -> None:
        self.contestant = contestant
        self.lines: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [
                str(interpreter(contestant)),
                str(PEERS / f"{contestant.script}.py"),
                "--shape",
                shape,
                "--rounds",
                str(rounds),
                *contestant.words,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._hear()

    def again(self) -> None:
        """One more round."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        self._hear()

    def _hear(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.contestant.name} has ended early; run its script alone to see why")
        self.lines.append(json.loads(line))

    def times(self) -> list[float]:
        """Of the rounds after the first, which warms up."""
        return [line["wall_s"] for line in self.lines[1:]]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()


def interpreter(contestant: Contestant) -> Path:
    """The Python of the contestant's own environment."""
    if contestant.script == "ours":
        return Path(sys.executable)
    return ENVIRONMENTS / contestant.script / "bin" / "python"


def measured(contestants: list[Contestant], shape: str, repeats: int) -> list[Running]:
    """All contestants' rounds, made in turns."""
    running: list[Running] = []
    try:
        for contestant in contestants:
            running.append(Running(contestant, shape, repeats + 1))
        for _ in range(repeats):
            for one in running:
                one.again()
    finally:
        for one in running:
            one.close()
    return running


def table(running: list[Running], shape: str, repeats: int) -> Table:
    result = Table(title=f"{shape} shape, {PARTICIPANTS[shape]} participants, {repeats} turns", box=box.SIMPLE_HEAD)
    result.add_column("", no_wrap=True)
    for heading in ("s a round", "ms a step", "× Flower", "× tuned", "first, s"):
        result.add_column(heading, justify="right", no_wrap=True)
    references = [
        next((r.times() for r in running if r.contestant.name == f"Flower, {m}"), None) for m in ("as is", "tuned")
    ]
    for one in running:
        times = one.times()
        seconds = statistics.median(times)
        ratios = [
            "–"
            if reference is None
            else f"{statistics.median(a / b for a, b in zip(reference, times, strict=True)):.2f}"
            for reference in references
        ]
        result.add_row(
            one.contestant.name,
            f"{seconds:.3f}",
            f"{1000 * seconds / (PARTICIPANTS[shape] * STEPS):.2f}",
            *ratios,
            f"{one.lines[0]['ready_s']:.1f}",
        )
    return result


def outside(running: list[Running]) -> str:
    """Which part of our rounds was not local SGD: of that of the rank that took longest, for which the others wait."""
    shares = []
    for one in running:
        if one.contestant.script == "ours":
            share = statistics.median(1 - line["slowest_rank_s"] / line["round_s"] for line in one.lines[1:])
            shares.append(f"{one.contestant.name}: {share:.1%} of a round outside local SGD")
    return "\n".join(shares)


def against_the_fastest(running: list[Running]) -> str:
    """The native kernel beside the fastest framework as its users run it."""
    ours = next(one for one in running if one.contestant.name == "fadewise, native")
    peers = [one for one in running if one.contestant.name.endswith("as is") and one.contestant.script != "plain"]
    if not peers:
        return ""
    fastest = min(peers, key=lambda one: statistics.median(one.times()))
    ratio = statistics.median(a / b for a, b in zip(fastest.times(), ours.times(), strict=True))
    return f"fadewise, native: {ratio:.2f} times the rounds a second of {fastest.contestant.name}, the fastest such"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shape", choices=PARTICIPANTS, action="append", help="both, unless given")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--peers", default="all", help="some of them, as in flower,plain")
    arguments = parser.parse_args()
    wanted = None if arguments.peers == "all" else {"ours", *arguments.peers.split(",")}
    there = [c for c in CONTESTANTS if interpreter(c).exists() and (wanted is None or c.script in wanted)]
    missing = {c.script for c in CONTESTANTS} - {c.script for c in there} - {"ours"}
    console = Console(width=100)
    for shape in arguments.shape or PARTICIPANTS:
        running = measured(there, shape, arguments.repeats)
        console.print(table(running, shape, arguments.repeats))
        print(outside(running))
        print(against_the_fastest(running))
    if missing and wanted is None:
        print(f"not installed: {', '.join(sorted(missing))} (make bench-peers)")


if __name__ == "__main__":
    main()
