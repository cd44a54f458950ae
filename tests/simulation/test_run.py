from __future__ import annotations

import contextlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fadewise import config as settings
from fadewise.errors import FadewiseError
from fadewise.learning.native import library
from fadewise.reports import runs
from fadewise.simulation import command
from tests.simulation.runs import config, contents, environment, run, started
from tests.test_cli import ran

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


@pytest.mark.parametrize("backend", ["native", "pytorch"])
def test_the_cnn_gives_the_same_bits_on_either_backend(tmp_path: Path, backend: str) -> None:
    if backend == "native" and not library.targets():
        pytest.skip("this installation has no native kernel")
    path = config(tmp_path, rounds=5, model="cnn")
    words = [path.name, "--set", f"training.backend={backend}", "--out"]
    said = run(tmp_path, *words, "ranks-1", "--workers", "1")
    assert f"computing with {'the native kernel' if backend == 'native' else 'PyTorch'}" in said
    environment = json.loads((tmp_path / "ranks-1" / "environment.json").read_text())
    assert environment["backend"].startswith(backend)
    whole = contents(tmp_path / "ranks-1")
    for ranks in (2, 3):
        run(tmp_path, *words, f"ranks-{ranks}", "--workers", str(ranks))
        assert contents(tmp_path / f"ranks-{ranks}") == whole


def test_torchrun_gives_the_same_bits(reference: tuple[Path, dict[str, bytes]]) -> None:
    folder, whole = reference
    words = ["--standalone", "--nproc-per-node", "2", "-m", "fadewise", "run", "small.toml", "--out", "torchrun"]
    done = torchrun(folder, *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("round 7 of 60") == 1, "one rank shows how it goes"
    assert contents(folder / "torchrun") == whole
    assert json.loads((folder / "torchrun" / "environment.json").read_text())["ranks"] == 2
    done = torchrun(folder, *words, "--set", "seed=12")
    assert done.returncode != 0
    assert done.stderr.count("fadewise: ") == 1, "the rank that misses another has nothing to say"
    assert "seed is 11 there and 12 here" in done.stderr


def test_torchrun_makes_a_run_on_each_process(reference: tuple[Path, dict[str, bytes]]) -> None:
    folder, whole = reference
    words = ["--standalone", "--nproc-per-node", "2", "-m", "fadewise", "run", "small.toml", "--out", "many"]
    words += ["--seeds", "10-12"]
    done = torchrun(folder, *words)
    assert done.returncode == 0, done.stderr
    assert contents(folder / "many" / "seed-11") == whole
    assert json.loads((folder / "many" / "seed-11" / "environment.json").read_text())["ranks"] == 1
    assert [done.stdout.count(f"many/seed-{seed} ") for seed in (10, 11, 12)] == [1, 1, 1]
    # One that cannot be made does not stop the others.
    done = torchrun(folder, *words, "--set", "rounds=20", "--set", "seed=10")
    assert "seed is given more than once" in done.stderr
    (folder / "many" / "seed-10" / "config.toml").write_text("[")
    for name in ("rounds.jsonl", "summary.json", "checkpoint.npz", "checkpoint-previous.npz"):
        (folder / "many" / "seed-12" / name).unlink(missing_ok=True)
    done = torchrun(folder, *words)
    assert done.returncode != 0
    assert done.stderr.count("many/seed-10/config.toml cannot be read") == 1
    assert (folder / "many" / "seed-12" / "summary.json").exists()


def test_what_torchrun_decides_is_not_for_options(reference: tuple[Path, dict[str, bytes]]) -> None:
    folder, _ = reference
    words = ["--standalone", "--nproc-per-node", "1", "-m", "fadewise", "run", "small.toml", "--seeds", "1-2"]
    for option, sentence in [
        ("--workers=2", "under torchrun --workers must be auto"),
        ("--jobs=2", "under torchrun --jobs is 2; it must be 1"),
    ]:
        done = torchrun(folder, *words, option)
        assert done.returncode != 0
        assert f"fadewise: {sentence}" in done.stderr


def test_the_processor_time_of_every_round_is_kept(reference: tuple[Path, dict[str, bytes]]) -> None:
    folder, _ = reference
    run(folder, "small.toml", "--out", "timed", "--set", "rounds=20", "--workers", "1")
    lines = [json.loads(line) for line in (folder / "timed" / "timing.jsonl").read_text().splitlines()]
    assert len(lines) == 20
    assert all(line["cpu_s"] > 0 for line in lines)
    assert math.isfinite(runs.read(folder / "timed").core_s)


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
    assert contents(folder / "longer") == whole


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
        assert f"whole holds a run with another configuration: {sentence}; use another folder" in said
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
    said = run(folder, "small.toml", "--set", "rounds=21", "--out", "broken", "--workers", "1", code=2)
    assert f"broken holds {ROUNDS} rounds already; rounds is 21, it must be at least {ROUNDS}" in said
    said = run(folder, "small.toml", "--out", "broken", "--workers", "1")
    assert "no checkpoint in broken can be read; beginning with round 0" in said
    assert contents(out) == whole


def test_what_cannot_begin_leaves_the_folder_free(reference: tuple[Path, dict[str, bytes]]) -> None:
    folder, whole = reference
    said = run(folder, "small.toml", "--set", 'data={kind="leaf"}', "--out", "free", code=2)
    assert "the data set femnist was not found as leaf" in said
    run(folder, "small.toml", "--out", "free", "--workers", "1")
    assert contents(folder / "free") == whole


def test_a_process_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    source = str(config(tmp_path, 3))
    jobs = [command.job(source, settings.read(source), tmp_path / f"out-{n}", f"seed {n}") for n in range(3)]
    said = "a process of this run has ended with code 1: it says nothing"
    with pytest.raises(FadewiseError, match=f"^{said}"):
        command.make(jobs[:1])
    with pytest.raises(FadewiseError, match=f"^seed 0 and 2 more runs: {said}$"):
        command.make(jobs)


def test_what_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    source = str(config(tmp_path, 3))
    job = command.job(source, settings.read(source), tmp_path / "out", "seed 11")
    with pytest.raises(FadewiseError, match="process 1 of 2 of a run cannot be started: No such file or directory"):
        command.make([job], 2)


def test_files_in_the_users_folder_and_what_libraries_print_do_no_harm(tmp_path: Path) -> None:
    config(tmp_path, 3)
    for name in ("queue.py", "random.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit('not the one that was asked for')\n")
    start_up = tmp_path / "site" / "sitecustomize.py"
    start_up.parent.mkdir()
    start_up.write_text(
        "import atexit, os\nos.write(1, b'printed at the start\\n')\natexit.register(os.write, 1, b'{}\\n')\n"
    )
    words = ("run", "small.toml", "--out", "out", "--workers", "2")
    result = ran(*words, cwd=tmp_path, env=environment(tmp_path) | {"PYTHONPATH": str(start_up.parent)})
    assert result.returncode == 0, result.stderr
    assert len((tmp_path / "out" / "rounds.jsonl").read_text().splitlines()) == 3


STEP_BY_STEP = """
import os, signal, sys, zipfile
from pathlib import Path
from fadewise import config
from fadewise.simulation import run as runs
from fadewise.simulation.progress import Hearer
from fadewise.simulation.ranks import Ranks

source, out, whole = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
experiment = config.load(source)
runs._BETWEEN_CHECKPOINTS_S, runs._CHECKPOINTS_SHARE = 0.0, float("inf")  # one after each round
steps_left = float("inf")

def step():
    global steps_left
    steps_left -= 1
    if steps_left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

def before(function):
    def stepped(*arguments, **named):
        step()
        return function(*arguments, **named)
    return stepped

def on_event(event, arguments):
    if event in ("open", "os.rename", "os.truncate") and str(out) in str(arguments[0]):
        step()

def made(in_folder, steps):
    global steps_left
    child = os.fork()
    if not child:
        steps_left = steps
        runs.run(experiment, in_folder, Ranks(), Hearer(lambda progress: None, lambda sentence: None))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

assert made(whole, float("inf")) == 0
sys.addaudithook(on_event)
os.fsync, zipfile.ZipFile.open = before(os.fsync), before(zipfile.ZipFile.open)
kills = 0
while (code := made(out / str(kills), kills)) == -signal.SIGKILL:
    assert made(out / str(kills), float("inf")) == 0
    kills += 1
assert code == 0, code
print(kills)
"""


def test_killed_at_each_step_of_writing_it_ends_with_the_same_bits(tmp_path: Path) -> None:
    """kill -9 before each file that is opened, synced, cut or renamed, and before each array of a checkpoint."""
    path = config(tmp_path, 2)
    done = subprocess.run(
        [sys.executable, "-c", STEP_BY_STEP, str(path), str(tmp_path / "killed"), str(tmp_path / "whole")],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    kills = int(done.stdout)
    assert kills > 2 * 15, "two checkpoints of a dozen arrays"
    whole = contents(tmp_path / "whole")
    assert all(contents(tmp_path / "killed" / str(number)) == whole for number in range(kills))


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
    while kills < 20:
        process = started(tmp_path, path, "--out", "killed", "--workers", str(1 + kills % 3))
        if kills % 4 == 3:
            # While a checkpoint is written: as soon as its temporary file is there.
            for left in out.glob("checkpoint-fresh*"):
                left.unlink()
            give_up_at = time.monotonic() + 10
            while process.poll() is None and time.monotonic() < give_up_at:
                if any(out.glob("checkpoint-fresh*")):
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


@pytest.mark.parametrize("room", [0, 65536], ids=["for nothing", "for lines, not for a checkpoint"])
def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path, small_disk: Path, room: int) -> None:
    path = str(config(tmp_path, 12))
    run(tmp_path, path, "--out", "whole", "--workers", "1")
    out = small_disk / "run"
    run(tmp_path, path, "--set", "rounds=7", "--out", str(out), "--workers", "1")
    before = (out / "checkpoint.npz").read_bytes()
    with (small_disk / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(b"x" * 1024)
    if room:
        os.truncate(small_disk / "ballast", (small_disk / "ballast").stat().st_size - room)
    said = run(tmp_path, path, "--out", str(out), "--workers", "1", code=2)
    assert "is full; the last checkpoint is kept: make room, and the same command goes on" in said
    assert (out / "checkpoint.npz").read_bytes() == before
    (small_disk / "ballast").unlink()
    run(tmp_path, path, "--out", str(out), "--workers", "1")
    assert contents(out) == contents(tmp_path / "whole")


def torchrun(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`torchrun` with these words, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words],
        env=environment(folder),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


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
