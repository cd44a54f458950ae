"""What every channel that ships must keep to. A new one is tested by being exported."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fadewise as fw
from fadewise.channels import CHANNELS
from fadewise.randomness import Stream

DEVICES, ROUNDS = 57, 40


@pytest.fixture(params=sorted(CHANNELS))
def channel(request: pytest.FixtureRequest, tmp_path: Path) -> fw.Channel[Any]:
    """One of each kind; those that need more than defaults are made here."""
    kind = request.param
    rayleigh = fw.Rayleigh(np.linspace(0.05, 4, DEVICES))
    if kind == "rayleigh":
        return rayleigh
    if kind == "trace":
        np.savez(tmp_path / "trace.npz", gains=np.random.default_rng(0).exponential(1, (ROUNDS, DEVICES)))
        return fw.Trace(tmp_path / "trace.npz")
    if kind == "bounded":
        return fw.Bounded(fw.Link(22e6, 1e6, mean_power=np.linspace(0.5, 2, DEVICES)), rayleigh)
    if kind == "switched":
        return fw.Switched(rayleigh, mean_rounds_on=np.linspace(1, 20, DEVICES), mean_rounds_off=4.0)
    return CHANNELS[kind]()


def stepped(channel: fw.Channel[Any], devices: int, seed: int = 0, first: int = 0) -> tuple[np.ndarray, Any]:
    state, rows = channel.init(devices, Stream(seed, 0, first)), []
    for t in range(ROUNDS):
        gains, state = channel.step(state, devices, Stream(seed, t, first))
        rows.append(gains.copy())
        gains[:] = -1.0  # what is returned is the caller's: overwriting it must not matter
    return np.array(rows), state


def test_gains_are_finite_and_not_negative(channel: fw.Channel[Any]) -> None:
    gains, _ = stepped(channel, DEVICES)
    assert gains.shape == (ROUNDS, DEVICES)
    assert ((gains >= 0) & (gains < np.inf)).all()
    assert (gains > 0).any(axis=0).all()


def test_a_device_alone_meets_the_same_channel_bit_for_bit(channel: fw.Channel[Any]) -> None:
    together, _ = stepped(channel, DEVICES)
    for n in range(DEVICES):
        alone, _ = stepped(channel, 1, first=n)
        assert alone[:, 0].tobytes() == together[:, n].tobytes()


def test_same_seed_same_gains(channel: fw.Channel[Any]) -> None:
    assert stepped(channel, DEVICES)[0].tobytes() == stepped(channel, DEVICES)[0].tobytes()
    if not isinstance(channel, fw.Trace):
        assert stepped(channel, DEVICES, seed=1)[0].tobytes() != stepped(channel, DEVICES)[0].tobytes()


def test_state_survives_saving(channel: fw.Channel[Any], tmp_path: Path) -> None:
    _, state = stepped(channel, DEVICES)
    fw.save_state(tmp_path / "state", state)
    loaded = fw.load_state(tmp_path / "state", channel.init(DEVICES, Stream(1, 0)))
    if not isinstance(channel, fw.Trace):  # which has ended
        again = channel.step(loaded, DEVICES, Stream(0, ROUNDS))[0]
        assert again.tobytes() == channel.step(state, DEVICES, Stream(0, ROUNDS))[0].tobytes()


def test_rayleigh_gains_are_exponential_with_the_mean_that_is_set() -> None:
    means = np.repeat([0.08, 2.0], 500)
    gains = np.array(
        [fw.Rayleigh(means).step(fw.Rayleigh().init(1, Stream(0, 0)), 1000, Stream(0, t))[0] for t in range(40)]
    )
    for part, mean in ((gains[:, :500], 0.08), (gains[:, 500:], 2.0)):
        assert stats.kstest(part.ravel(), "expon", args=(0, mean)).pvalue > 0.001


def test_bounds_are_the_papers() -> None:
    link = fw.Link(22e6, 1e6, peak_power=100.0, mean_power=1.0, noise_power=3.0)
    bounded = fw.Bounded(link, fw.Rayleigh(1000.0))
    np.testing.assert_allclose(bounded.floor, (2**0.25 - 1) * 3 / 100)
    np.testing.assert_allclose(bounded.ceiling, 1023 * 3)
    gains = np.concatenate([bounded.step(bounded.init(1000, Stream(0, 0)), 1000, Stream(0, t))[0] for t in range(20)])
    raw = np.concatenate(
        [fw.Rayleigh(1000.0).step(bounded.init(1000, Stream(0, 0)), 1000, Stream(0, t))[0] for t in range(20)]
    )
    np.testing.assert_array_equal(gains, np.clip(raw, bounded.floor, bounded.ceiling))
    assert (raw > bounded.ceiling).any()


def test_bounded_leaves_an_unreachable_device_unreachable() -> None:
    switched = fw.Bounded(fw.Link(22e6, 1e6), fw.Switched(fw.Rayleigh(2.0)))
    gains, _ = stepped(switched, DEVICES)
    assert (gains == 0).any()
    assert gains[gains > 0].min() >= switched.floor


def test_switch_has_its_long_run_share_and_its_mean_stays() -> None:
    on, off, devices, rounds = 12.0, 3.0, 2000, 400
    channel = fw.Switched(fw.Rayleigh(1.0), mean_rounds_on=on, mean_rounds_off=off)
    state, reachable = channel.init(devices, Stream(0, 0)), []
    for t in range(rounds):
        gains, state = channel.step(state, devices, Stream(0, t))
        reachable.append(gains > 0)
    is_on = np.array(reachable)
    # The chain forgets at rate 1 - 1/on - 1/off a round, so devices × rounds × (1/on + 1/off)/2 samples are in it.
    samples = devices * rounds * (1 / on + 1 / off) / 2
    share = on / (on + off)
    assert abs(is_on.mean() - share) < 4 * np.sqrt(share * (1 - share) / samples)
    assert abs(is_on[0].mean() - share) < 4 * np.sqrt(share * (1 - share) / devices), "it starts where it stays"
    leaves = (is_on[:-1] & ~is_on[1:]).sum() / is_on[:-1].sum()
    returns = (~is_on[:-1] & is_on[1:]).sum() / (~is_on[:-1]).sum()
    np.testing.assert_allclose([1 / leaves, 1 / returns], [on, off], rtol=0.03)


def test_too_few_values_for_the_devices_are_refused() -> None:
    with pytest.raises(fw.FadewiseError, match="mean_gain has 3 values for 5 devices"):
        fw.Rayleigh([1.0, 2.0, 3.0]).step(fw.Rayleigh().init(5, Stream(0, 0)), 5, Stream(0, 0))  # type: ignore[arg-type]


def test_a_switch_within_a_switch_is_refused() -> None:
    """However deep: they would take the same random words, and go on and off together."""
    link, switched = fw.Link(22e6, 1e6), fw.Switched(fw.Rayleigh(1.0))
    for inner in (switched, fw.Bounded(link, switched)):
        with pytest.raises(fw.FadewiseError, match=r"^inner holds another switched channel"):
            fw.Switched(inner)


@pytest.mark.parametrize("mean_gain", [[], ()])
def test_no_gain_at_all_is_refused(mean_gain: object) -> None:
    with pytest.raises(fw.FadewiseError, match=r"^mean_gain is .*; it must be one number, or one number a device"):
        fw.Rayleigh(mean_gain)  # type: ignore[arg-type]
