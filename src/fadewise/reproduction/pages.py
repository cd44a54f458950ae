"""A study's page: what the command writes stands between two marks, what people write around them stays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from fadewise.errors import FadewiseError
from fadewise.files import write_whole
from fadewise.reports import markdown
from fadewise.reproduction.store import Store, core_hours
from fadewise.reproduction.study import Line, Numbers, Page, Scale, Study, Verdict

_BEGIN, _END = "<!-- from here: written by `fadewise reproduce` -->", "<!-- to here -->"
_FORMATS = (".svg", ".pdf", ".png")
VERDICTS = "verdicts"


def write(study: Study, scale: Scale, store: Store, results: Path, moving_average: int = 0) -> bool:
    """Writes a study's page, figures and verdicts from the numbers that are there; False where there are none."""
    lines = study.lines(scale)
    numbers = Numbers(scale, study.note(scale), moving_average, store)
    arms = numbers.arms(lines)
    if lines and not arms:
        return False
    page = study.page(numbers)
    put(results / f"{study.name}.md", f"# {study.title}\n\n{study.about}\n", block(study, numbers, page, lines))
    draw(page, results)
    if page.verdicts:
        kept = {"note": numbers.note, "verdicts": [vars(verdict) for verdict in page.verdicts]}
        _write(store.folder / f"{VERDICTS}-{study.name}.json", json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    return True


def block(study: Study, numbers: Numbers, page: Page, lines: Sequence[Line]) -> str:
    """What stands between the marks."""
    smooth = f" --moving-average {numbers.moving_average}" if numbers.moving_average else ""
    parts = [f"```sh\nfadewise reproduce {study.name} --scale {numbers.scale}{smooth}\n```"]
    if numbers.note:
        parts.append(f"**{numbers.note}** `--scale full` makes the study as it is meant.")
    if lines:
        parts.append(_made_of(numbers, lines))
    return "\n\n".join([*parts, page.text]) + "\n"


def _made_of(numbers: Numbers, lines: Sequence[Line]) -> str:
    arms = numbers.arms(lines)
    runs = [run for arm in arms for run in arm.runs.values()]
    counts = sorted({len(arm.runs) for arm in arms})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    missing = len(lines) - len(arms)
    return (
        f"Made of {len(runs)} runs: {len(arms)} configurations under {seeds} seed{'s' * (counts[-1] > 1)} each, "
        f"{core_hours(runs)}." + (f" {missing} configurations have not been run yet." if missing else "")
    )


def draw(page: Page, results: Path) -> None:
    """Draws a page's figures in every format."""
    from fadewise.reports import plots

    for name, figure in page.figures.items():
        for ending in _FORMATS:
            plots.save(figure, results / f"{name}{ending}")


def write_verdicts(results: Path, store: Store) -> Path | None:
    """Every published number that some study has met, beside ours; the page, if there is any such number."""
    rows, notes = [], []
    for path in sorted(store.folder.glob(f"{VERDICTS}-*.json")):
        study = path.stem.removeprefix(f"{VERDICTS}-")
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            note, verdicts = (
                kept["note"],
                [Verdict(**one | {"ci": one["ci"] and tuple(one["ci"])}) for one in kept["verdicts"]],
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FadewiseError(
                f"{path} cannot be read as verdicts: {error}; remove it to have it made again"
            ) from None
        notes += [f"{study}: {note}"] if note else []
        for verdict in verdicts:
            word = f"[{verdict.word}]({study}.md)"
            rows.append([f"{study}: {verdict.what}", f"{verdict.published:g}", verdict.ours, word])
    if not rows:
        return None
    text = markdown.table(["", "published", "ours", "verdict"], rows) + "\n"
    if notes:
        text += "\n" + "\n".join(f"**{note}**" for note in notes) + "\n"
    about = (
        "# The paper's numbers beside ours\n\nIntervals are of 95%, over seeds. A published number is `inside` or "
        "`outside` of ours; it is `open` where\nours has no interval: from one seed, or because a run never reached "
        "the target.\n"
    )
    put(results / f"{VERDICTS}.md", about, text)
    return results / f"{VERDICTS}.md"


def put(path: Path, beginning: str, written: str) -> None:
    """Puts a block between the marks of a page, which begins like this if it is not there yet."""
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else f"{beginning}\n{_BEGIN}\n{_END}\n"
    except (OSError, UnicodeDecodeError) as error:
        raise FadewiseError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise FadewiseError(f"{path} has no {_BEGIN!r} and {_END!r}; put them where the numbers are to stand")
    _write(path, f"{before}{_BEGIN}\n\n{written}\n{_END}{after}")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)  # what people have written around the marks is in it
    except OSError as error:
        raise FadewiseError(f"{path} cannot be written: {error.strerror or error}") from None
