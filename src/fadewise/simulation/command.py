"""What `fadewise run` does: the runs of a configuration, their folders, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from fadewise import config
from fadewise.errors import FadewiseError
from fadewise.reports import live, tables
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
    jobs = []
    for seed in [settings.get("seed", 0)] if seeds is None else seeds:
        base = Path("runs") / Path(source).name.removesuffix(".toml") if out is None else out
        folder = base if out is not None and seeds is None else base / f"seed-{seed}"
        jobs.append(job(source, config.with_settings(settings, {"seed": seed}), folder, f"seed {seed}"))
    if launch.under_torchrun():
        _as_a_rank(jobs)
    else:
        make(jobs, ranks, at_once)
    Console().print(tables.of_runs([(job.folder, summary_of(job.folder)) for job in jobs]))


def job(source: str, settings: Mapping[str, Any], folder: Path, name: str) -> Job:
    """A run to be made, its settings checked."""
    experiment = config.experiment(settings, source)
    if experiment.training is None:
        raise FadewiseError(f"{source} has no data to train on; add a [data] table, as in --set data.kind=handwriting")
    return Job(name, source, settings, experiment, folder)


def make(
    jobs: Sequence[Job],
    ranks: int | None = None,
    at_once: int | None = None,
    on_ended: Callable[[Job], object] = lambda _: None,
) -> None:
    """Makes runs in processes of their own, and shows them while they go on.

    ranks: processes for each run; at_once: runs at a time. By default, what uses the cores best.
    on_ended: hears of each run that has come to its end.
    """
    cores = launch.cores()
    if at_once is None:
        at_once = max(1, cores // (ranks or 1))
    at_once = min(at_once, len(jobs))
    if ranks is None:
        # Several runs at once use the cores best with one each.
        ranks = launch.ranks_for(jobs[0].experiment) if at_once == 1 else max(1, cores // at_once)
    errors = []
    with live.display() as display:
        for job, kind, value in launch.launched(jobs, ranks, at_once):
            if kind == "progress":
                display.show(job.name, Progress(*value))
            elif kind == "say":
                display.say(job.name, value)
            elif kind == "ended":
                on_ended(job)
            elif kind == "failed":
                errors.append(value if len(jobs) == 1 else f"{job.name}: {value}")
    if errors:
        raise FadewiseError("; ".join(errors))


def _as_a_rank(jobs: Sequence[Job]) -> None:
    """Under torchrun this process is one rank of each run, one run after the other."""
    from fadewise.simulation import ranks
    from fadewise.simulation.run import run as run_here

    group = ranks.join()
    with live.display() as display:
        for job in jobs:
            hearer = Hearer(
                lambda progress, name=job.name: display.show(name, progress),  # type: ignore[misc]
                lambda sentence, name=job.name: display.say(name, sentence),  # type: ignore[misc]
            )
            run_here(job.experiment, job.folder, group, hearer)
    ranks.leave()
    if not group.first:
        raise SystemExit  # the first rank prints what came out
