"""The paper's presets: the model that is sent is the one that is trained, and they run on the data that they name."""

from __future__ import annotations

from pathlib import Path

import pytest

import fadewise as fw
from fadewise import config
from fadewise.learning.models import CNN
from fadewise.simulation.engine import Simulation
from fadewise.simulation.ranks import Ranks

DATA = Path(__file__).parents[3] / "shared" / "data"
SHAPES = {"cifar10": ((32, 32, 3), 10), "femnist": ((28, 28, 1), 62), "mnist-by-writer": ((28, 28, 1), 10)}


@pytest.mark.parametrize("name", [name for name in config.preset_names() if name.startswith("paper/")])
def test_the_payload_is_the_model(name: str) -> None:
    experiment = fw.load(name)
    shape, classes = next(value for data, value in SHAPES.items() if name.startswith(f"paper/{data}-"))
    parameters = sum(p.numel() for p in CNN().build(shape, classes).parameters())
    assert experiment.policy.link.payload_bits == 32 * parameters


def test_the_preset_of_femnist_trains_on_its_fragment() -> None:
    path = DATA / "leaf-femnist-28-writers"
    if not path.exists():
        pytest.skip("the fragment of FEMNIST is not beside the checkout")
    changes = {
        "devices": 28,
        "channel.inner.mean_gain": 2.0,
        "policy.airtime_weight": 1000.0,
        "data": {"kind": "leaf", "path": str(path), "classes": 62},
        "rounds": 2,
        "training.evaluate_every": 2,
    }
    simulation = Simulation(fw.load("paper/femnist-het", changes), Ranks())
    assert simulation.learner.parameters == 444_062
    *_, last = simulation.rounds()
    assert last.accuracy is not None
