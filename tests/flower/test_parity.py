"""A federation of processes decides what the simulator decides, to the bit, and learns what it learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fadewise as fw
from fadewise.simulation.engine import Simulation
from fadewise.simulation.ranks import join
from tests.flower.federation import EXPERIMENT, Federation
from tests.flower.replay import agents_of

pytestmark = pytest.mark.slow

ROUNDS = 20

LEARNING = """
[data]
kind = "handwriting"
samples_per_writer = 20

[model]
kind = "logistic"

[training]
steps = 2
batch_size = 8
step_size = 0.05
evaluate_every = 1000
"""


def test_twenty_rounds_are_the_simulators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FADEWISE_CACHE", str(tmp_path / "cache"))
    with Federation(tmp_path, EXPERIMENT + LEARNING) as federation:
        federation.superlink()
        federation.devices("devices", "0-5")
        federation.run(rounds=ROUNDS, nodes=6)
        records = federation.until_round(ROUNDS)
        experiment = fw.load(str(federation.experiment))
    simulation = Simulation(experiment, join())
    simulated = list(simulation.rounds())
    assert len(simulated) == len(records) == ROUNDS
    for ours, theirs in zip(records, simulated, strict=True):
        assert ours["participants"] == ours["delivered"] == theirs.participants
        assert ours["inclusion"] == theirs.inclusion
        assert ours["weights"] == theirs.weights
        assert ours["power"] == theirs.power
        assert ours["fallback"] == theirs.fallback
        assert ours["airtime_s"] == theirs.airtime_s
        assert ours["mean_power"] == pytest.approx(theirs.mean_power, rel=1e-12)
        # What training told depends on the model, which is one of float32.
        assert ours["update_norms"] == pytest.approx(theirs.update_norms, rel=1e-4)
        assert ours["losses"] == pytest.approx(theirs.losses, rel=1e-4)
    assert any(record["fallback"] for record in records), "a round in which nobody volunteers is among them"

    with np.load(federation.books / "checkpoint.npz") as arrays:
        model = arrays["memory.model"]
    scale = float(np.abs(simulation.memory.model).max())
    assert scale > 0.01
    np.testing.assert_allclose(model, simulation.memory.model, rtol=0, atol=1e-5 * scale)

    # q, P and the backlog of all devices, those that stayed out included: on their disks are the simulator's.
    states = fw.begin(experiment)
    for number in range(ROUNDS):
        played, states = fw.play(experiment, states, number)
    for agent in agents_of(experiment, federation.state):
        last = agent.decide(ROUNDS - 1)
        assert last.probability == played.decision.probability[agent.device]
        assert last.power == played.decision.power[agent.device]
        assert agent.state.backlog[0] == states.policy.backlog[agent.device]
