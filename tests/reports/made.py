"""Run folders with known numbers, as `fadewise run` leaves them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from fadewise import config
from fadewise.manifest import manifest

EVERY = 5
"""Rounds between evaluations."""


def run(
    path: Path,
    accuracies: Sequence[float],
    *,
    airtime_s: float = 1.0,
    seed: int = 0,
    preset: str = "handwriting/het",
    changes: Mapping[str, Any] | None = None,
) -> Path:
    """A run in which every round takes this airtime, twice that energy and 0.1 s on the wall.

    Device 0 (of the first group) sends every tenth round at power 10, device 99 (of the last) the others at power 2.
    """
    settings = manifest(config.load(preset, {**(changes or {}), "seed": seed, "training.evaluate_every": EVERY}))
    path.mkdir(parents=True)
    (path / "config.toml").write_text(tomli_w.dumps(settings))
    (path / "environment.json").write_text('{"ranks": 2}')
    rounds = range(len(accuracies) * EVERY)
    with (path / "rounds.jsonl").open("w") as file:
        for number in rounds:
            evaluated = (number + 1) % EVERY == 0
            accuracy = accuracies[number // EVERY] if evaluated else None
            far = number % 10 == 0
            record = {
                "round": number, "participants": [0 if far else 99], "inclusion": [0.1], "weights": [0.1],
                "power": [10.0 if far else 2.0], "losses": [1.0], "update_norms": [1.0],
                "effective_sample_size": 1.0, "fallback": False, "excluded_share": 0.0,
                "airtime_s": airtime_s, "total_airtime_s": airtime_s * (number + 1),
                "round_time_s": airtime_s, "total_round_time_s": airtime_s * (number + 1),
                "energy": 2 * airtime_s, "total_energy": 2 * airtime_s * (number + 1),
                "mean_power": 1.5, "accuracy": accuracy, "loss": None if accuracy is None else 1 - accuracy,
            }  # fmt: skip
            file.write(json.dumps(record) + "\n")
    (path / "timing.jsonl").write_text("".join(f'{{"round": {n}, "wall_s": 0.1, "cpu_s": 0.05}}\n' for n in rounds))
    return path
