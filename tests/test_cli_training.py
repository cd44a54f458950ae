"""`fadewise run` and `fadewise data` as people meet them. What runs leave behind: tests/simulation/test_run.py."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.runs import config as config_file
from tests.simulation.runs import environment
from tests.test_cli import ran

CIFAR = Path(__file__).parents[2] / "shared" / "data" / "cifar-10-batches-bin"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["paper/cifar10-hett"], "is neither a file nor a preset; the nearest is paper/cifar10-het"),
        (["handwriting/het", "--workers", "0"], "--workers is '0'; it must be a whole number from 1 to 4096, or auto"),
        (["handwriting/het", "--jobs", "two"], "--jobs is 'two'; it must be a whole number from 1 to 4096, or auto"),
        (["handwriting/het", "--seeds", "4-1"], "--seeds is '4-1'"),
        (["handwriting/het", "--seeds", "0-1", "--set", "seed=3"], "seed is given more than once"),
        (["handwriting/het", "--set", "training.steps=0"], "training.steps is 0; it must be a whole number at least 1"),
        (["small.toml", "--out", "small.toml"], "small.toml cannot be written: File exists"),
        (["small.toml", "--set", "training.device=cuda"], "training.device is 'cuda', but PyTorch finds no GPU"),
        (["paper/femnist-het"], "the data set femnist was not found"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_sentence(tmp_path: Path, words: list[str], said: str) -> None:
    config_file(tmp_path, 3)
    environment = {"FADEWISE_CACHE": str(tmp_path / "cache"), "PATH": "", "CUDA_VISIBLE_DEVICES": ""}
    result = ran("run", *words, cwd=tmp_path, env=environment)
    assert result.returncode == 2, result.stderr
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("fadewise:")]
    assert said in line
    assert not result.stdout


def test_a_person_sees_how_a_run_goes(tmp_path: Path) -> None:
    """On a terminal there is a bar from the start, with all that one wants to know; in a log, a line an evaluation."""
    config_file(tmp_path, 14)
    words = [sys.executable, "-m", "fadewise", "run", "small.toml", "--out"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*words, "seen"], cwd=tmp_path, env=environment(tmp_path), stderr=theirs, stdout=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal whose other end is closed says so
        while block := os.read(ours, 65536):
            shown += block
    os.close(ours)
    assert process.wait(60) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    frames = [line.split() for line in re.split(r"[\r\n]", text) if "/14" in line]
    assert frames[0][:2] == ["seed", "11"]
    assert "0/14" in frames[0]
    last = " ".join(frames[-1])
    assert re.search(r"round 14/14 at [\d.]+/s accuracy 0\.\d{3} airtime \d+ s 0:00:00", last), last
    result = subprocess.run([*words, "log"], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True)
    (seventh, fourteenth) = [line for line in result.stderr.splitlines() if "round " in line]
    expected = r"seed 11: round 7 of 14, accuracy 0\.\d{3}, airtime [\d.]+ s, [\d.]+ rounds/s, \d:\d\d:\d\d left"
    assert re.fullmatch(expected, seventh)
    assert fourteenth.endswith("0:00:00 left")


def test_without_data_there_is_nothing_to_run(tmp_path: Path) -> None:
    path = config_file(tmp_path, 3)
    path.write_text(path.read_text().partition("[data]")[0])
    result = ran("run", str(path), cwd=tmp_path)
    assert result.returncode == 2
    assert "has no data to train on; add a [data] table" in result.stderr


def test_data_are_listed_with_where_they_are_and_how_to_get_them(tmp_path: Path) -> None:
    result = ran("data", "list", cwd=tmp_path, env={"FADEWISE_CACHE": str(tmp_path), "PATH": ""})
    assert result.returncode == 0
    assert "not found" in result.stdout
    assert "`fadewise data fetch cifar10` gets it" in result.stdout
    assert "handwriting" in result.stdout


def test_data_are_checked(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    (folder / "data_batch_1.bin").write_bytes(b"cut off")
    result = ran("data", "check", "cifar10", env={"FADEWISE_DATA": str(tmp_path), "PATH": ""})
    assert result.returncode == 2
    assert "data_batch_1.bin: truncated (7 of 30730000 bytes)" in result.stdout
    assert "data_batch_2.bin: missing" in result.stdout
    assert "fadewise: 6 of 6 files of cifar10 are not as published; fetch them again" in result.stderr
    if CIFAR.exists():
        result = ran("data", "check", "cifar10", env={"FADEWISE_DATA": str(CIFAR.parent), "PATH": ""})
        assert result.returncode == 0
        assert result.stdout.count(": ok") == 6


def test_an_unknown_data_set_is_refused_with_those_there_are() -> None:
    for verb in ("check", "fetch"):
        result = ran("data", verb, "cifar")
        assert result.returncode == 2
        assert "is 'cifar'; it must be one of cifar10, femnist, mnist-by-writer" in result.stderr


def test_the_built_in_data_set_has_nothing_to_check() -> None:
    for verb in ("check", "fetch"):
        result = ran("data", verb, "handwriting")
        assert result.returncode == 2
        assert "handwriting is built in: there is nothing to check or to fetch" in result.stderr
