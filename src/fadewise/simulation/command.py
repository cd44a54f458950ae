"""What `fadewise run` does: the runs of a configuration, their folders, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fadewise import config
from fadewise.errors import FadewiseError
from fadewise.reports import live, tables
from fadewise.simulation import launch, require_torch
from fadewise.simulation.folder import summary_of
from fadewise.simulation.launch import Job
from fadewise.simulation.progress import Hearer, Progress

if TYPE_CHECKING:
    from fadewise.simulation.ranks import Ranks


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
        _under_torchrun(jobs, ranks, at_once)
    else:
        make(jobs, ranks, at_once)
    tables.print_whole(tables.of_runs([(job.folder, summary_of(job.folder)) for job in jobs]))


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
    errors: dict[str, list[Job]] = {}
    with live.display() as display:
        for job, kind, value in launch.launched(jobs, ranks, at_once):
            if kind == "began":
                display.begin(job.name, job.experiment.rounds)
            elif kind == "progress":
                display.show(job.name, Progress(*value))
            elif kind == "say":
                display.say(job.name, value)
            elif kind == "ended":
                on_ended(job)
            elif kind == "failed":
                errors.setdefault(value, []).append(job)
    if errors:
        raise FadewiseError(_said(errors, len(jobs)))


def _said(errors: Mapping[str, Sequence[Job]], of: int) -> str:
    """Why runs failed, each reason once, however many had it."""
    if of == 1:
        return next(iter(errors))
    whose = [
        jobs[0].name + (f" and {len(jobs) - 1} more run{'s' * (len(jobs) > 2)}" if len(jobs) > 1 else "")
        for jobs in errors.values()
    ]
    return "; ".join(f"{who}: {error}" for who, error in zip(whose, errors, strict=True))


def _under_torchrun(jobs: Sequence[Job], ranks: int | None, at_once: int | None) -> None:
    """This process is one of torchrun's: a rank of one run after the other, or of several runs the maker of some."""
    from fadewise.simulation.ranks import Ranks, join, leave

    if ranks is not None:
        raise FadewiseError("under torchrun --workers must be auto: torchrun has started the processes already")
    if at_once not in (None, 1):
        raise FadewiseError(
            f"under torchrun --jobs is {at_once}; it must be 1, all processes making one run after the other, or auto, "
            "a run on each"
        )
    group = join()
    if len(jobs) == 1 or at_once == 1:
        _as_a_rank(jobs, group)
    else:
        _as_one_of_many(jobs, group, Ranks(alone=True))
    leave()
    if not group.first:
        raise SystemExit  # the first rank prints what came out


def _as_a_rank(jobs: Sequence[Job], group: Ranks) -> None:
    """A rank of each run, one run after the other."""
    from fadewise.simulation.ranks import LostRank
    from fadewise.simulation.run import run as run_here

    with live.display(lines=not group.first) as display:
        for job in jobs:
            try:
                run_here(job.experiment, job.folder, group, _hearer(display, job))
            except LostRank:
                if group.first:
                    raise
                raise SystemExit(2) from None  # the one that it misses says why


def _as_one_of_many(jobs: Sequence[Job], group: Ranks, alone: Ranks) -> None:
    """A run on each process: whoever has made one takes the next."""
    from fadewise.simulation.ranks import Counter
    from fadewise.simulation.run import run as run_here

    errors = []
    begun, finished = Counter("runs begun"), Counter("processes finished")
    with live.display(lines=True) as display:  # the processes share the screen
        while (number := begun.next()) < len(jobs):
            job = jobs[number]
            try:
                run_here(job.experiment, job.folder, alone, _hearer(display, job))
            except FadewiseError as error:
                errors.append(f"{job.name}: {error}")
    finished.next()
    finished.wait_for(group.size)  # torchrun ends all as soon as one has failed
    if errors:
        raise FadewiseError("; ".join(errors))


def _hearer(display: live.Display, job: Job) -> Hearer:
    return Hearer(
        lambda progress: display.show(job.name, progress),
        lambda sentence: display.say(job.name, sentence),
    )
