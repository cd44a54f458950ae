"""What `fadewise reproduce` does: the runs that are missing, then the pages, figures and reports."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from fadewise import config, studies
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
    store = Store(results / "data")
    chosen = _chosen(names)
    if not only_pages:
        chosen = _with_data(chosen, scale, named=bool(names) and "all" not in names)
        for folder in (out, results):  # now: after hours of runs is too late
            _make(folder)
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
        if not study.lines(scale):
            print(f"{study.name}: computing its page", file=sys.stderr, flush=True)  # that may take minutes
        if pages.write(study, scale, store, results, moving_average):
            written.append(results / f"{study.name}.md")
            arms = Numbers(scale, study.note(scale), moving_average, store).arms(study.lines(scale))
            if arms:
                _make(out)
                written.append(out / f"{study.name}-{scale}.html")
                html.write(study.title, arms, written[-1], study.note(scale))
        elif only_pages and study.name in names:
            raise FadewiseError(f"{store.folder} has no numbers of {study.name} at scale {scale}; make them first")
    verdicts = pages.write_verdicts(results, store)
    if failed is not None:
        raise failed
    return written if verdicts is None else [*written, verdicts]


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FadewiseError(f"the folder {folder} cannot be made: {error.strerror or error}") from None


def _chosen(names: Sequence[str]) -> list[Study]:
    """The studies of these names; without any, or of all, every one."""
    known = studies.by_name()
    for name in names:
        if name != "all" and name not in known:
            raise NotAllowed("the study", name, ", ".join([*known, "or all"]))
    return list(known.values()) if "all" in names or not names else [known[name] for name in dict.fromkeys(names)]


def _with_data(chosen: Sequence[Study], scale: Scale, named: bool) -> list[Study]:
    """Those whose data are there, in a form that their runs read; one that was `named` must have them."""
    found = []
    for study in chosen:
        try:
            for line in study.lines(scale):
                training = config.load(line.preset, line.changes).training
                assert training is not None
                training.data.place()
        except FadewiseError as error:
            if named:
                raise
            print(f"{study.name}: left out, as {error}", file=sys.stderr)
        else:
            found.append(study)
    return found
