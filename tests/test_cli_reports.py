"""`fadewise compare`, `report`, `export` and `reproduce` as people meet them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.reports import made
from tests.test_cli import PRESET, ran, refused

CURVE = [0.1, 0.3, 0.5, 0.6, 0.7, 0.7, 0.7]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    for seed in range(2):
        made.run(path / "uniform" / f"seed-{seed}", CURVE, airtime_s=1.0, seed=seed, preset="handwriting/het-uniform")
        made.run(path / "proposed" / f"seed-{seed}", CURVE, airtime_s=0.5 + 0.1 * seed, seed=seed)
    return path


def test_the_commands_work_together(folder: Path, tmp_path: Path) -> None:
    result = ran("compare", "uniform", "proposed", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "To accuracy 0.7; ratios are over uniform" in result.stdout
    assert "2 of 2" in result.stdout
    result = ran("compare", str(folder), "--over", "uniform", "--target", "accuracy=0.6", "--json")
    _, proposed = json.loads(result.stdout)["arms"]
    assert proposed["ratios"]["airtime_s"]["value"] == pytest.approx(0.3**0.5)
    result = ran("report", "uniform", "proposed", "-o", str(tmp_path / "r.html"), "--title", "Two", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "<title>Two</title>" in (tmp_path / "r.html").read_text()
    result = ran("export", str(folder), "-o", str(tmp_path / "r.csv"))
    assert result.stdout == f"{tmp_path / 'r.csv'}: 140 rounds\n"


def test_names_and_numbers_are_whole_however_narrow_the_terminal(folder: Path) -> None:
    environment = os.environ | {"COLUMNS": "30"}
    for words in (["compare", "uniform", "proposed", "--target", "accuracy=0.6"], ["plan", PRESET, "--rounds", "9"]):
        result = ran(*words, cwd=folder, env=environment)
        assert "…" not in result.stdout
        assert ("  lyapunov  " if words[0] == "compare" else "  worst of limit  ") in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", "nothing"], "nothing is not there; give a run's folder, or a folder of runs' folders"),
        (["compare", "{folder}", "--target", "0.7"], "--target is '0.7'; it must be accuracy=A"),
        (
            ["compare", "{folder}", "--over", "greedy"],
            "--over 'greedy' is in 0 names; it must be in one of: uniform; lyapunov",
        ),
        (
            ["report", "{folder}", "-o", "report.pdf"],
            "the report's file is 'report.pdf'; it must be a name ending in .html",
        ),
        (["export", "{folder}", "-o", "rounds"], "the file to export to is 'rounds'; it must be a name ending in .csv"),
        (["reproduce", "figure2"], "the study is 'figure2'; it must be participants, power, saving, cifar10, "),
        (["reproduce", "cifar10", "--scale", "big"], "--scale is 'big'; it must be quick or full"),
        (["reproduce", "cifar10", "--seeds", "x"], "--seeds is 'x'; it must be seeds or ranges of them"),
        (["reproduce", "femnist"], "the data set femnist was not found"),
        (["reproduce", "participants", "--out", "/dev/null"], "the folder /dev/null cannot be made: File exists"),
        (
            ["reproduce", "saving", "--moving-average", "-1"],
            "--moving-average is '-1'; it must be a whole number from 0 to 1000000",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    folder: Path,
    words: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FADEWISE_DATA", raising=False)
    monkeypatch.setenv("FADEWISE_CACHE", str(tmp_path / "cache"))
    assert said in refused(capsys, *[word.replace("{folder}", str(folder)) for word in words])
    assert not (tmp_path / "cache").exists()
