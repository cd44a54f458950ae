"""The formulas against their definitions, and the bounds against problems on which they can be checked."""

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

import fadewise as fw
from fadewise import theory
from fadewise.policies.uniform import Uniform
from fadewise.randomness import Stream
from fadewise.studies import frontier


def test_theorem_1_is_its_printed_sums() -> None:
    rng = np.random.default_rng(0)
    rounds, devices, steps = 3, 4, 5
    squares, q = rng.random((rounds, devices, steps)), rng.uniform(0.1, 1, (rounds, devices))
    bound = theory.theorem_1(gap=2.0, smoothness=3.0, step_size=0.1, gradient_squares=squares, inclusion=q)
    pairs = sum(squares[t, n, j] for t in range(rounds) for n in range(devices) for i in range(steps) for j in range(i))
    sampled = sum(squares[t, n, i] / q[t, n] for t in range(rounds) for n in range(devices) for i in range(steps))
    np.testing.assert_allclose(bound.start, 2 * 2.0 / (0.1 * rounds * steps))
    np.testing.assert_allclose(bound.drift, 0.01 * 9 * (steps - 1) / (rounds * steps * devices) * pairs)
    np.testing.assert_allclose(bound.sampling, 0.1 * 3 / (rounds * devices) * sampled)
    assert bound.total == bound.start + bound.drift + bound.sampling


def test_corollary_1_is_theorem_1_with_all_gradients_at_their_bound() -> None:
    rounds, devices, steps, g = 7, 4, 6, 1.7
    q = np.random.default_rng(1).uniform(0.1, 1, (rounds, devices))
    theorem = theory.theorem_1(
        gap=2.0, smoothness=3.0, step_size=0.1, gradient_squares=np.full((rounds, devices, steps), g**2), inclusion=q
    )
    bound = functools.partial(
        theory.corollary_1,
        gap=2.0,
        smoothness=3.0,
        step_size=0.1,
        local_steps=steps,
        rounds=rounds,
        gradient_bound=g,
        variance_factor=float((1 / q).mean()),
    )
    exact = bound()
    np.testing.assert_allclose(exact, theorem, rtol=1e-12)
    published = bound(variant="published")
    np.testing.assert_allclose(published.drift, 2 * exact.drift)


def test_closed_forms_are_special_cases_of_the_general_variance() -> None:
    rng = np.random.default_rng(2)
    q, updates = rng.uniform(0.05, 0.5, 9), rng.normal(size=(9, 4))
    joint = theory.joint_inclusion(fw.Poisson("none"), q)
    np.testing.assert_allclose(theory.sampling_variance(updates, joint), theory.poisson_variance(updates, q))
    for participants in (1, 4, 9):
        srs = theory.simple_random_joint(9, participants)
        np.testing.assert_allclose(
            theory.sampling_variance(updates, srs), theory.simple_random_variance(updates, participants), atol=1e-14
        )
    # With the fallback: the diagonal in π, plus the cross terms of the device that is asked.
    nobody, k = float(np.prod(1 - q)), int(q.argmax())
    pi = q + nobody * (np.arange(9) == k)
    cross = sum(float(updates[k] @ updates[j]) for j in range(9) if j != k)
    printed = theory.poisson_variance(updates, pi) - 2 / 81 * nobody / pi[k] * cross
    np.testing.assert_allclose(theory.sampling_variance(updates, theory.joint_inclusion(fw.Poisson(), q)), printed)


def test_variance_with_data_shares_is_that_of_every_outcome_weighed_by_its_chance() -> None:
    rng = np.random.default_rng(8)
    q, shares, updates = rng.uniform(0.1, 0.9, 6), rng.dirichlet(np.ones(6)), rng.normal(size=(6, 3))
    expected = 0.0
    for taken in itertools.product((False, True), repeat=6):
        chance = float(np.prod(np.where(taken, q, 1 - q)))
        estimate = np.where(taken, shares / q, 0) @ updates
        expected += chance * float(np.square(estimate - shares @ updates).sum())
    joint = theory.joint_inclusion(fw.Poisson("none"), q)
    assert theory.sampling_variance(updates, joint, shares) == pytest.approx(expected, rel=1e-12)


def test_systematic_pairs_are_counted_over_every_start() -> None:
    """With probabilities in 64ths the draw is the same for all random numbers within a 64th."""
    starts = (np.arange(64) + 0.5) / 64
    for seed in range(20):
        q = np.random.default_rng(seed).integers(1, 50, 7) / 64
        ends = np.cumsum(q)
        taken = np.diff(np.floor(ends + starts[:, None]), axis=1, prepend=0.0)
        joint = theory.joint_inclusion(fw.Systematic("none"), q)
        np.testing.assert_allclose(joint, taken.T @ taken / 64, atol=1e-12)


def test_uniform_policy_has_the_variance_of_simple_random_draws_of_its_size() -> None:
    """A fractional M: the inclusion probability is that of the size which was drawn."""
    rng = np.random.default_rng(3)
    updates = rng.normal(1, 1, (10, 3))
    policy = Uniform(fw.Link(22e6, 1e6), 10, participants=2.4)
    by_size: dict[int, list[np.ndarray]] = {2: [], 3: []}
    for t in range(20_000):
        _, draw, _ = policy.select(policy.init(10), np.ones(10), Stream(0, t), fw.Poisson())
        by_size[len(draw.devices)].append(draw.weights @ updates[draw.devices])
    share_of_3 = len(by_size[3]) / 20_000
    assert abs(share_of_3 - 0.4) < 4 * math.sqrt(0.24 / 20_000)
    for size, samples in by_size.items():
        deviations = np.array(samples) - updates.mean(axis=0)
        squares = np.square(deviations).sum(axis=1)
        expected = theory.simple_random_variance(updates, size)
        assert abs(squares.mean() - expected) < 4 * squares.std() / math.sqrt(len(squares))
        z = deviations.mean(axis=0) / (deviations.std(axis=0) / math.sqrt(len(deviations)))
        assert np.abs(z).max() < 4


def test_a_biased_draw_has_no_inclusion_probabilities() -> None:
    with pytest.raises(fw.FadewiseError, match="sampling top-k is biased"):
        theory.joint_inclusion(fw.TopK(2), np.full(4, 0.5))


DEVICES, STEPS = 20, 3


def federated(
    gradient: object, start: np.ndarray, step_size: float, rounds: int, seed: int, sampling: fw.Poisson | fw.Systematic
) -> tuple[float, np.ndarray, np.ndarray]:
    """Algorithm 1 with the paper's policy: the average of ‖∇f(x_t)‖², every ‖g‖² and every π."""
    link = fw.Link(22e6, 32 * 555_178)
    policy = fw.Lyapunov(link, DEVICES, airtime_weight=1.0)
    experiment = fw.Experiment(DEVICES, fw.Rayleigh(2.0), policy, sampling=sampling, rounds=rounds, seed=seed)
    x, met = start, []
    squares, inclusion = np.empty((rounds, DEVICES, STEPS)), np.empty((rounds, DEVICES))
    rng = np.random.default_rng(seed)
    for played in fw.play_all(experiment):
        # Every device's local steps, also of those that do not take part: the theorem counts them too.
        local = np.tile(x, (DEVICES, 1))
        met.append(float(np.square(gradient(np.tile(x, (DEVICES, 1)), None).mean(axis=0)).sum()))  # type: ignore[operator]
        for i in range(STEPS):
            g = gradient(local, rng)  # type: ignore[operator]
            squares[played.number, :, i] = np.square(g).sum(axis=1)
            local = local - step_size * g
        draw = played.draw
        x = x + draw.weights @ (local - x)[draw.devices]
        inclusion[played.number] = draw.population_inclusion
    return float(np.mean(met)), squares, inclusion


@pytest.mark.parametrize("sampling", [fw.Poisson(), fw.Systematic()], ids=str)
def test_theorem_1_holds_on_a_quadratic_and_is_not_vacuous(sampling: fw.Poisson | fw.Systematic) -> None:
    """f_n(x) = ½·(x - c_n)ᵀ·H·(x - c_n) with noisy gradients; L and f* are known."""
    rng = np.random.default_rng(0)
    curvature = np.linspace(0.2, 1.0, 4)  # L = 1
    centres = rng.normal(0, 0.3, (DEVICES, 4))
    start = np.full(4, 4.0)

    def gradient(x: np.ndarray, noise: np.random.Generator | None) -> np.ndarray:
        exact = curvature * (x - centres)
        return exact if noise is None else exact + noise.normal(0, 0.1, x.shape)

    def loss(x: np.ndarray) -> float:
        return float(0.5 * np.mean(np.sum(curvature * np.square(x - centres), axis=1)))

    runs = [federated(gradient, start, 0.02, 400, seed, sampling) for seed in range(8)]
    measured = np.mean([run[0] for run in runs])
    bound = theory.theorem_1(
        gap=loss(start) - loss(centres.mean(axis=0)),
        smoothness=1.0,
        step_size=0.02,
        gradient_squares=np.mean([run[1] for run in runs], axis=0),
        inclusion=1 / np.mean([1 / run[2] for run in runs], axis=0),
    )
    at_start = float(np.square(gradient(np.tile(start, (DEVICES, 1)), None).mean(axis=0)).sum())
    assert measured < bound.total
    assert bound.total < at_start / 2
    assert bound.sampling > 0.1 * bound.total, "what the draw costs matters here"


def test_corollary_1_holds_on_a_logistic_problem_and_is_not_vacuous() -> None:
    """log(1 + exp(-aᵀx)) for ‖a‖ ≤ 1: gradients are at most G = 1, L = 1/4, and f* ≥ 0."""
    rng = np.random.default_rng(0)
    a = rng.normal(0, 0.2, (DEVICES, 30, 3)) + np.array([0.7, 0.3, 0.0])
    a /= np.maximum(1, np.linalg.norm(a, axis=2, keepdims=True))
    start = -np.array([3.0, 1.5, 0.0])

    def gradient(x: np.ndarray, noise: np.random.Generator | None) -> np.ndarray:
        rows = a if noise is None else a[np.arange(DEVICES)[:, None], noise.integers(0, 30, (DEVICES, 5))]
        slope = -1 / (1 + np.exp(np.einsum("nkd,nd->nk", rows, x)))
        return np.asarray((rows * slope[:, :, None]).mean(axis=1))

    rounds, step_size = 1500, 0.03
    measured, squares, inclusion = federated(gradient, start, step_size, rounds, 0, fw.Poisson())
    assert squares.max() <= 1
    bound = theory.corollary_1(
        gap=float(np.mean(np.log1p(np.exp(-np.einsum("nkd,d->nk", a, start))))),
        smoothness=0.25,
        step_size=step_size,
        local_steps=STEPS,
        rounds=rounds,
        gradient_bound=1.0,
        variance_factor=float((1 / inclusion).mean()),
    )
    at_start = float(np.square(gradient(np.tile(start, (DEVICES, 1)), None).mean(axis=0)).sum())
    assert measured < bound.total
    assert bound.total < at_start / 2


def test_a_device_that_is_never_drawn_makes_the_variance_infinite() -> None:
    updates, q = np.ones((3, 2)), np.array([0.0, 0.5, 0.5])
    assert theory.sampling_variance(updates, theory.joint_inclusion(fw.Poisson(), q)) == np.inf
    assert theory.poisson_variance(updates, q) == np.inf
    assert theory.simple_random_variance(updates, 0) == np.inf
    assert theory.simple_random_variance(updates[:1], 1) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: theory.theorem_1(
            gap=1, smoothness=1, step_size=0.1, gradient_squares=np.ones((2, 3, 4)), inclusion=np.zeros((2, 3))
        ),
        lambda: theory.theorem_1(
            gap=1, smoothness=1, step_size=0.1, gradient_squares=np.ones((0, 3, 4)), inclusion=np.ones((0, 3))
        ),
        lambda: theory.corollary_1(
            gap=1, smoothness=1, step_size=0, local_steps=1, rounds=1, gradient_bound=1, variance_factor=1
        ),
        lambda: theory.corollary_1(
            gap=1, smoothness=1, step_size=1, local_steps=1, rounds=0, gradient_bound=1, variance_factor=1
        ),
        lambda: theory.sampling_variance(np.ones((3, 2)), np.ones((2, 2))),
        lambda: theory.poisson_variance(np.ones((3, 2)), [0.5]),
        lambda: theory.simple_random_joint(0, 0),
        lambda: theory.joint_inclusion(fw.Poisson(), [0.5, np.nan]),
    ],
)
def test_what_cannot_be_divided_is_said(call: Callable[[], object]) -> None:
    with pytest.raises(fw.FadewiseError):
        call()


def test_equal_worth_is_not_equal_variance() -> None:
    """The study's last table: the common part cancels under draws of a fixed size, and nowhere else."""
    worth, by_draw = frontier.variances(rounds=2)
    assert worth == pytest.approx(4, abs=0.15)
    assert by_draw["lyapunov"] == pytest.approx(by_draw["uniform, Poisson"], rel=0.05)
    assert by_draw["uniform"] == pytest.approx([0.24, 0.12, 0.024])
    assert by_draw["lyapunov, systematic draw"][2] < 0.3 * by_draw["lyapunov"][2]
