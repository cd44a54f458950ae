"""Draws: unbiased for every q, of the size they promise, and with the variance that theory says."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import fadewise as fw
from fadewise import theory
from fadewise.randomness import Stream
from fadewise.sampling import Decision, Sampling, simple_random

DRAWS = 20_000

# About 2.2 participants of 12: as in the paper's networks, nobody volunteers in 9% of rounds.
Q = np.array([0.02, 0.05, 0.1, 0.1, 0.15, 0.15, 0.2, 0.2, 0.25, 0.25, 0.3, 0.4])
UPDATES = np.random.default_rng(0).normal(0.5, 1, (12, 3)) * np.linspace(0.2, 2, 12)[:, None]

UNBIASED = [
    fw.Poisson(fallback="none"),
    fw.Poisson(),
    fw.Systematic(),
    fw.FixedSize(),
]


def decision_of(q: np.ndarray, shares: np.ndarray | None = None) -> Decision:
    return Decision(q, np.ones(len(q)), 1 / len(q) if shares is None else shares)


def aggregates(sampling: Sampling, decision: Decision, updates: np.ndarray, draws: int = DRAWS) -> np.ndarray:
    """Σ weights·updates of many draws, a row each."""
    result = np.zeros((draws, updates.shape[1]))
    for t in range(draws):
        draw = fw.draw(decision, seed=1, round=t, sampling=sampling)
        result[t] = draw.weights @ updates[draw.devices]
    return result


def z_scores(samples: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return np.asarray((samples.mean(axis=0) - expected) / (samples.std(axis=0, ddof=1) / math.sqrt(len(samples))))


@pytest.mark.parametrize("sampling", UNBIASED, ids=str)
@pytest.mark.parametrize("equal_shares", [True, False])
def test_mean_of_the_aggregate_is_full_participation(sampling: Sampling, equal_shares: bool) -> None:
    shares = np.full(12, 1 / 12) if equal_shares else np.random.default_rng(2).dirichlet(np.ones(12))
    samples = aggregates(sampling, decision_of(Q, shares), UPDATES)
    # Three components within 4 standard errors: wrong once in 5,000 seeds if the draw is right.
    assert np.abs(z_scores(samples, shares @ UPDATES)).max() < 4


@pytest.mark.parametrize("sampling", UNBIASED, ids=str)
def test_measured_variance_is_the_formulas(sampling: Sampling) -> None:
    samples = aggregates(sampling, decision_of(Q), UPDATES)
    squares = np.square(samples - UPDATES.mean(axis=0)).sum(axis=1)
    error = squares.std(ddof=1) / math.sqrt(DRAWS)
    expected = theory.sampling_variance(UPDATES, theory.joint_inclusion(sampling, Q))
    assert abs(squares.mean() - expected) < 4 * error
    assert error < 0.03 * expected


def test_published_fallback_weighting_is_biased_by_what_theory_says() -> None:
    nobody = float(np.prod(1 - Q))
    samples = aggregates(fw.Poisson(fallback="published"), decision_of(Q), UPDATES, draws=3 * DRAWS)
    bias = nobody / Q[-1] * UPDATES[-1] / 12
    assert np.abs(z_scores(samples, UPDATES.mean(axis=0))).max() > 8
    assert np.abs(z_scores(samples, UPDATES.mean(axis=0) + bias)).max() < 4


def true_inclusion(draw: fw.Draw) -> np.ndarray:
    assert draw.population_inclusion is not None
    return draw.population_inclusion


def test_fallback_fires_as_often_as_nobody_volunteers_and_counts_its_inclusion() -> None:
    nobody = float(np.prod(1 - Q))
    draws = [fw.draw(decision_of(Q), seed=0, round=t) for t in range(DRAWS)]
    fired = np.array([draw.fallback for draw in draws])
    assert abs(fired.mean() - nobody) < 4 * math.sqrt(nobody / DRAWS)
    for draw in draws[:2000]:
        assert len(draw.devices)
        np.testing.assert_allclose(true_inclusion(draw), Q + nobody * (np.arange(12) == 11), rtol=1e-14)
        if draw.fallback:
            assert draw.devices.tolist() == draw.asked.tolist() == [11]
        else:
            assert not len(draw.asked)


def test_among_equals_the_one_to_be_asked_is_drawn() -> None:
    q = np.full(4, 0.1)
    asked = [int(d.asked[0]) for t in range(4000) if (d := fw.draw(decision_of(q), 0, t)).fallback]
    counts = np.bincount(asked, minlength=4)
    # Binomial with p = 1/4: within 4 standard deviations.
    assert np.abs(counts - len(asked) / 4).max() < 4 * math.sqrt(len(asked) * 3 / 16)
    np.testing.assert_allclose(true_inclusion(fw.draw(decision_of(q), 0, 0)), 0.1 + 0.9**4 / 4)


@pytest.mark.parametrize("sampling", [fw.Systematic(), fw.FixedSize()], ids=str)
@pytest.mark.parametrize("devices", [1, 2, 3, 12, 101, 1000])
def test_size_is_the_sum_rounded_down_or_up(sampling: Sampling, devices: int) -> None:
    rng = np.random.default_rng(devices)
    for t in range(200):
        q = rng.random(devices) ** rng.integers(1, 4)
        q[rng.random(devices) < 0.1] = 0.0
        q[rng.random(devices) < 0.1] = 1.0
        draw = fw.draw(decision_of(q), 0, t, sampling)
        if q.sum() >= 1:
            assert math.floor(q.sum() - 1e-9) <= len(draw.devices) <= math.ceil(q.sum() + 1e-9)
            assert not draw.fallback
        assert np.isin(np.flatnonzero(q == 1), draw.devices).all()
        assert (q[draw.devices] > 0).all()


@pytest.mark.parametrize("sampling", [fw.Poisson(), fw.Systematic(), fw.FixedSize()], ids=str)
def test_frequencies_are_the_inclusion_probabilities_among_many(sampling: Sampling) -> None:
    rng = np.random.default_rng(3)
    q = rng.random(1000) * 0.02
    taken = np.zeros(1000)
    for t in range(4000):
        taken[fw.draw(decision_of(q), 5, t, sampling).devices] += 1
    z = (taken - 4000 * q) / np.sqrt(4000 * q * (1 - q) + 1e-9)
    assert abs(z.mean()) < 4 / math.sqrt(1000)
    assert 0.85 < z.std() < 1.15


def test_tournament_is_its_definition_enumerated() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        q = rng.random(rng.integers(1, 7)) * rng.choice([0.3, 1.0])
        np.testing.assert_allclose(theory.joint_inclusion(fw.FixedSize("none"), q), enumerated(q), atol=1e-12)


def enumerated(q: np.ndarray) -> np.ndarray:
    """π_ij of the tournament by going through every outcome of every duel."""
    joint = np.zeros((len(q), len(q)))

    def play(players: list[tuple[int, float]], met: list[tuple[int, float]], inside: frozenset[int], p: float) -> None:
        if p == 0:
            return
        if len(players) >= 2:
            (i, a), (j, b), *rest = players
            if a + b < 1:
                play(rest, [*met, (i, a + b)], inside, p * a / (a + b))
                play(rest, [*met, (j, a + b)], inside, p * b / (a + b))
            else:
                i_in = (1 - b) / (2 - a - b)
                play(rest, [*met, (j, a + b - 1)], inside | {i}, p * i_in)
                play(rest, [*met, (i, a + b - 1)], inside | {j}, p * (1 - i_in))
        elif met:
            play([*met, *players], [], inside, p)
        else:
            ((last, value),) = players
            for final, chance in ((inside | {last}, value), (inside, 1 - value)):
                chosen = sorted(final)
                joint[np.ix_(chosen, chosen)] += p * chance

    play([(i, float(value)) for i, value in enumerate(q)], [], frozenset(), 1.0)
    return joint


def test_poisson_takes_each_device_by_its_own_word_alone() -> None:
    decision = decision_of(Q)
    for t in range(50):
        volunteers = fw.Poisson.volunteers(decision, Stream(0, t))
        changed = Q.copy()
        changed[3] = 1.0
        others = fw.Poisson.volunteers(decision_of(changed), Stream(0, t))
        np.testing.assert_array_equal(np.delete(volunteers, 3), np.delete(others, 3))


def test_nobody_reachable_is_an_empty_round() -> None:
    for sampling in (*UNBIASED, fw.TopK(2)):
        draw = fw.draw(decision_of(np.zeros(5)), 0, 0, sampling)
        assert not len(draw.devices)
        assert not draw.fallback
        assert draw.weights.tolist() == []


def test_top_k_is_the_k_largest_and_says_that_it_is_biased() -> None:
    draw = fw.draw(decision_of(np.array([0.2, 0.9, 0.0, 0.9, 0.1])), 0, 0, fw.TopK(3))
    assert draw.devices.tolist() == [0, 1, 3]
    assert draw.inclusion is None
    assert draw.population_inclusion is None
    assert draw.weights.tolist() == [1 / 3] * 3
    few = fw.draw(decision_of(np.array([0.2, 0.0])), 0, 0, fw.TopK(3))
    assert few.devices.tolist() == [0]


def test_simple_random_takes_every_subset_alike() -> None:
    devices = np.arange(5)
    subsets = [tuple(simple_random(devices, 2, Stream(0, t).uniforms("x", 5))) for t in range(10_000)]
    counts = np.unique(subsets, axis=0, return_counts=True)[1]
    assert len(counts) == 10
    assert np.abs(counts - 1000).max() < 4 * math.sqrt(900)


@pytest.mark.parametrize("make", [lambda k: fw.Poisson(k), lambda k: fw.Systematic(k), lambda k: fw.FixedSize(k)])
def test_unknown_fallback_is_refused(make: Callable[[str], Sampling]) -> None:
    with pytest.raises(fw.FadewiseError, match="fallback is 'often'; it must be one of corrected, published, none"):
        make("often")


def test_systematic_and_fixed_vary_less_than_poisson_on_like_updates() -> None:
    alike = np.ones((12, 1))
    variances = [theory.sampling_variance(alike, theory.joint_inclusion(s, Q)) for s in UNBIASED]
    poisson_without_fallback, _, systematic, fixed = variances
    assert max(systematic, fixed) < poisson_without_fallback


def test_a_device_alone_finds_what_all_find_and_cannot_draw() -> None:
    link, gains = fw.Link(22e6, 1e7), np.random.default_rng(0).exponential(2, 12)
    policy = fw.Lyapunov(link, 12, airtime_weight=100.0)
    together, _ = policy.decide(policy.init(12), gains)
    among_all = fw.Poisson.volunteers(together, Stream(3, 8))
    for n in range(12):
        alone, _ = policy.decide(policy.init(1), gains[n : n + 1])
        assert fw.Poisson.volunteers(alone, Stream(3, 8, first_device=n))[0] == among_all[n]
        with pytest.raises(fw.FadewiseError, match=r"^the decision is for 1 of the devices only"):
            fw.draw(alone, 3, 8)


def test_a_part_of_the_devices_with_shares_of_their_own_cannot_draw() -> None:
    shares = np.random.default_rng(0).dirichlet(np.ones(12))
    fw.draw(decision_of(Q, shares), 0, 0)
    with pytest.raises(fw.FadewiseError, match=r"^the decision is for 11 of the devices only"):
        fw.draw(Decision(Q[1:], np.ones(11), shares[1:]), 0, 0)


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (Decision(np.array([0.5, 1.5]), np.ones(2), 0.5), "probability of device 1 is 1.5; it must be a number at"),
        (Decision(np.array([np.nan, 0.5]), np.ones(2), 0.5), "probability of device 0 is nan; it must be a number"),
        (Decision(np.array([0.5, 0.5]), np.ones(3), 0.5), "power has 3 values for 2 devices; it must have one each"),
        (Decision(np.array([0.5, 0.5]), np.array([1.0, -1.0]), 0.5), "power of device 1 is -1.0; it must be a number"),
        (Decision(0.5, np.ones(2), 0.5), "probability is 0.5; it must be an array, one number a device"),  # type: ignore[arg-type]
        (Decision(np.array([0.5, 0.5]), np.ones(2), np.nan), "shares is nan; it must be a number above 0"),
        (None, "the decision is None; it must be a Decision"),
    ],
)  # fmt: skip
def test_a_decision_that_cannot_be_is_refused(decision: Decision, said: str) -> None:
    with pytest.raises(fw.FadewiseError) as raised:
        fw.draw(decision, 0, 0)
    assert str(raised.value).startswith(said)


def test_which_pairs_can_meet_is_as_documented() -> None:
    """In the paper's network with 4.3 participants: under the tournament 85% of the pairs, under systematic 7%."""
    changes = {"policy.airtime_weight": 21.0, "policy.warm_start_rounds": 300, "rounds": 1}
    (played,) = fw.play_all(fw.load("paper/cifar10-het", changes))
    pairs = np.triu_indices(100, 1)
    never = [
        float((theory.joint_inclusion(s, played.decision.probability)[pairs] < 1e-14).mean())
        for s in (fw.FixedSize(), fw.Systematic())
    ]
    assert never == pytest.approx([0.15, 0.93], abs=0.02)
