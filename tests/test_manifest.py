from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

import fadewise as fw
from fadewise import config
from fadewise.data import Arrays, Handwriting
from fadewise.learning.models import MLP
from fadewise.learning.training import Training
from fadewise.manifest import differences, manifest

PER_DEVICE: dict[str, Any] = {
    "devices": 6,
    "link": {
        "bandwidth_hz": 1.7e6,
        "payload_bits": 1e5,
        "peak_power_dbm": [{"devices": 2, "value": 20.0}, {"devices": 4, "value": 23.0}],
        "mean_power_w": [0.01, 0.02, 0.03, 0.03, 0.01, 0.01],
        "noise_density_dbm_hz": -173.9,
    },
    "channel": {"kind": "switched", "inner": {"kind": "rayleigh", "mean_gain": 1e-9}, "mean_rounds_on": 7.0},
    "policy": {"kind": "lyapunov", "airtime_weight": 3.0, "data_shares": [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]},
    "access": {"kind": "tdma", "compute_s": [0.1, 0.1, 0.2, 0.2, 0.2, 0.3]},
    "data": {"kind": "handwriting", "samples_per_writer": 30},
    "model": {"kind": "mlp", "hidden": 5},
    "training": {"step_size": 0.1},
}


def schedule(experiment: fw.Experiment) -> list[bytes]:
    return [
        played.draw.power.tobytes() + played.draw.weights.tobytes() + played.times.upload_s.tobytes()
        for played, _ in zip(fw.play_all(experiment), range(5), strict=False)
    ]


@pytest.mark.parametrize("source", [*config.preset_names(), "per device"])
def test_written_down_and_read_again_it_is_the_same_experiment(source: str) -> None:
    settings = PER_DEVICE if source == "per device" else config.read(source)
    experiment = config.experiment(settings, source)
    written = tomli_w.dumps(manifest(experiment))
    again = config.experiment(tomllib.loads(written), "config.toml")
    assert manifest(again) == tomllib.loads(written)
    assert schedule(again) == schedule(experiment)
    assert not list(differences(manifest(experiment), manifest(again)))


def test_defaults_are_written_down() -> None:
    experiment = config.experiment(PER_DEVICE, "x")
    written = manifest(experiment)
    assert written["seed"] == 0
    assert written["training"]["batch_size"] == 32
    assert written["sampling"] == {"kind": "poisson", "fallback": "corrected"}
    assert written["access"]["compute_s"] == [
        {"devices": 2, "value": 0.1},
        {"devices": 3, "value": 0.2},
        {"devices": 1, "value": 0.3},
    ]


def test_differences_are_named_by_their_keys() -> None:
    one = manifest(config.experiment(PER_DEVICE, "x"))
    other = manifest(
        config.experiment(config.with_settings(PER_DEVICE, {"policy.airtime_weight": 4.0, "rounds": 7}), "x")
    )
    assert sorted(differences(one, other)) == [("policy.airtime_weight", 3.0, 4.0), ("rounds", 1000, 7)]
    without = {key: value for key, value in one.items() if key != "data"}
    assert [(key, ours) for key, ours, _ in differences(without, one)] == [("data", None)]


@pytest.mark.parametrize(
    ("training", "sentence"),
    [
        (Training(Handwriting(), lambda: None), "the model is a function"),
        (
            Training(Arrays(np.zeros((9, 4, 4), np.uint8), np.zeros(9, np.int64)), MLP()),
            "a configuration file cannot hold",
        ),
    ],
)
def test_what_a_file_cannot_hold_is_refused(training: Training, sentence: str) -> None:
    policy = fw.Uniform(fw.Link(1e6, 1e5), 3, participants=2.0)
    with pytest.raises(fw.FadewiseError, match=sentence):
        manifest(fw.Experiment(3, fw.Rayleigh(1.0), policy, training=training))


def test_the_manifest_needs_nothing_but_the_base() -> None:
    text = Path(manifest.__code__.co_filename).read_text()
    assert "torch" not in text
    assert "tomli_w" not in text
