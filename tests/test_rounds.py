"""The loop: replayable, resumable, and the same channels under every policy."""

from pathlib import Path

import numpy as np
import pytest

import fadewise as fw
from fadewise.policies.lyapunov import Backlog

LINK = fw.Link(22e6, 32 * 555_178)


def experiment(policy: fw.Policy | None = None, **options: object) -> fw.Experiment:  # type: ignore[type-arg]
    channel = fw.Bounded(LINK, fw.Switched(fw.Rayleigh(2.0)))
    return fw.Experiment(
        30,
        channel,
        policy or fw.Lyapunov(LINK, 30, airtime_weight=10.0),
        **({"rounds": 12} | options),  # type: ignore[arg-type]
    )


def signature(played: fw.Round) -> tuple[object, ...]:
    return (
        played.number,
        played.gains.tobytes(),
        played.decision.probability.tobytes(),
        played.decision.power.tobytes(),
        played.draw.devices.tobytes(),
        played.times[:2],
        played.times.upload_s.tobytes(),
    )


def test_resumed_from_saved_states_it_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    e = experiment()
    whole = [signature(played) for played in fw.play_all(e)]
    states = fw.begin(e)
    for t in range(7):
        _, states = fw.play(e, states, t)
    fw.save_state(tmp_path / "states", states)
    states = fw.load_state(tmp_path / "states", fw.begin(e))
    resumed = []
    for t in range(7, 12):
        played, states = fw.play(e, states, t)
        resumed.append(signature(played))
    assert resumed == whole[7:]


def test_a_warm_start_sees_rounds_that_the_run_does_not() -> None:
    seen: list[np.ndarray] = []

    class Watching(fw.Lyapunov):
        def warm_started(self, state: Backlog, gains: np.ndarray) -> Backlog:
            seen.extend(gains)
            return super().warm_started(state, gains)

    policy = Watching(LINK, 30, airtime_weight=10.0, warm_start_rounds=12)
    e = fw.Experiment(30, fw.Rayleigh(2.0), policy, rounds=12)
    met = [played.gains for played in fw.play_all(e)]
    assert len(seen) == 12
    assert len(np.unique(np.concatenate([*seen, *met]))) == 24 * 30


def test_policies_under_one_seed_meet_the_same_channels() -> None:
    ours = [r.gains.tobytes() for r in fw.play_all(experiment())]
    uniform = [r.gains.tobytes() for r in fw.play_all(experiment(fw.Uniform(LINK, 30, participants=3)))]
    assert ours == uniform
    assert ours != [r.gains.tobytes() for r in fw.play_all(experiment(), seed=1)]


def test_excluded_share_is_that_of_the_unreachable() -> None:
    for played in fw.play_all(experiment()):
        np.testing.assert_allclose(played.excluded_share, np.mean(played.gains == 0))


def test_a_round_in_which_nobody_is_reachable_is_empty(tmp_path: Path) -> None:
    np.savez(tmp_path / "dark.npz", gains=np.zeros((3, 30)))
    for policy in (fw.Lyapunov(LINK, 30, airtime_weight=10.0), fw.Uniform(LINK, 30, 3), fw.UniformPoisson(LINK, 30, 3)):
        e = fw.Experiment(30, fw.Trace(tmp_path / "dark.npz"), policy, rounds=3)
        plan = fw.plan(e)
        assert plan.mean_participants.value == plan.airtime_s.value == plan.mean_power.value == 0
        assert plan.excluded_share.value == pytest.approx(1)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: experiment(fw.Lyapunov(LINK, 29, airtime_weight=1.0)),
            "the policy is for a population of 29; it must be for 30",
        ),
        (
            lambda: experiment(fw.Uniform(LINK, 30, 2), sampling=fw.Systematic()),
            "policy uniform draws its participants itself",
        ),
        (lambda: experiment(access=fw.TDMA(compute_s=np.ones(3))), "compute_s has 3 values for 30 devices"),
        (
            lambda: fw.Experiment(30, fw.Bounded(LINK, fw.Rayleigh(np.ones(31))), fw.Uniform(LINK, 30, 2)),
            "mean_gain has 31 values for 30 devices",
        ),
        (lambda: experiment(rounds=0), "rounds is 0; it must be a whole number at least 1"),
        (
            lambda: fw.Experiment(0, fw.Rayleigh(), fw.Uniform(LINK, 30, 2)),
            "devices is 0; it must be a whole number at least 1",
        ),
        (
            lambda: experiment(fw.Uniform(fw.Link(1, 1, mean_power=np.ones(3)), 30, 2)),
            "mean_power has 3 values for 30 devices",
        ),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_are_refused(make, sentence: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(fw.FadewiseError, match=sentence):
        make()
