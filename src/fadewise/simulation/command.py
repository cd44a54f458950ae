"""What `fadewise run` does: the runs of a configuration, their folders, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from fadewise import config
from fadewise.errors import FadewiseError
from fadewise.reports import live, tables
from fadewise.rounds import Experiment
from fadewise.simulation import launch, require_torch
from fadewise.simulation.folder import summary_of
from fadewise.simulation.launch import Job
from fadewise.simulation.progress import Hearer, Progress


def run(
    source: str,
    changes: Mapping[str, Any],
    seeds: Sequence[int] | None,
    ranks: int | None,
    at_once: int | None,
    out: Path | None,
) -> None:
    """Makes the runs, shows them while they go on, and prints what came out."""
    require_torch()
    settings = config.with_settings(config.read(source), changes)
    jobs, experiments = [], []
    for seed in [None] if seeds is None else seeds:
        chosen = settings if seed is None else config.with_settings(settings, {"seed": seed})
        experiment = config.experiment(chosen, source)
        if experiment.training is None:
            raise FadewiseError(
                f"{source} has no data to train on; add a [data] table, as in --set data.kind=handwriting"
            )
        experiments.append(experiment)
        jobs.append(Job(f"seed {experiment.seed}", source, chosen, _folder(source, experiment, out, seeds is not None)))
    if launch.under_torchrun():
        _as_a_rank(jobs, experiments)
    else:
        _in_processes(jobs, experiments, ranks, at_once)


def _folder(source: str, experiment: Experiment, out: Path | None, several: bool) -> Path:
    if out is not None:
        return out / f"seed-{experiment.seed}" if several else out
    return Path("runs") / Path(source).name.removesuffix(".toml") / f"seed-{experiment.seed}"


def _in_processes(jobs: list[Job], experiments: list[Experiment], ranks: int | None, at_once: int | None) -> None:
    cores = launch.cores()
    if at_once is None:
        at_once = max(1, cores // (ranks or 1))
    at_once = min(at_once, len(jobs))
    if ranks is None:
        # Several runs at once use the cores best with one each.
        ranks = launch.ranks_for(experiments[0]) if at_once == 1 else max(1, cores // at_once)
    errors = []
    with live.display() as display:
        for job, kind, value in launch.launched(jobs, ranks, at_once):
            if kind == "progress":
                display.show(job.name, Progress(*value))
            elif kind == "say":
                display.say(job.name, value)
            elif kind == "failed":
                errors.append(value if len(jobs) == 1 else f"{job.name}: {value}")
    _end(jobs, errors)


def _as_a_rank(jobs: list[Job], experiments: list[Experiment]) -> None:
    """Under torchrun this process is one rank of each run, one run after the other."""
    from fadewise.simulation import ranks
    from fadewise.simulation.run import run as run_here

    group = ranks.join()
    with live.display() as display:
        for job, experiment in zip(jobs, experiments, strict=True):
            hearer = Hearer(
                lambda progress, name=job.name: display.show(name, progress),  # type: ignore[misc]
                lambda sentence, name=job.name: display.say(name, sentence),  # type: ignore[misc]
            )
            run_here(experiment, job.folder, group, hearer)
    ranks.leave()
    if group.first:
        _end(jobs, [])


def _end(jobs: list[Job], errors: list[str]) -> None:
    """What came out."""
    Console().print(tables.of_runs([(job.folder, summary_of(job.folder)) for job in jobs]))
    if errors:
        raise FadewiseError("; ".join(errors))
