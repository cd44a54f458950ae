"""Intervals: Student's t against SciPy, and that 95% means 95%."""

import math

import numpy as np
import pytest
from scipy import stats

from fadewise import statistics

REPETITIONS = 3000
# Of so many intervals the share that covers has deviation √(0.95·0.05/3000) = 0.4%: four of them.
TOLERANCE = 4 * math.sqrt(0.95 * 0.05 / REPETITIONS)


def covers(estimate: statistics.Estimate, truth: float) -> bool:
    assert estimate.ci is not None
    return estimate.ci[0] <= truth <= estimate.ci[1]


def test_t_quantiles_are_scipys() -> None:
    degrees = np.arange(1, 201)
    ours = [statistics.t_quantile(int(d)) for d in degrees]
    np.testing.assert_allclose(ours, stats.t.ppf(0.975, degrees), rtol=0, atol=1e-3)
    assert statistics.t_quantile(10**9) == pytest.approx(stats.norm.ppf(0.975), abs=1e-8)


@pytest.mark.parametrize("size", [2, 5, 50])
def test_intervals_over_samples_cover_the_mean_in_95_of_100_cases(size: int) -> None:
    samples = np.random.default_rng(size).normal(3.0, 2.0, (REPETITIONS, size))
    share = np.mean([covers(statistics.of_samples(row), 3.0) for row in samples])
    assert share == pytest.approx(0.95, abs=TOLERANCE)


def test_intervals_over_one_seeds_rounds_cover_the_mean_in_95_of_100_cases() -> None:
    rounds = np.random.default_rng(0).normal(3.0, 2.0, (REPETITIONS, 1, 1010))
    estimates = [statistics.of_rounds(series) for series in rounds]
    shown = [estimate for estimate in estimates if estimate.ci is not None]
    assert len(shown) > 0.97 * REPETITIONS, "what has no trend is seldom taken for one"
    # Widening for correlation that is not there costs a percent or two of width.
    assert 0.95 - TOLERANCE < np.mean([covers(estimate, 3.0) for estimate in shown]) < 0.98


def test_rounds_that_depend_on_each_other_are_covered_too() -> None:
    """Rounds as independent samples would give an interval √3 too narrow here, which covers 74 of 100."""
    rng, rounds = np.random.default_rng(1), 1000
    noise = rng.normal(0.0, 1.0, (rounds, REPETITIONS))
    series = np.empty_like(noise)
    series[0] = noise[0] / math.sqrt(1 - 0.5**2)
    for t in range(1, rounds):
        series[t] = 0.5 * series[t - 1] + noise[t]
    estimates = [statistics.of_rounds(one[None]) for one in series.T]
    share = np.mean([covers(estimate, 0.0) for estimate in estimates if estimate.ci is not None])
    # Neighbouring batches of 50 rounds still correlate by 2%, which costs the interval 1%.
    assert share == pytest.approx(0.95, abs=TOLERANCE + 0.01)


def test_intervals_over_seeds_are_of_the_seeds_means() -> None:
    series = np.random.default_rng(2).normal(3.0, 2.0, (4, 30)) + np.array([[0.0], [1.0], [5.0], [2.0]])
    means = series.mean(axis=1)
    estimate = statistics.of_rounds(series)
    interval = stats.t.interval(0.95, 3, means.mean(), stats.sem(means))
    assert estimate.value == pytest.approx(series.mean(), rel=1e-12)
    assert estimate.ci == pytest.approx(interval, abs=1e-3)


@pytest.mark.parametrize("rounds", [1000, 1009, 1234])
def test_the_interval_lies_around_the_mean_of_all_rounds(rounds: int) -> None:
    """Also where the rounds do not divide into equal batches."""
    series = np.random.default_rng(3).exponential(1.0, (1, rounds))
    estimate = statistics.of_rounds(series)
    assert estimate.ci is not None
    assert estimate.value == pytest.approx(series.mean(), rel=1e-12)
    assert sum(estimate.ci) / 2 == pytest.approx(estimate.value, rel=1e-12)


def test_no_interval_from_what_cannot_give_one() -> None:
    assert statistics.of_samples(np.array([2.0])) == (2.0, None, True)
    assert statistics.of_rounds(np.random.default_rng(0).normal(0, 1, (1, 999))).ci is None
    assert statistics.of_rounds(np.array([[7.0]])) == (7.0, None, True)


@pytest.mark.parametrize("series", [np.full((1, 100), np.nan), np.full((3, 100), np.nan)])
def test_what_is_not_defined_stays_so(series: np.ndarray) -> None:
    estimate = statistics.of_rounds(series)
    assert math.isnan(estimate.value)
    assert estimate.ci is None


def test_what_does_not_vary_has_an_interval_of_no_width() -> None:
    assert statistics.of_rounds(np.full((1, 1003), 2.5)) == (2.5, (2.5, 2.5), True)
    assert statistics.of_rounds(np.full((3, 10), 2.5)) == (2.5, (2.5, 2.5), True)
    rounding = 4 + 1e-13 * np.random.default_rng(0).normal(0, 1, (1, 3001))
    low, high = statistics.of_rounds(rounding).ci or (0.0, 1.0)
    assert low == high


def autoregressive(memory: float, rows: int, rounds: int) -> np.ndarray:
    noise = np.random.default_rng(5).normal(0, 1, (rows, rounds))
    for t in range(1, rounds):
        noise[:, t] += memory * noise[:, t - 1]
    return noise


def test_rounds_that_remember_longer_than_a_batch_are_still_covered() -> None:
    """Correlated over 100 rounds, in batches of 100: twenty independent-looking batches covered in 87 of 100."""
    series = autoregressive(0.99, 1000, 1500)[:, 500:]
    estimates = [statistics.of_rounds(row[None]) for row in series]
    shown = [e for e in estimates if e.ci is not None]
    assert len(shown) > 950
    # Of 1,000 intervals the share has a deviation of 1%.
    assert np.mean([covers(e, 0.0) for e in shown]) > 0.85


@pytest.mark.parametrize("trend", [np.geomspace(3, 0.01, 1000), np.linspace(1, 0, 1000)], ids=["decay", "line"])
def test_a_trend_has_no_interval_and_is_said(trend: np.ndarray) -> None:
    estimate = statistics.of_rounds((trend + np.random.default_rng(0).normal(0, 0.1, 1000))[None])
    assert estimate.ci is None
    assert not estimate.settled


def test_what_happens_in_one_batch_only_is_no_trend() -> None:
    rare = np.zeros((1, 1000))
    rare[0, 5] = 1.0
    assert statistics.of_rounds(rare).ci is not None


@pytest.mark.parametrize("seeds", [1, 3])
def test_rounds_that_are_not_defined_are_left_out(seeds: int) -> None:
    series = np.random.default_rng(0).normal(3, 1, (seeds, 1500))
    holes = np.insert(series, range(0, 1500, 50), np.nan, axis=1)
    assert statistics.of_rounds(holes) == statistics.of_rounds(series)
