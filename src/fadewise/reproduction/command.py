"""What `fadewise reproduce` does: the runs that are missing, then the pages, figures and reports."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from fadewise import studies
from fadewise.data import sources
from fadewise.errors import FadewiseError, NotAllowed
from fadewise.reports import html
from fadewise.reproduction import pages
from fadewise.reproduction.making import make, wanted
from fadewise.reproduction.store import Store
from fadewise.reproduction.study import Numbers, Scale, Study


def reproduce(
    names: Sequence[str],
    scale: Scale,
    seeds: Sequence[int] | None,
    at_once: int | None,
    out: Path,
    results: Path | None,
    *,
    only_pages: bool = False,
    moving_average: int = 0,
) -> list[Path]:
    """Makes studies; the files that a person will want to open.

    results: where pages, figures and numbers go, by default a folder of `out`, which has the runs and the reports.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise FadewiseError("the studies' figures need matplotlib: pip install 'fadewise[plots]'")
    results = out / scale if results is None else results
    results.mkdir(parents=True, exist_ok=True)
    store = Store(results / "data")
    chosen = _chosen(names, needs_data=not only_pages)
    needed = [] if only_pages else wanted(chosen, scale, seeds, out)
    of_study = {study.name: {line.identity for line in study.lines(scale)} for study in chosen}

    def after_seed(seed: int) -> None:
        """Pages show what there is: with each seed that is complete, more."""
        concerned = {one.identity for one in needed if one.seed == seed}
        for study in chosen:
            if concerned & of_study[study.name]:
                pages.write(study, scale, store, results, moving_average)

    failed = None
    try:
        make(needed, store, at_once, after_seed)
    except FadewiseError as error:  # of some runs; what the others gave is worth its pages
        failed = error
    written = []
    for study in chosen:
        if pages.write(study, scale, store, results, moving_average):
            written.append(results / f"{study.name}.md")
            arms = Numbers(scale, study.note(scale), moving_average, store).arms(study.lines(scale))
            if arms:
                out.mkdir(parents=True, exist_ok=True)
                written.append(out / f"{study.name}-{scale}.html")
                html.write(study.title, arms, written[-1], study.note(scale))
        elif only_pages and study.name in names:
            raise FadewiseError(f"{store.folder} has no numbers of {study.name} at scale {scale}; make them first")
    verdicts = pages.write_verdicts(results, store)
    if failed is not None:
        raise failed
    return written if verdicts is None else [*written, verdicts]


def _chosen(names: Sequence[str], needs_data: bool) -> list[Study]:
    """The studies of these names; of all, those whose data are there."""
    known = studies.by_name()
    for name in names:
        if name != "all" and name not in known:
            raise NotAllowed("the study", name, ", ".join([*known, "or all"]))
    if "all" not in names and names:
        chosen = [known[name] for name in names]
        for study in chosen:
            if needs_data and study.dataset is not None:
                sources.located(study.dataset)  # says in a sentence what is to be done where it is not there
        return chosen
    there = {listed.name for listed in sources.listed() if listed.found is not None}
    missing = [study for study in known.values() if needs_data and study.dataset not in {None, *there}]
    for study in missing:
        print(f"{study.name}: left out, as the data set {study.dataset} is not there", file=sys.stderr)
    return [study for study in known.values() if study not in missing]
