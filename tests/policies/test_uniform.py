"""The baseline: the paper's power and its peak, a fractional M, and devices out of reach."""

from typing import Any

import numpy as np
import pytest

import fadewise as fw
from fadewise.randomness import Stream

LINK = fw.Link(14e6, 32 * 444_062)


def powers(policy: fw.Uniform | fw.UniformPoisson, gains: np.ndarray, rounds: int) -> np.ndarray:
    return np.array(
        [
            policy.select(policy.init(len(gains)), gains, Stream(0, t), fw.Poisson())[0].power[gains > 0]
            for t in range(rounds)
        ]
    )


def test_power_is_the_papers_and_is_capped_unless_wished_otherwise() -> None:
    """P̄·N/M′ with M′ of 19 or 20 of 3,597 devices: 180 to 190, where the peak is 100."""
    gains = np.ones(3597)
    capped = powers(fw.Uniform(LINK, 3597, 19.4), gains, 20)
    assert (capped == 100).all()
    as_published = powers(fw.Uniform(LINK, 3597, 19.4, cap_power=False), gains, 200)
    assert np.unique(as_published) == pytest.approx([3597 / 20, 3597 / 19])
    # Of 200 rounds 0.4 have 20 devices, with a deviation of 0.035.
    assert (as_published[:, 0] < 185).mean() == pytest.approx(0.4, abs=0.14)
    below_the_peak = powers(fw.Uniform(LINK, 3597, 100.0), gains, 3)
    assert below_the_peak == pytest.approx(35.97)


def test_independent_draws_have_the_same_power_and_cap() -> None:
    gains = np.ones(3597)
    assert powers(fw.UniformPoisson(LINK, 3597, 19.4), gains, 1) == pytest.approx(100)
    assert powers(fw.UniformPoisson(LINK, 3597, 19.4, cap_power=False), gains, 1) == pytest.approx(3597 / 19.4)


def test_the_cap_is_each_devices_own() -> None:
    link = fw.Link(14e6, 1e6, peak_power=np.array([2.0, 8.0]), mean_power=np.array([1.0, 3.0]))
    assert powers(fw.Uniform(link, 2, 1.0), np.ones(2), 1).tolist() == [[2.0, 6.0]]
    assert powers(fw.Uniform(link, 2, 0.5, cap_power=False), np.ones(2), 10).max(axis=0).tolist() == [2.0, 6.0]


def test_of_unreachable_devices_none_is_drawn_and_the_reachable_share_the_draw() -> None:
    gains = np.array([1.0, 0.0, 2.0, 0.0, 3.0])
    policy = fw.Uniform(LINK, 5, 2.0)
    for t in range(20):
        decision, draw, _ = policy.select(policy.init(5), gains, Stream(0, t), fw.Poisson())
        assert draw.population_inclusion is not None
        np.testing.assert_allclose(draw.population_inclusion, np.array([1, 0, 1, 0, 1]) * 2 / 3)
        np.testing.assert_allclose(decision.power, np.array([1, 0, 1, 0, 1]) * 1.5)
        assert len(draw.devices) == 2
        assert (gains[draw.devices] > 0).all()
    more_than_there_are = fw.Uniform(LINK, 5, 4.0)
    _, draw, _ = more_than_there_are.select(policy.init(5), gains, Stream(0, 0), fw.Poisson())
    assert draw.devices.tolist() == [0, 2, 4]
    np.testing.assert_allclose(draw.weights, 1 / 5)


@pytest.mark.parametrize("make", [fw.Uniform, fw.UniformPoisson])
@pytest.mark.parametrize(
    ("participants", "said"),
    [(0.0, "participants is 0.0; it must be a number above 0"), (6.0, "participants is 6.0; it must be at most")],
)
def test_an_m_that_cannot_be_is_refused(make: type, participants: float, said: str) -> None:
    with pytest.raises(fw.FadewiseError, match=said):
        make(LINK, 5, participants)


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        (np.ones(4), r"^gains have shape \(4,\); there must be one gain for each of 5 devices"),
        (["a"] * 5, r"^gains are .*; they must be real numbers"),
    ],
)
def test_gains_that_are_not_those_of_all_devices_are_refused(gains: Any, said: str) -> None:
    policy = fw.Uniform(LINK, 5, 2.0)
    with pytest.raises(fw.FadewiseError, match=said):
        policy.select(policy.init(5), gains, Stream(0, 0), fw.Poisson())
