"""Making the runs that studies still need: seed by seed, so that what is there can always be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fadewise.reports import runs
from fadewise.reproduction.store import Store
from fadewise.reproduction.study import Line, Scale, Study
from fadewise.simulation import command
from fadewise.simulation.folder import summary_of
from fadewise.simulation.launch import Job


class Wanted(NamedTuple):
    """A run that some study needs. identity: of its configuration."""

    study: str
    identity: str
    line: Line
    seed: int
    folder: Path

    @property
    def name(self) -> str:
        """What it is called while it goes on; the end of its identity tells it from others of the same study."""
        return f"{self.study} {self.line.name} [{self.identity[-4:]}], seed {self.seed}"


def wanted(studies: Sequence[Study], scale: Scale, seeds: Sequence[int] | None, out: Path) -> list[Wanted]:
    """All runs that the studies need, each once and with as many rounds as any of them asks for.

    Seed by seed: all configurations under seed 0, then all under seed 1. So whatever has been made when the
    time is up is paired.
    """
    found: dict[tuple[int, str], Wanted] = {}
    lines = [(study.name, line.identity, line) for study in studies for line in study.lines(scale)]
    for study, identity, line in lines:
        for seed in range(line.seeds) if seeds is None else seeds:
            before = found.get((seed, identity))
            if before is None:
                folder = out / "runs" / identity / f"seed-{seed}"
                found[seed, identity] = Wanted(study, identity, line, seed, folder)
            elif before.line.rounds < line.rounds or line.judged:
                longer = max(before.line, line, key=lambda one: one.rounds)
                found[seed, identity] = before._replace(
                    line=_judged(longer) if line.judged or before.line.judged else longer
                )
    return sorted(found.values(), key=lambda one: one.seed)  # a stable sort: the studies' order within a seed


def make(all_wanted: Sequence[Wanted], store: Store, at_once: int | None, on_seed: Callable[[int], object]) -> None:
    """Makes the runs whose numbers the store does not have; `on_seed` hears when all of a seed are there."""
    missing = [one for one in all_wanted if not _is_kept(one, store)]
    jobs: dict[str, tuple[Job, Wanted]] = {}
    for one in missing:
        summary = summary_of(one.folder)
        if summary is not None and summary["rounds"] >= one.line.rounds:
            _keep(one, store)  # made before, and stopped before its numbers were kept
        else:
            job = command.job(one.line.preset, one.line.settings(one.seed), one.folder, one.name)
            jobs[one.name] = job, one
    left = [one.seed for _, one in jobs.values()]

    def ended(job: Job) -> None:
        one = jobs[job.name][1]
        _keep(one, store)
        left.remove(one.seed)
        if one.seed not in left:
            on_seed(one.seed)

    if jobs:
        command.make([job for job, _ in jobs.values()], at_once=at_once, on_ended=ended)


def _is_kept(one: Wanted, store: Store) -> bool:
    if store.rounds(one.identity, one.seed) < one.line.rounds:
        return False
    return not one.line.judged or bool(store.runs(one.identity)[one.seed].judged)


def _keep(one: Wanted, store: Store) -> None:
    run = runs.read(one.folder)
    if one.line.judged:
        from fadewise.reproduction.judgement import judged

        run = run._replace(judged=judged(one.folder))
    store.add(one.identity, run)


def _judged(line: Line) -> Line:
    return Line(line.name, line.preset, line.changes, line.rounds, line.seeds, judged=True)
