"""Studies share runs, make them seed by seed, and make none twice, however often they are killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fadewise import studies
from fadewise.reproduction.making import wanted
from fadewise.reproduction.store import Store
from tests.reproduction import tiny

ROUNDS = 60
ROOT = Path(__file__).parents[2]


def started(folder: Path, rounds: int = ROUNDS) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    words = [sys.executable, "-m", "tests.reproduction.tiny", str(folder), str(rounds)]
    return subprocess.Popen(words, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def made(folder: Path, rounds: int = ROUNDS) -> str:
    """What it said on the error stream until its end."""
    process = started(folder, rounds)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


def test_seed_by_seed_and_each_run_once(tmp_path: Path) -> None:
    longer, shorter = tiny.study(50, "longer"), tiny.study(20, "shorter")
    found = wanted([shorter, longer], "quick", None, tmp_path)
    assert [(one.seed, one.line.name) for one in found] == [
        (0, "uniform"), (0, "proposed"), (1, "uniform"), (1, "proposed")
    ]  # fmt: skip
    assert {one.line.rounds for one in found} == {50}
    assert [one.line.judged for one in found] == [False, True, False, True]
    assert len({one.folder for one in found}) == 4
    assert [one.seed for one in wanted([longer], "quick", [7], tmp_path)] == [7, 7]


def test_the_papers_studies_share_their_runs() -> None:
    known = studies.by_name()
    identities = {
        name: {line.identity for line in known[name].lines("full")}
        for name in ("cifar10", "corrections", "heterogeneous", "prediction")
    }
    assert len(identities["corrections"] & identities["cifar10"]) == 2  # λ = 100: exact, and both as published
    assert len(identities["heterogeneous"] & identities["cifar10"]) == 2  # iid
    assert len(identities["prediction"] & identities["cifar10"]) == 2  # λ = 10 and 100
    assert len(identities["cifar10"]) == 12


def test_all_runs_have_names_and_folders_of_their_own(tmp_path: Path) -> None:
    found = wanted(list(studies.by_name().values()), "full", None, tmp_path)
    assert len({one.name for one in found}) == len({one.folder for one in found}) == len(found) > 200


def test_every_line_of_every_study_is_a_configuration_that_can_be() -> None:
    for study in studies.by_name().values():
        for lines in (study.lines("quick"), study.lines("full")):
            assert len({line.identity for line in lines}) == len(lines), study.name
            for line in lines:
                every = line.settings(0)["training"]["evaluate_every"]
                assert line.rounds % every == 0, f"{study.name}, {line.name}: the last evaluation is out of step"


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_and_nothing_is_run_twice(tmp_path: Path) -> None:
    made(tmp_path / "whole")
    out = tmp_path / "killed"
    kills = 0
    finished: dict[Path, bytes] = {}
    while True:
        process = started(out)
        # After some time, or as soon as one more run has ended: both before and after its numbers are kept.
        give_up_at = time.monotonic() + 3.0 + 1.5 * kills
        ended_before = len(list(out.glob("runs/*/*/summary.json")))
        while process.poll() is None and time.monotonic() < give_up_at:
            if kills % 2 and len(list(out.glob("runs/*/*/summary.json"))) > ended_before:
                break
            time.sleep(0.01)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.communicate(timeout=60)
        time.sleep(0.5)  # until the processes that die with it have died
        for timing, before in finished.items():
            assert timing.read_bytes() == before, "a run that had ended was run again"
        finished = {summary.parent / "timing.jsonl": b"" for summary in out.glob("runs/*/*/summary.json")}
        finished = {timing: timing.read_bytes() for timing in finished}
        if process.returncode == 0:
            break
    assert kills >= 2
    assert contents(out) == contents(tmp_path / "whole")
    for timing in out.glob("runs/*/*/timing.jsonl"):
        assert timing.read_text().count("\n") == ROUNDS


def contents(out: Path) -> dict[str, bytes]:
    """All records, and the figure, which is made of them."""
    kept = [*sorted(out.glob("runs/*/*/rounds.jsonl")), out / "quick" / "tiny.svg"]
    assert len(kept) == 5
    return {str(path.relative_to(out)): path.read_bytes() for path in kept}


def test_numbers_outlast_their_runs_and_longer_ones_go_on(tmp_path: Path) -> None:
    said = made(tmp_path, 20)
    assert "seed 0: round 20 of 20" in said
    page = (tmp_path / "quick" / "tiny.md").read_bytes()
    shutil.rmtree(tmp_path / "runs")
    assert made(tmp_path, 20) == ""  # nothing was run
    assert (tmp_path / "quick" / "tiny.md").read_bytes() == page
    assert made(tmp_path, 10) == ""
    said = made(tmp_path, 30)
    assert "round 30 of 30" in said
    store = Store(tmp_path / "quick" / "data")
    for line in tiny.study(30).lines("quick"):
        assert {seed: run.rounds for seed, run in store.runs(line.identity).items()} == {0: 30, 1: 30}
        for run in store.runs(line.identity).values():
            assert bool(run.judged) == line.judged
    judged = store.runs(tiny.study(30).lines("quick")[1].identity)[0].judged
    assert len(judged["classes"]) == 62
    assert len(judged["groups"]) == 3


def test_pages_say_how_many_seeds_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fadewise.reproduction import command

    monkeypatch.setattr(studies, "by_name", lambda: {"tiny": tiny.study(10)})
    command.reproduce(["tiny"], "quick", [4], 2, tmp_path, None)
    text = (tmp_path / "quick" / "tiny.md").read_text()
    assert "2 configurations under 1 seed each" in text
    assert "**Quick: too small to mean anything.**" in text
    assert (tmp_path / "tiny-quick.html").exists()
    assert {path.suffix for path in (tmp_path / "quick").glob("tiny.*")} == {".md", ".svg", ".pdf", ".png"}
