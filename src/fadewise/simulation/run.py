"""One run into its folder, on one rank or many: begin or go on, play every round, leave a summary."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fadewise.errors import FadewiseError
from fadewise.learning.memory import keep_freed_memory
from fadewise.manifest import manifest
from fadewise.rounds import Experiment
from fadewise.simulation.engine import Simulation, one_thread
from fadewise.simulation.environment import environment
from fadewise.simulation.folder import RunFolder
from fadewise.simulation.progress import Hearer, Progress
from fadewise.simulation.ranks import Ranks
from fadewise.simulation.records import Record

_BETWEEN_CHECKPOINTS_S = 1.0
_CHECKPOINTS_SHARE = 0.01
"""Checkpoints are at least a second apart, and so far that writing them takes a hundredth of the time."""


def run(experiment: Experiment, path: Path, ranks: Ranks, hearer: Hearer) -> None:
    """Makes the run of an experiment in a folder, or goes on with it. On every rank."""
    keep_freed_memory()
    folder = RunFolder(path) if ranks.first else None
    try:
        with one_thread():
            _run(experiment, folder, ranks, hearer)
    finally:
        if folder is not None:
            folder.close()


def _run(experiment: Experiment, folder: RunFolder | None, ranks: Ranks, hearer: Hearer) -> None:
    if folder is not None:
        folder.claim(manifest(experiment))
    simulation = Simulation(experiment, ranks)
    if folder is not None:
        hearer.say(simulation.learner.choice.sentence)
    _begin(simulation, folder, hearer)
    for record in written(simulation, folder):
        if folder is not None:
            hearer.progress(Progress(record.round + 1, experiment.rounds, record.accuracy, record.total_airtime_s))
    if folder is not None:
        folder.finish(_summary(simulation, folder.last_record()))


def written(simulation: Simulation, folder: RunFolder | None) -> Iterator[Record]:
    """Plays the rounds that remain; the rank that has the folder writes them and, now and then, a checkpoint."""
    saved_at, save_s = time.monotonic(), 0.0
    for record in simulation.rounds():
        if folder is not None:
            folder.write_round(record.line(), _timing(simulation, record.round))
            since_s = time.monotonic() - saved_at
            if simulation.done or since_s > max(_BETWEEN_CHECKPOINTS_S, save_s / _CHECKPOINTS_SHARE):
                began = time.monotonic()
                folder.save(simulation.memory)
                saved_at = time.monotonic()
                save_s = saved_at - began
        yield record


def _begin(simulation: Simulation, folder: RunFolder | None, hearer: Hearer) -> None:
    """Every rank at the last checkpoint, or at round 0."""
    memory = None
    if folder is not None:
        checkpoint, said = folder.last_checkpoint(simulation.memory)
        for sentence in said:
            hearer.say(sentence)
        # Without a checkpoint too: the records that are there would be fewer in the end.
        there = folder.rounds_written() if checkpoint is None else int(checkpoint.memory.round)
        wanted = simulation.experiment.rounds
        if there > wanted:
            raise FadewiseError(
                f"{folder.path} holds {there} rounds already; rounds is {wanted}, it must be at least {there}"
            )
        if checkpoint is not None:
            memory = checkpoint.memory
            hearer.say(f"all {wanted} rounds are there" if there == wanted else f"going on with round {there}")
        here = environment(simulation.ranks.size, simulation.learner.choice.name)
        for sentence in folder.describe(manifest(simulation.experiment), here):
            hearer.say(sentence)
        folder.go_on_from(checkpoint)
    memory = simulation.ranks.from_first(memory)
    if memory is not None:
        simulation.resume(memory)


def _timing(simulation: Simulation, number: int) -> str:
    times = {name: round(value, 6) for name, value in simulation.walltime._asdict().items()}
    return json.dumps({"round": number, **times})


def _summary(simulation: Simulation, last: Record) -> dict[str, Any]:
    return {
        "rounds": last.round + 1,
        "parameters": simulation.learner.parameters,
        "accuracy": last.accuracy,
        "loss": last.loss,
        "airtime_s": last.total_airtime_s,
        "round_time_s": last.total_round_time_s,
        "energy": last.total_energy,
        "mean_power": last.mean_power,
    }
