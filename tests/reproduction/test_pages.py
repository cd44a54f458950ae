"""Pages are what the command would write again, and what people wrote around that stays."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import fadewise as fw
from fadewise.reproduction import command, pages
from fadewise.reproduction.store import Store
from fadewise.studies import participants

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_what_people_wrote_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    pages.put(page, "# Title\n", "1\n")
    page.write_text(page.read_text().replace("# Title", "# My title").rstrip() + "\n\nWhat it means.\n")
    pages.put(page, "# Title\n", "2\n")
    text = page.read_text()
    assert text.startswith("# My title\n")
    assert text.endswith("What it means.\n")
    assert "\n2\n" in text
    assert "\n1\n" not in text
    page.write_text("# No marks\n")
    with pytest.raises(fw.FadewiseError, match="put them where the numbers are to stand"):
        pages.put(page, "", "3\n")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_bytes(b"\xff")
    with pytest.raises(fw.FadewiseError, match=r"page\.md cannot be read"):
        pages.put(tmp_path / "page.md", "", "1\n")
    (tmp_path / "verdicts-thing.json").write_text('{"note": ""}')
    with pytest.raises(
        fw.FadewiseError, match=r"verdicts-thing\.json cannot be read as verdicts: 'verdicts'; remove it"
    ):
        pages.write_verdicts(tmp_path, Store(tmp_path))


def test_committed_pages_and_figures_are_made_again_from_committed_numbers(tmp_path: Path) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    text = (RESULTS / "saving.md").read_text(encoding="utf-8")
    assert "--scale full" in text
    command.reproduce(["saving"], "full", None, None, tmp_path, tmp_path / "results", only_pages=True)
    assert (tmp_path / "results" / "saving.md").read_text(encoding="utf-8") == text
    again, committed = ((folder / "saving.svg").read_text() for folder in (tmp_path / "results", RESULTS))
    assert rounded(again) == rounded(committed)


def rounded(svg: str) -> str:
    """Without the last digits, which another processor may round otherwise."""
    return re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.1f}", svg)


def test_a_committed_number_is_computed_again() -> None:
    """One of the participants' rows, from scratch."""
    setting = next(s for s in participants.SETTINGS if (s.data, s.network, s.airtime_weight) == ("cifar10", "het", 100))
    cells = [participants.participants(setting, 2, variant, range(5)) for variant in ("published", "exact")]
    (row,) = re.findall(r"^\| cifar10 het, λ = 100 .*$", (RESULTS / "participants.md").read_text("utf-8"), re.MULTILINE)
    assert f"| {cells[0].value:.2f} ±" in row
    assert row.endswith(f"| {cells[1].value:.2f} |")


def test_numbers_that_are_not_there_are_missed_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(fw.FadewiseError, match="has no numbers of cifar10 at scale full; make them first"):
        command.reproduce(["cifar10"], "full", None, None, tmp_path, None, only_pages=True)
    with pytest.raises(fw.FadewiseError, match="the study is 'cifar'; it must be participants, power, "):
        command.reproduce(["cifar"], "full", None, None, tmp_path, None)
    assert not list(tmp_path.iterdir())


def test_data_in_a_form_that_its_runs_do_not_read_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "leaf-femnist" / "train").mkdir(parents=True)
    (tmp_path / "leaf-femnist" / "train" / "all_data_0.json").write_text("{}")
    monkeypatch.setenv("FADEWISE_DATA", str(tmp_path))
    monkeypatch.setenv("FADEWISE_CACHE", str(tmp_path / "cache"))
    missing = "the data set femnist was not found as parquet"
    with pytest.raises(fw.FadewiseError, match=missing):
        command.reproduce(["femnist"], "quick", None, None, tmp_path / "out", None)
    made: list[str] = []
    monkeypatch.setattr(command, "make", lambda needed, *_: made.extend({one.study for one in needed}))
    monkeypatch.setattr(pages, "write", lambda *_: False)
    command.reproduce([], "quick", [0], None, tmp_path / "out", None)
    assert "handwriting" in made
    assert "femnist" not in made
    assert f"femnist: left out, as {missing}" in capsys.readouterr().err
