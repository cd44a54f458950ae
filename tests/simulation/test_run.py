from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.runs import config, contents, environment, run, started

ROUNDS = 60


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A run on one rank that nothing interrupted, and the folder that has its data's cache."""
    folder = tmp_path_factory.mktemp("reference")
    run(folder, str(config(folder, ROUNDS, "mlp")), "--out", "whole", "--workers", "1")
    return folder, contents(folder / "whole")


@pytest.mark.parametrize("ranks", [2, 3])
def test_more_ranks_give_the_same_bits(reference: tuple[Path, dict[str, bytes]], ranks: int) -> None:
    folder, whole = reference
    run(folder, "small.toml", "--out", f"ranks-{ranks}", "--workers", str(ranks))
    assert contents(folder / f"ranks-{ranks}") == whole


def test_torchrun_gives_the_same_bits(reference: tuple[Path, dict[str, bytes]]) -> None:
    folder, whole = reference
    words = ["--standalone", "--nproc-per-node", "2", "-m", "fadewise", "run", "small.toml", "--out", "torchrun"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words],
        env=environment(folder),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert contents(folder / "torchrun") == whole
    assert json.loads((folder / "torchrun" / "environment.json").read_text())["ranks"] == 2


def test_several_seeds_are_several_runs_and_a_finished_run_is_left_alone(
    reference: tuple[Path, dict[str, bytes]],
) -> None:
    folder, whole = reference
    run(folder, "small.toml", "--seeds", "11-12", "--out", "seeds", "--set", "rounds=60", "--jobs", "2")
    assert contents(folder / "seeds" / "seed-11") == whole
    assert contents(folder / "seeds" / "seed-12")["rounds.jsonl"] != whole["rounds.jsonl"]
    before = (folder / "seeds" / "seed-11" / "timing.jsonl").read_bytes()
    said = run(folder, "small.toml", "--seeds", "11-12", "--out", "seeds")
    assert "seed 11: all 60 rounds are there" in said
    assert contents(folder / "seeds" / "seed-11") == whole
    assert (folder / "seeds" / "seed-11" / "timing.jsonl").read_bytes() == before


def test_a_run_can_be_continued_with_more_rounds_but_not_with_fewer(reference: tuple[Path, dict[str, bytes]]) -> None:
    folder, whole = reference
    run(folder, "small.toml", "--set", "rounds=14", "--out", "longer", "--workers", "1")
    said = run(folder, "small.toml", "--out", "longer", "--workers", "1")
    assert "going on with round 14" in said
    assert contents(folder / "longer") == whole
    said = run(folder, "small.toml", "--set", "rounds=14", "--out", "longer", code=2)
    assert "longer holds 60 rounds already; rounds is 14, it must be at least 60" in said
    assert (folder / "longer" / "rounds.jsonl").read_bytes() == whole["rounds.jsonl"]


def test_a_folder_of_another_configuration_is_refused_and_left_alone(
    reference: tuple[Path, dict[str, bytes]],
) -> None:
    folder, whole = reference
    for change, sentence in [
        ("policy.airtime_weight=10", "policy.airtime_weight is 100.0 there and 10.0 here"),
        ("seed=12", "seed is 11 there and 12 here"),
        ("model.hidden=65", "model.hidden is 64 there and 65 here"),
        ("data.seed=1", "data.seed is 0 there and 1 here"),
    ]:
        said = run(folder, "small.toml", "--set", change, "--out", "whole", code=2)
        assert f"whole holds a run with another configuration: {sentence}; use another --out" in said
    assert contents(folder / "whole") == whole


def test_the_folders_own_configuration_makes_the_run_again(reference: tuple[Path, dict[str, bytes]]) -> None:
    folder, whole = reference
    run(folder, "whole/config.toml", "--out", "again", "--workers", "2")
    assert contents(folder / "again") == whole


def test_a_broken_checkpoint_falls_back_to_the_one_before(reference: tuple[Path, dict[str, bytes]]) -> None:
    folder, whole = reference
    out = folder / "broken"
    run(folder, "small.toml", "--set", "rounds=21", "--out", "broken", "--workers", "1")
    run(folder, "small.toml", "--set", "rounds=42", "--out", "broken", "--workers", "1")
    checkpoint = out / "checkpoint.npz"
    content = bytearray(checkpoint.read_bytes())
    content[len(content) // 2] ^= 0x55
    checkpoint.write_bytes(content)
    said = run(folder, "small.toml", "--out", "broken", "--workers", "1")
    assert "checkpoint.npz is not usable" in said
    assert "falling back" in said
    assert "going on with round" in said
    assert contents(out) == whole
    for path in (checkpoint, out / "checkpoint-previous.npz"):
        path.write_bytes(path.read_bytes()[:-100])
    said = run(folder, "small.toml", "--out", "broken", "--workers", "1")
    assert "no checkpoint in broken can be read; beginning with round 0" in said
    assert contents(out) == whole


def test_a_folder_in_use_is_refused(reference: tuple[Path, dict[str, bytes]]) -> None:
    folder, _ = reference
    first = started(folder, "small.toml", "--set", "rounds=100000", "--out", "busy", "--workers", "1")
    try:
        wait_for(folder / "busy" / "checkpoint.npz")
        said = run(folder, "small.toml", "--set", "rounds=100000", "--out", "busy", "--workers", "1", code=2)
        assert "busy is being written by another process" in said
    finally:
        first.kill()
        first.communicate()


def test_ctrl_c_stops_all_and_says_so(reference: tuple[Path, dict[str, bytes]]) -> None:
    folder, _ = reference
    process = started(folder, "small.toml", "--set", "rounds=100000", "--out", "stopped", "--workers", "2")
    wait_for(folder / "stopped" / "checkpoint.npz")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert "stopped" in said


def test_a_killed_rank_is_told_and_the_run_goes_on(reference: tuple[Path, dict[str, bytes]]) -> None:
    folder, _ = reference
    process = started(folder, "small.toml", "--set", "rounds=100000", "--out", "lost", "--workers", "2")
    wait_for(folder / "lost" / "checkpoint.npz")
    os.kill(children(process.pid)[-1], signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "a process of this run was ended by SIGKILL" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_killed_at_twenty_instants_it_ends_with_the_same_bits(tmp_path: Path) -> None:
    """kill -9 at random instants and while the checkpoint is being written, of the command or of one rank."""
    rounds = 2500
    path = str(config(tmp_path, rounds))
    run(tmp_path, path, "--out", "whole", "--workers", "1")
    chance = random.Random(0)
    kills = 0
    out = tmp_path / "killed"
    fresh = [out / "checkpoint-fresh.npz", out / "checkpoint-fresh.npz.fresh"]
    while kills < 20:
        process = started(tmp_path, path, "--out", "killed", "--workers", str(1 + kills % 3))
        if kills % 4 == 3:
            # While a checkpoint is written: as soon as its temporary file is there.
            give_up_at = time.monotonic() + 10
            while process.poll() is None and time.monotonic() < give_up_at:
                if any(file.exists() for file in fresh) or any(out.glob("checkpoint-fresh*")):
                    break
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(1.0, 5.0))
        victims = [process.pid, *children(process.pid)]
        if process.poll() is None:
            os.kill(victims[0] if kills % 2 else victims[-1], signal.SIGKILL)
            kills += 1
        process.communicate(timeout=60)
        if (out / "summary.json").exists():  # too quick for 20 kills: once more from the start, in its place
            assert contents(out) == contents(tmp_path / "whole")
            for file in out.iterdir():
                file.unlink()
    run(tmp_path, path, "--out", "killed", "--workers", "2")
    assert contents(out) == contents(tmp_path / "whole")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 800 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=800k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no right to mount a small disk here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path, small_disk: Path) -> None:
    path = str(config(tmp_path, 12))
    run(tmp_path, path, "--out", "whole", "--workers", "1")
    out = small_disk / "run"
    run(tmp_path, path, "--set", "rounds=7", "--out", str(out), "--workers", "1")
    with (small_disk / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(b"x" * 1024)
    said = run(tmp_path, path, "--out", str(out), "--workers", "1", code=2)
    assert "is full; the last checkpoint is kept: make room, and the same command goes on" in said
    (small_disk / "ballast").unlink()
    said = run(tmp_path, path, "--out", str(out), "--workers", "1")
    assert contents(out) == contents(tmp_path / "whole")


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(word) for word in text.split()]
    return []


def wait_for(path: Path) -> None:
    """Until a file is there."""
    give_up_at = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < give_up_at, f"{path} has not come"
        time.sleep(0.05)
