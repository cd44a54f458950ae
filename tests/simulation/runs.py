"""Runs as a person makes them: the command in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CONFIG = """
devices = 8
rounds = {rounds}
seed = 11

[link]
bandwidth_hz = 22e6
payload_bits = 1e6

[channel]
kind = "rayleigh"
mean_gain = 2.0

[policy]
kind = "lyapunov"
airtime_weight = 100.0

[data]
kind = "handwriting"
samples_per_writer = 20

[model]
kind = "{model}"

[training]
steps = 2
batch_size = 8
step_size = 0.05
evaluate_every = 7
"""

COMPARED = ("rounds.jsonl", "summary.json", "config.toml")
"""Files of a run that must be the same, byte for byte, however it was made."""


def config(folder: Path, rounds: int, model: str = "logistic") -> Path:
    """A configuration file."""
    path = folder / "small.toml"
    path.write_text(CONFIG.format(rounds=rounds, model=model))
    return path


def environment(folder: Path) -> dict[str, str]:
    """With a cache of the test's own, and threads for one core."""
    return os.environ | {"FADEWISE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    """`fadewise run` with these words, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "fadewise", "run", *words],
        env=environment(folder),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, *words: str, code: int = 0) -> str:
    """The same to its end; what it said on the error stream."""
    process = started(folder, *words)
    _, said = process.communicate(timeout=300)
    assert process.returncode == code, said
    assert "Traceback" not in said
    return said


def contents(out: Path) -> dict[str, bytes]:
    """What must not differ between two makings of a run: records, summary, settings and the model."""
    import numpy as np

    with np.load(out / "checkpoint.npz") as arrays:
        model = arrays["memory.model"].tobytes()
        others = {name: arrays[name].tobytes() for name in arrays.files if name.startswith("memory.")}
    return {name: (out / name).read_bytes() for name in COMPARED} | others | {"model": model}
