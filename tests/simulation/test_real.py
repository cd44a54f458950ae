"""Training on the real CIFAR-10, where it is present."""

from __future__ import annotations

from pathlib import Path

import pytest

import fadewise as fw
from fadewise.simulation.engine import Simulation
from fadewise.simulation.ranks import Ranks

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not (DATA / "cifar-10-batches-bin").exists(), reason="CIFAR-10 is not beside the checkout"
)


def test_the_papers_network_learns_cifar10(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FADEWISE_DATA", str(DATA))
    changes = {"rounds": 16, "training.evaluate_every": 16, "training.step_size": 0.03}
    simulation = Simulation(fw.load("paper/cifar10-het", changes), Ranks())
    assert simulation.learner.parameters == 555_178
    assert simulation.federation.sizes.tolist() == [500] * 100
    assert simulation.federation.mean == pytest.approx([125.3, 123.0, 113.9], abs=0.1)
    assert simulation.federation.deviation == pytest.approx([63.0, 62.1, 66.7], abs=0.1)
    records = list(simulation.rounds())
    assert records[-1].accuracy is not None
    assert records[-1].accuracy > 0.25, "chance is 0.1, and ten thousand samples err by 0.005"
    assert records[-1].total_airtime_s == pytest.approx(16 * 0.4, rel=0.5)
