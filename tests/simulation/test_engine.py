from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fadewise as fw
from fadewise.data import Arrays
from fadewise.data.held import Held
from fadewise.learning.local import Learner
from fadewise.learning.models import CNN, MLP, Logistic
from fadewise.learning.training import Training
from fadewise.randomness import Stream
from fadewise.simulation import Observer, observers
from fadewise.simulation.engine import Simulation
from fadewise.simulation.ranks import Ranks
from fadewise.simulation.records import Record, parsed
from tests.learning.federations import arrays

DEVICES = 12
LINK = fw.Link(22e6, 1e6)


def experiment(rounds: int = 20, seed: int = 3, **settings: Any) -> fw.Experiment:
    policy = settings.pop("policy", None) or fw.Lyapunov(LINK, DEVICES, airtime_weight=100.0)
    parts = {name: settings.pop(name) for name in ("sampling", "access", "channel") if name in settings}
    training = Training(**{"data": arrays(), "model": Logistic(), "evaluate_every": 5, **settings})
    return fw.Experiment(
        DEVICES, parts.pop("channel", fw.Rayleigh(2.0)), policy, rounds=rounds, seed=seed, training=training, **parts
    )


def test_a_round_is_algorithm_1_written_out() -> None:
    e = experiment(rounds=8, server_step_size=0.7, sampling=fw.Poisson(fallback="published"))
    simulation = Simulation(e, Ranks())
    assert e.training is not None
    federation = e.training.data.federation(DEVICES, 3)
    learner = Learner(e.training, federation, 3)
    model = simulation.memory.model
    assert model.tobytes() == learner.initial_model().tobytes()
    for played in fw.play_all(e):
        expected = np.zeros(len(model))
        assert played.draw.inclusion is not None
        for device, pi in zip(played.draw.devices.tolist(), played.draw.inclusion, strict=True):
            expected += learner.train(model, device, Stream(3, played.number)).update / (DEVICES * float(pi))
        record = simulation.step()
        assert record.participants == played.draw.devices.tolist()
        np.testing.assert_allclose(simulation.memory.model, model + 0.7 * expected, rtol=1e-6, atol=1e-9)
        model = simulation.memory.model


def test_records_say_what_happened() -> None:
    e = experiment(rounds=12, access=fw.FDMA(overhead_s=0.1))
    records = list(fw.simulate(e))
    assert [record.round for record in records] == list(range(12))
    assert [record.round for record in records if record.accuracy is not None] == [4, 9, 11]
    airtime = energy = 0.0
    for record, played in zip(records, fw.play_all(e), strict=True):
        draw = played.draw
        assert record.participants == draw.devices.tolist()
        assert draw.inclusion is not None
        assert record.inclusion == draw.inclusion.tolist()
        assert record.weights == pytest.approx((1 / (DEVICES * draw.inclusion)).tolist(), rel=1e-15)
        assert record.power == draw.power.tolist()
        assert len(record.losses) == len(record.update_norms) == len(draw.devices)
        assert all(0 < loss < 5 for loss in record.losses)
        assert all(norm > 0 for norm in record.update_norms)
        airtime += played.times.airtime_s
        energy += float((draw.power * played.times.upload_s).sum())
        assert (record.airtime_s, record.round_time_s) == played.times[:2]
        assert record.total_airtime_s == pytest.approx(airtime)
        assert record.total_energy == pytest.approx(energy)
        weights = np.array(record.weights)
        assert record.effective_sample_size == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
        assert parsed(record.line()) == record


def test_training_learns_what_is_to_be_learnt() -> None:
    records = list(fw.simulate(experiment(rounds=60, model=MLP(32), step_size=0.05)))
    assert records[-1].accuracy is not None
    assert records[-1].accuracy > 0.9 > 0.5 > 1 / 4


def test_biased_draws_are_averaged_plainly_and_say_so() -> None:
    records = list(fw.simulate(experiment(rounds=3, sampling=fw.TopK(participants=4))))
    for record in records:
        assert record.inclusion is None
        assert record.weights == [0.25] * 4
        assert record.effective_sample_size == 4


def test_a_round_in_which_nobody_is_reached_leaves_the_model_as_it_is() -> None:
    off = fw.Switched(fw.Rayleigh(2.0), mean_rounds_on=1.0, mean_rounds_off=1e6)
    simulation = Simulation(experiment(rounds=6, channel=off), Ranks())
    before = simulation.memory.model.copy()
    records = list(simulation.rounds())
    assert not any(record.participants for record in records[1:])
    assert records[-1].effective_sample_size == 0
    if not records[0].participants:
        assert simulation.memory.model.tobytes() == before.tobytes()


def test_policies_are_told_losses_and_update_norms() -> None:
    told: list[fw.Feedback] = []

    @dataclasses.dataclass(frozen=True, eq=False)
    class Curious(fw.Lyapunov):
        def observe(self, state: Any, feedback: fw.Feedback) -> Any:
            told.append(feedback)
            return super().observe(state, feedback)

    records = list(fw.simulate(experiment(rounds=5, policy=Curious(LINK, DEVICES, airtime_weight=100.0))))
    assert len(told) == 5
    for feedback, record in zip(told, records, strict=True):
        assert feedback.losses is not None
        assert feedback.update_norms is not None
        assert feedback.losses.tolist() == record.losses
        assert feedback.update_norms.tolist() == record.update_norms


def test_runs_under_one_seed_share_channels_data_and_the_initial_model() -> None:
    one = Simulation(experiment(), Ranks())
    other = Simulation(experiment(policy=fw.Uniform(LINK, DEVICES, participants=3.0)), Ranks())
    assert one.memory.model.tobytes() == other.memory.model.tobytes()
    assert one.memory.model.tobytes() != Simulation(experiment(seed=4, model=MLP()), Ranks()).memory.model.tobytes()


@pytest.mark.parametrize("step_size", [1e30, 1e4])
def test_divergence_is_told_with_the_device_and_the_last_model_stays(step_size: float) -> None:
    simulation = Simulation(experiment(rounds=500, step_size=step_size, model=CNN(4, 4, 3, 8)), Ranks())
    with pytest.raises(fw.FadewiseError, match=r"training has diverged in round \d+: .*smaller training\.step_size"):
        list(simulation.rounds())
    assert np.isfinite(simulation.memory.model).all()


@pytest.mark.parametrize("server_step_size", [1e42, 1e308])
def test_a_model_beyond_float32_is_told_and_the_last_one_stays(server_step_size: float) -> None:
    simulation = Simulation(experiment(server_step_size=server_step_size, step_size=10.0), Ranks())
    with pytest.raises(
        fw.FadewiseError, match=r"training has diverged in round \d+: .*smaller training\.server_step_size"
    ):
        list(simulation.rounds())
    assert np.isfinite(simulation.memory.model).all()


def test_devices_without_samples_are_refused() -> None:
    @dataclasses.dataclass(frozen=True, eq=False)
    class Empty(Arrays):
        def federation(self, devices: int, seed: int) -> Held:
            held = super().federation(devices, seed)
            held._starts[3:] = held._starts[2]
            return held

    data = Empty(**{field.name: getattr(arrays(), field.name) for field in dataclasses.fields(arrays())})
    with pytest.raises(fw.FadewiseError, match="device 2 has no training samples; every device must have at least one"):
        next(fw.simulate(experiment(data=data)))


def test_wrong_experiments_are_refused() -> None:
    bare = dataclasses.replace(experiment(), training=None)
    with pytest.raises(fw.FadewiseError, match="nothing to train"):
        next(fw.simulate(bare))
    with pytest.raises(fw.FadewiseError, match="owners"):
        next(
            fw.simulate(
                fw.Experiment(
                    99, fw.Rayleigh(1.0), fw.Uniform(LINK, 99, participants=2), training=Training(arrays(), Logistic())
                )
            )
        )


def test_own_model_data_and_observers_in_a_few_lines() -> None:
    class Accuracies:
        def __init__(self) -> None:
            self.seen: list[float] = []
            self.closed = False

        def on_round(self, record: Record) -> None:
            if record.accuracy is not None:
                self.seen.append(record.accuracy)

        def close(self) -> None:
            self.closed = True

    watching = Accuracies()
    own = experiment(rounds=10, model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 4)))
    threads = torch.get_num_threads()
    assert len(list(fw.simulate(own, [watching]))) == 10
    assert len(watching.seen) == 2
    assert watching.closed
    assert torch.get_num_threads() == threads


def test_observers_write_what_others_can_read(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = tmp_path / "log"
    watching: list[Observer] = [
        observers.JSONL(tmp_path / "rounds.jsonl"),
        observers.TensorBoard(log),
        observers.ProgressBar(10),
    ]
    records = list(fw.simulate(experiment(rounds=10), watching))
    lines = (tmp_path / "rounds.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in lines] == list(range(10))
    assert [parsed(line) for line in lines] == records
    events = EventAccumulator(str(log))
    events.Reload()
    accuracy = [(event.step, event.value) for event in events.Scalars("accuracy")]
    assert [step for step, _ in accuracy] == [4, 9]
    assert accuracy[-1][1] == pytest.approx(records[-1].accuracy)
    assert len(events.Scalars("airtime_s")) == 10
    assert math.isclose(events.Scalars("airtime_s")[-1].value, records[-1].total_airtime_s, rel_tol=1e-6)


@pytest.mark.parametrize(("name", "observer"), [("mlflow", observers.MLflow), ("wandb", observers.WandB)])
def test_thin_observers_log_the_metrics_and_say_what_they_need(
    name: str, observer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys
    import types

    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(fw.FadewiseError, match=f"needs {name}: pip install {name}"):
        observer()
    logged: list[tuple[dict[str, float], int]] = []
    stub = types.ModuleType(name)
    stub.log_metrics = stub.log = lambda metrics, step: logged.append((metrics, step))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, stub)
    records = list(fw.simulate(experiment(rounds=5), [observer()]))
    assert [step for _, step in logged] == list(range(5))
    assert logged[-1][0]["accuracy"] == records[-1].accuracy
    assert "accuracy" not in logged[0][0]
