"""What every policy that ships must keep to. A new one is tested by being exported."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import fadewise as fw
from fadewise.policies import POLICIES
from fadewise.randomness import Stream
from fadewise.sampling import Sampling, drawn
from fadewise.state import NoState

DEVICES = 57  # no multiple of a SIMD register's or a random block's width

EXAMPLES: dict[str, dict[str, Any]] = {
    "lyapunov": {"airtime_weight": 30.0},
    "uniform": {"participants": 4.3},
    "uniform-poisson": {"participants": 4.3},
}
"""Settings for policies that cannot do without; a new policy whose fields have defaults needs no line here."""


def link(devices: int = DEVICES) -> fw.Link:
    return fw.Link(
        22e6, 32 * 555_178, peak_power=np.linspace(20, 100, devices), mean_power=np.linspace(0.5, 2, devices)
    )


def make(kind: str, of: fw.Link | None = None, devices: int = DEVICES) -> Any:
    return POLICIES[kind](of or link(devices), devices, **EXAMPLES.get(kind, {}))  # type: ignore[call-arg]


def gains_of(round: int, devices: int = DEVICES) -> np.ndarray:
    """Gains of all magnitudes, some 0."""
    rng = np.random.default_rng(round)
    gains = rng.exponential(2, devices) * 10.0 ** rng.integers(-3, 4, devices)
    gains[rng.random(devices) < 0.1] = 0
    return gains


def played(policy: Any, rounds: int, seed: int = 0) -> list[tuple[Any, Any, Any]]:
    state, result = policy.init(DEVICES), []
    for t in range(rounds):
        decision, draw, state = policy.select(state, gains_of(t), Stream(seed, t), fw.Poisson())
        state = policy.observe(state, fw.Feedback(draw))
        result.append((decision, draw, state))
    return result


def included(draw: fw.Draw) -> np.ndarray:
    """π, or who was taken where the choice is biased."""
    if draw.population_inclusion is not None:
        return draw.population_inclusion
    return np.isin(np.arange(DEVICES), draw.devices).astype(float)


each_policy = pytest.mark.parametrize("kind", sorted(POLICIES))
each_local = pytest.mark.parametrize("kind", sorted(k for k, p in POLICIES.items() if issubclass(p, fw.LocalPolicy)))


@each_policy
def test_probability_and_power_are_within_their_limits(kind: str) -> None:
    check_limits(make(kind))


def check_limits(policy: Any) -> None:
    for t, (decision, draw, _) in enumerate(played(policy, 100)):
        reachable = gains_of(t) > 0
        q, power = decision.probability, decision.power
        # A policy that says that it is biased may leave devices out for good; all others may not.
        assert (q[reachable] > 0).all() or draw.population_inclusion is None
        assert ((q >= 0) & (q <= 1)).all()
        assert (q[~reachable] == 0).all()
        assert ((power >= 0) & (power <= link().peak_power)).all()
        assert reachable[draw.devices].all()
        assert (np.diff(draw.devices) > 0).all()


@each_policy
def test_inclusion_is_a_probability_and_the_weights_are_its_reciprocals(kind: str) -> None:
    for t, (_, draw, _) in enumerate(played(make(kind), 100)):
        if draw.inclusion is None:
            np.testing.assert_allclose(draw.weights.sum(), 1)
            continue
        pi = draw.population_inclusion
        assert ((pi >= 0) & (pi <= 1 + 1e-12)).all()
        assert (pi[gains_of(t) > 0] > 0).all()
        np.testing.assert_array_equal(draw.inclusion, pi[draw.devices])
        np.testing.assert_allclose(draw.weights, 1 / (DEVICES * draw.inclusion))


@each_policy
def test_same_seed_same_decisions(kind: str) -> None:
    for (a, draw_a, _), (b, draw_b, _) in zip(played(make(kind), 10), played(make(kind), 10), strict=True):
        assert a.probability.tobytes() == b.probability.tobytes()
        assert a.power.tobytes() == b.power.tobytes()
        assert draw_a.devices.tobytes() == draw_b.devices.tobytes()
    other = played(make(kind), 10, seed=1)
    # What a biased policy chooses by the gains alone is the same under any seed.
    assert any(x[1].population_inclusion is None for x in other) or any(
        x[1].devices.tobytes() != y[1].devices.tobytes() for x, y in zip(played(make(kind), 10), other, strict=True)
    )


@each_local
@pytest.mark.parametrize("devices", [DEVICES, 16_384 * 2 + 5])
def test_all_devices_at_once_decide_as_each_alone_bit_for_bit(kind: str, devices: int) -> None:
    together = make(kind, devices=devices)
    state = together.init(devices)
    watched = np.unique(np.concatenate([np.arange(DEVICES), np.arange(devices - 20, devices), [16_383 % devices]]))
    alone = {n: make(kind, link(devices).of_device(n), devices) for n in watched}
    states = {n: policy.init(1) for n, policy in alone.items()}
    for t in range(12):
        gains = gains_of(t, devices)
        decision, state = together.decide(state, gains)
        for n, policy in alone.items():
            one, states[n] = policy.decide(states[n], gains[n : n + 1])
            assert one.probability.tobytes() == decision.probability[n : n + 1].tobytes()
            assert one.power.tobytes() == decision.power[n : n + 1].tobytes()
            for mine, all_ in zip(states[n], state, strict=True):
                assert mine.tobytes() == all_[n : n + 1].tobytes()
            took_part = fw.Poisson.volunteers(one, Stream(9, t, first_device=int(n)))
            assert took_part == fw.Poisson.volunteers(decision, Stream(9, t))[n]


@each_policy
def test_inputs_are_left_as_they_were(kind: str) -> None:
    policy = make(kind)
    state, gains = policy.init(DEVICES), gains_of(0)
    before = [x.copy() for x in state], gains.copy()
    policy.select(state, gains, Stream(0, 0), fw.Poisson())
    np.testing.assert_array_equal(gains, before[1])
    for now, then in zip(state, before[0], strict=True):
        np.testing.assert_array_equal(now, then)


@each_policy
def test_state_survives_saving(kind: str, tmp_path: Path) -> None:
    policy = make(kind)
    _, _, state = played(policy, 7)[-1]
    fw.save_state(tmp_path / "state", state)
    loaded = fw.load_state(tmp_path / "state", policy.init(DEVICES))
    assert type(loaded) is type(state)
    assert [x.tobytes() for x in loaded] == [x.tobytes() for x in state]


@each_policy
def test_bad_gains_are_refused_by_device(kind: str) -> None:
    policy = make(kind)
    for value in (np.nan, -1.0, np.inf):
        gains = gains_of(0)
        gains[23] = value
        with pytest.raises(fw.FadewiseError, match="the channel gain of device 23 is"):
            policy.select(policy.init(DEVICES), gains, Stream(0, 0), fw.Poisson())


@pytest.mark.parametrize("kind", sorted(k for k, p in POLICIES.items() if p.keeps_mean_power))
def test_mean_power_is_kept_in_the_long_run(kind: str) -> None:
    experiment = fw.Experiment(
        DEVICES, fw.Switched(fw.Rayleigh(2.0), mean_rounds_on=30, mean_rounds_off=5), make(kind), rounds=6000
    )
    plan = fw.plan(experiment)
    assert plan.running_power[-1] < 1.05
    assert plan.settled_round is not None
    # In the first rounds more may be spent; over the second half no device may spend more than it has.
    ledger_rounds = list(fw.play_all(experiment))[3000:]
    spent = np.mean([r.decision.power * included(r.draw) for r in ledger_rounds], axis=0)
    assert (spent / link().mean_power).max() < 1.1


@each_policy
def test_it_runs_from_a_configuration(kind: str) -> None:
    from fadewise import config

    settings = config.read("paper/cifar10-het") | {"policy": {"kind": kind} | EXAMPLES.get(kind, {}), "rounds": 5}
    assert fw.plan(config.experiment(settings, "test")).mean_participants.value > 0


@dataclass(frozen=True, eq=False)
class Loudest(fw.CentralPolicy[NoState]):
    """The three best channels, always: biased, and it says so."""

    kind: ClassVar[str] = "loudest"
    keeps_mean_power: ClassVar[bool] = False
    link: fw.Link
    population: int

    def init(self, devices: int) -> NoState:
        return NoState()

    def select(
        self, state: NoState, gains: np.ndarray, stream: Stream, sampling: Sampling
    ) -> tuple[fw.Decision, fw.Draw, NoState]:
        best = np.sort(np.argsort(-gains, kind="stable")[:3])
        q = np.zeros(len(gains))
        q[best[gains[best] > 0]] = 1.0
        decision = fw.Decision(q, q * self.link.mean_power, self.shares)
        return decision, drawn(decision, np.flatnonzero(q), None), state


def test_a_biased_central_policy_can_conform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, "loudest", Loudest)
    check_limits(make("loudest"))
    test_inclusion_is_a_probability_and_the_weights_are_its_reciprocals("loudest")
    test_same_seed_same_decisions("loudest")
    test_inputs_are_left_as_they_were("loudest")
    plan = fw.plan(fw.Experiment(DEVICES, fw.Rayleigh(1.0), make("loudest"), rounds=30))
    assert plan.mean_participants.value == 3
    assert plan.as_dict()["variance_factor"] is None
