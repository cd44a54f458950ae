"""The paper's policy: exact against brute force, published against a transcription, the queue as printed."""

from typing import Literal

import numpy as np
import pytest
from scipy.special import lambertw

import fadewise as fw
from fadewise.policies.lyapunov import Backlog

Array = np.ndarray


def cost(power: Array, gains: Array, backlog: Array, link: fw.Link, policy: fw.Lyapunov) -> Array:
    """c(P) = V·λ·ℓ/C(P) + Z·P, as printed."""
    with np.errstate(divide="ignore", over="ignore"):
        capacity = link.bandwidth_hz / np.log(2) * np.log1p(gains * power / link.noise_power)
        return np.asarray(
            policy.penalty_weight * policy.airtime_weight * link.payload_bits / capacity + backlog * power
        )


def objective(q: Array, power: Array, gains: Array, backlog: Array, link: fw.Link, policy: fw.Lyapunov) -> Array:
    curvature = policy.population * np.square(policy.shares)
    per_probability = cost(power, gains, backlog, link, policy)
    return np.asarray(policy.penalty_weight * curvature / q + q * per_probability)


def brute_force(gains: Array, backlog: Array, link: fw.Link, policy: fw.Lyapunov) -> Array:
    """The least objective: golden section over ln P (c is convex in P), then q by its own formula."""
    peak = np.broadcast_to(np.log(link.peak_power), gains.shape)
    low, high = peak - 250, peak.copy()
    ratio = (np.sqrt(5) - 1) / 2
    for _ in range(120):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        left = cost(np.exp(a), gains, backlog, link, policy) < cost(np.exp(b), gains, backlog, link, policy)
        low, high = np.where(left, low, a), np.where(left, b, high)
    inner = np.exp((low + high) / 2)
    power = np.where(
        cost(inner, gains, backlog, link, policy) < cost(np.exp(peak), gains, backlog, link, policy),
        inner,
        np.exp(peak),
    )
    curvature = policy.population * np.square(policy.shares)
    q = np.minimum(1, np.sqrt(policy.penalty_weight * curvature / cost(power, gains, backlog, link, policy)))
    return objective(q, power, gains, backlog, link, policy)


def random_setting(rng: np.random.Generator, peaks: int | None = None) -> tuple[fw.Link, fw.Lyapunov]:
    """One peak power for all devices, or so many of their own."""
    link = fw.Link(
        bandwidth_hz=10 ** rng.uniform(4, 9),
        payload_bits=10 ** rng.uniform(3, 10),
        peak_power=10 ** rng.uniform(-2, 4, peaks),
        mean_power=10 ** rng.uniform(-3, 2),
        noise_power=10 ** rng.uniform(-14, 3),
    )
    policy = fw.Lyapunov(
        link,
        population=int(10 ** rng.uniform(0, 9)),
        airtime_weight=10 ** rng.uniform(-3, 5),
        penalty_weight=10 ** rng.uniform(-2, 6),
    )
    return link, policy


def extreme_states(rng: np.random.Generator, devices: int) -> tuple[Array, Array]:
    gains = 10 ** rng.uniform(-12, 12, devices)
    backlog = np.where(rng.random(devices) < 0.1, 0.0, 10 ** rng.uniform(-12, 12, devices))
    backlog[0], gains[0] = 1e12, 1e-12
    backlog[1], gains[1] = 0.0, 1e12
    return gains, backlog


def test_objective_is_within_1e12_of_brute_force_over_20000_settings() -> None:
    rng = np.random.default_rng(0)
    worst = 0.0
    for setting in range(500):
        link, policy = random_setting(rng, peaks=40 if setting % 2 else None)
        gains, backlog = extreme_states(rng, 40)
        decision, _ = policy.decide(Backlog(backlog), gains)
        q, power = decision.probability, decision.power
        assert ((q > 0) & (q <= 1)).all()
        assert ((power > 0) & (power <= link.peak_power)).all()
        ours = objective(q, power, gains, backlog, link, policy)
        worst = max(worst, float((ours / brute_force(gains, backlog, link, policy) - 1).max()))
    assert worst < 1e-12


def test_data_shares_enter_the_objective() -> None:
    rng = np.random.default_rng(1)
    devices = 60
    shares = rng.dirichlet(np.ones(devices))
    for _ in range(50):
        link, _ = random_setting(rng)
        policy = fw.Lyapunov(link, population=devices, airtime_weight=10.0, data_shares=shares)
        gains, backlog = extreme_states(rng, devices)
        decision, _ = policy.decide(Backlog(backlog), gains)
        ours = objective(decision.probability, decision.power, gains, backlog, link, policy)
        np.testing.assert_array_less(ours / brute_force(gains, backlog, link, policy), 1 + 1e-12)
    np.testing.assert_array_equal(decision.shares, shares)


def test_equal_data_shares_are_the_paper() -> None:
    link, gains = fw.Link(22e6, 32 * 555_178), np.random.default_rng(2).exponential(2, 100)
    state = Backlog(np.linspace(0, 900, 100))
    plain, _ = fw.Lyapunov(link, 100, airtime_weight=100.0).decide(state, gains)
    shared, _ = fw.Lyapunov(link, 100, airtime_weight=100.0, data_shares=np.full(100, 0.01)).decide(state, gains)
    np.testing.assert_allclose(shared.probability, plain.probability, rtol=1e-14)


def test_no_nan_and_no_zero_far_beyond_any_real_channel() -> None:
    link = fw.Link(22e6, 32 * 555_178)
    policy = fw.Lyapunov(link, population=100, airtime_weight=100.0)
    gains, backlog = (
        x.ravel() for x in np.meshgrid(10.0 ** np.arange(-290, 291, 10), 10.0 ** np.arange(-300, 301, 10))
    )
    decision, state = policy.decide(Backlog(backlog), gains)
    for values in (*decision[:2], state.backlog):
        assert np.isfinite(values).all()
    assert (decision.probability >= 0).all()
    assert (decision.probability[gains > 1e-12] > 0).all()


def transcription(gains: float, backlog: float, link: fw.Link, policy: fw.Lyapunov) -> tuple[float, float]:
    """Algorithm 2 and Theorem 2, line by line, for one device; SciPy's W0."""
    h2, n0, ell, b = gains, link.noise_power, link.payload_bits, link.bandwidth_hz
    v, lam, n, p_max = policy.penalty_weight, policy.airtime_weight, policy.population, float(link.peak_power)

    def q_opt(power: float) -> float:
        capacity = b * np.log2(1 + h2 * power / n0)
        return float((lam * ell * n / capacity + n / v * backlog * power) ** -0.5)

    if backlog == 0:  # the line for t = 0
        return min(max(np.sqrt(b * np.log2(1 + h2 * p_max / n0) / (n * lam * ell)), 0), 1), p_max
    a = v * lam * ell * h2 * np.log(2) ** 2 / (n0 * b * backlog)
    power = n0 / h2 * (a / 4 * lambertw(np.sqrt(a / 4)).real ** -2 - 1)
    q = q_opt(power)
    if 0 <= power <= p_max and 0 < q <= 1:
        return q, power
    return min(q_opt(p_max), 1), p_max


def test_published_variant_is_the_paper_digit_for_digit() -> None:
    rng = np.random.default_rng(3)
    else_branch = capped = interior = 0
    for _ in range(300):
        population = int(rng.integers(1, 200))
        link = fw.Link(22e6, 32 * 555_178, peak_power=10 ** rng.uniform(0, 3))
        policy = fw.Lyapunov(
            link,
            population,
            airtime_weight=10 ** rng.uniform(-3, 3),
            penalty_weight=10 ** rng.uniform(0, 5),
            variant="published",
        )
        gains = 10 ** rng.uniform(-1, 2, 40)
        backlog = np.where(rng.random(40) < 0.1, 0, 10 ** rng.uniform(-2, 5, 40))
        decision, _ = policy.decide(Backlog(backlog), gains)
        printed = np.array([transcription(g, z, link, policy) for g, z in zip(gains, backlog, strict=True)])
        # All digits that the printed forms have: where x - 1 = gP is small, both P and log2(x) lose some.
        digits = 2e-14 * (1 + 1 / (gains * printed[:, 1]))
        assert (np.abs(decision.probability / printed[:, 0] - 1) < digits).all()
        assert (np.abs(decision.power / printed[:, 1] - 1) < digits).all()
        at_peak = printed[:, 1] == link.peak_power
        exact, _ = fw.Lyapunov(link, population, policy.airtime_weight, policy.penalty_weight).decide(
            Backlog(backlog), gains
        )
        else_branch += int((at_peak & (exact.power < link.peak_power)).sum())
        capped += int((at_peak & (exact.power == link.peak_power)).sum())
        interior += int((~at_peak).sum())
    assert min(else_branch, capped, interior) > 500, "the test must reach every branch"


@pytest.mark.parametrize("devices", [57, 32_768 + 5])
def test_published_decides_for_all_as_for_each_alone_bit_for_bit(devices: int) -> None:
    rng = np.random.default_rng(6)
    policy = fw.Lyapunov(fw.Link(22e6, 32 * 555_178), devices, airtime_weight=30.0, variant="published")
    gains, backlog = extreme_states(rng, devices)
    together, _ = policy.decide(Backlog(backlog), gains)
    for n in (*range(57), devices - 1):
        alone, _ = policy.decide(Backlog(backlog[n : n + 1]), gains[n : n + 1])
        assert alone.probability.tobytes() == together.probability[n : n + 1].tobytes()
        assert alone.power.tobytes() == together.power[n : n + 1].tobytes()


def test_what_the_papers_errors_cost() -> None:
    """Points 1 and 2 of the errata: up to 0.84% from ln 2; the else branch without bound."""
    rng = np.random.default_rng(4)
    from_ln2, from_else = [1.0], [1.0]
    for _ in range(400):
        link = fw.Link(22e6, 32 * 555_178)
        population, lam, v = int(10 ** rng.uniform(0.5, 4)), 10 ** rng.uniform(-2, 3), 10 ** rng.uniform(0, 5)
        gains, backlog = 10 ** rng.uniform(-2, 2, 10), 10 ** rng.uniform(-2, 5, 10)
        exact = fw.Lyapunov(link, population, lam, v)
        published = fw.Lyapunov(link, population, lam, v, variant="published")
        e, _ = exact.decide(Backlog(backlog), gains)
        p, _ = published.decide(Backlog(backlog), gains)
        excess = objective(p.probability, p.power, gains, backlog, link, exact) / objective(
            e.probability, e.power, gains, backlog, link, exact
        )
        assert (excess > 1 - 1e-12).all()
        in_else = (p.power == link.peak_power) & (e.power < link.peak_power) & (e.probability == 1)
        from_else.extend(excess[in_else])
        from_ln2.extend(excess[~in_else])
    assert 1.005 < max(from_ln2) < 1.0085
    assert max(from_else) > 10


def test_queue_is_the_papers() -> None:
    link = fw.Link(22e6, 32 * 555_178, mean_power=0.7)
    policy = fw.Lyapunov(link, population=50, airtime_weight=10.0)
    rng = np.random.default_rng(5)
    state = policy.init(50)
    for _ in range(20):
        gains = rng.exponential(2, 50)
        decision, after = policy.decide(state, gains)
        expected = np.maximum(state.backlog + decision.power * decision.probability - 0.7, 0)
        np.testing.assert_array_equal(after.backlog, expected)
        state = after


@pytest.mark.parametrize("variant", ["exact", "published"])
def test_every_device_obeys_its_own_peak(variant: Literal["exact", "published"]) -> None:
    """Also where all are below the highest peak, so that no power looks too large at a glance."""
    peaks = np.array([1.0, 1e4])
    policy = fw.Lyapunov(fw.Link(22e6, 32 * 555_178, peak_power=peaks), 100, 100.0, variant=variant)
    decision, _ = policy.decide(Backlog(np.full(2, 20.0)), np.ones(2))
    assert 1 < decision.power[1] < 1e4
    assert decision.power[0] == 1
    within = fw.Lyapunov(fw.Link(22e6, 32 * 555_178, peak_power=peaks * 1e3), 100, 100.0, variant=variant)
    # Above the lowest of the peaks, and each below its own.
    quiet = within.decide(Backlog(np.array([20.0, 1e-3])), np.ones(2))[0].power
    assert quiet[0] < 1e3 < quiet[1] < 1e7
    ours = objective(*decision[:2], np.ones(2), np.full(2, 20.0), policy.link, policy)
    assert ours[0] == pytest.approx(brute_force(np.ones(2), np.full(2, 20.0), policy.link, policy)[0], rel=1e-12)


def test_unreachable_device_takes_no_part_and_its_queue_goes_on() -> None:
    policy = fw.Lyapunov(fw.Link(22e6, 32 * 555_178), population=4, airtime_weight=10.0)
    decision, state = policy.decide(Backlog(np.array([0.0, 0.0, 3.0, 0.5])), np.array([1.0, 0.0, 0.0, 0.0]))
    assert decision.probability[0] > 0
    assert decision.probability[1:].tolist() == decision.power[1:].tolist() == [0, 0, 0]
    assert state.backlog[1:].tolist() == [0, 2, 0]


def test_asked_device_counts_its_power() -> None:
    policy = fw.Lyapunov(fw.Link(22e6, 32 * 555_178), population=5, airtime_weight=1e7)
    state = policy.init(5)
    gains = np.array([1.0, 2.0, 8.0, 4.0, 1.0])
    decision, state = policy.decide(state, gains)
    draw = fw.draw(decision, seed=0, round=0)
    assert draw.fallback
    assert draw.devices.tolist() == draw.asked.tolist() == [2]
    after = policy.observe(state, fw.Feedback(draw))
    np.testing.assert_array_equal(after.backlog - state.backlog, [0, 0, decision.power[2], 0, 0])
    published = fw.draw(decision, seed=0, round=0, sampling=fw.Poisson(fallback="published"))
    assert policy.observe(state, fw.Feedback(published)) is state


@pytest.mark.parametrize("value", [np.nan, -1.0, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 7, 20_000])
def test_bad_gain_is_refused_with_the_index_of_the_device(value: float, at: int) -> None:
    policy = fw.Lyapunov(fw.Link(22e6, 32 * 555_178), population=30_000, airtime_weight=10.0)
    gains = np.ones(30_000)
    gains[at] = value
    with pytest.raises(fw.FadewiseError, match=rf"the channel gain of device {at} is {value}; it must be a finite"):
        policy.decide(policy.init(30_000), gains)


def test_wrong_number_of_gains_is_refused() -> None:
    policy = fw.Lyapunov(fw.Link(22e6, 32 * 555_178), population=3, airtime_weight=10.0)
    with pytest.raises(fw.FadewiseError, match=r"there must be one gain for each of 3 devices"):
        policy.decide(policy.init(3), np.ones(4))


def test_shares_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(fw.FadewiseError, match=r"data_shares add up to 1.5; they must add up to 1"):
        fw.Lyapunov(fw.Link(1e6, 1e6), population=3, airtime_weight=1.0, data_shares=np.full(3, 0.5))


def mean_power(policy: fw.Lyapunov, rounds: int) -> float:
    link = policy.link
    channel = fw.Bounded(link, fw.Rayleigh(2.0))
    experiment = fw.Experiment(100, channel, policy, rounds=rounds)
    return fw.plan(experiment).mean_power.value


def test_warm_start_spends_the_mean_power_from_the_first_round() -> None:
    link = fw.Link(22e6, 32 * 555_178)
    cold = mean_power(fw.Lyapunov(link, 100, airtime_weight=100.0), 300)
    warm = mean_power(fw.Lyapunov(link, 100, airtime_weight=100.0, warm_start_rounds=100), 300)
    assert 1.25 < cold < 1.4
    assert 0.97 < warm < 1.03


@pytest.mark.parametrize("penalty_weight", [1e-3, 1e3, 1e9])
@pytest.mark.parametrize("airtime_weight", [1e-2, 10.0])
def test_warm_start_meets_the_limit_in_watts_too(penalty_weight: float, airtime_weight: float) -> None:
    """Over the gains seen, exactly, wherever the limit binds; the backlog then is anything from 1e-6 to 1e20."""
    link = fw.Link.physical(
        20e6, 1.8e7, peak_power_dbm=23.0, mean_power_dbm=np.linspace(-10, 20, 20), noise_density_dbm_hz=-174.0
    )
    policy = fw.Lyapunov(link, 20, airtime_weight, penalty_weight)
    gains = np.random.default_rng(0).exponential(1, (60, 20)) * 10 ** np.linspace(-13, -9, 20)
    gains[::7] = 0
    state = policy.warm_started(policy.init(20), gains)

    def spent(of: Backlog) -> Array:
        decisions = [policy.decide(of, row)[0] for row in gains]
        return np.asarray(np.mean([d.power * d.probability for d in decisions], axis=0) / link.mean_power)

    binds = spent(policy.init(20)) > 1
    assert binds.sum() > 10
    np.testing.assert_allclose(spent(state)[binds], 1, rtol=1e-4)
    assert (state.backlog[~binds] == 0).all()


def test_warm_start_of_a_device_that_was_never_in_reach_is_zero() -> None:
    policy = fw.Lyapunov(fw.Link(22e6, 1e7), 2, 10.0)
    state = policy.warm_started(policy.init(2), np.array([[0.0, 1.0], [0.0, 2.0]]))
    assert state.backlog[0] == 0
    assert np.isfinite(state.backlog).all()


@pytest.mark.parametrize("gains", [["a", "b"], [1j, 2j], [[1.0], [1.0, 2.0]], [None, 1.0], [True, False]])
def test_gains_that_are_no_numbers_are_refused(gains: object) -> None:
    policy = fw.Lyapunov(fw.Link(22e6, 1e7), 2, 10.0)
    with pytest.raises(fw.FadewiseError, match=r"^gains are .*; they must be real numbers"):
        policy.decide(policy.init(2), gains)  # type: ignore[arg-type]


def test_a_policy_without_a_link_is_refused() -> None:
    for make in (fw.Lyapunov, fw.Uniform, fw.UniformPoisson):
        with pytest.raises(fw.FadewiseError, match=r"^link is None; it must be a Link"):
            make(None, 10, 1.0)  # type: ignore[arg-type]


def test_who_spends_what_where_devices_come_and_go() -> None:
    """On half of the time: uniform choice spends half of the limit, the queue all of it."""
    link, channel = fw.Link(22e6, 32 * 555_178), fw.Switched(fw.Rayleigh(2.0))
    uniform = fw.plan(fw.Experiment(50, channel, fw.Uniform(link, 50, 4.0), rounds=1500))
    # 50 switches over 1,500 rounds, correlated over ten of them: a deviation of 0.6%.
    assert uniform.running_power[-1] == pytest.approx(0.5, abs=0.025)
    policy = fw.Lyapunov(link, 50, airtime_weight=10.0, warm_start_rounds=200)
    assert fw.plan(fw.Experiment(50, channel, policy, rounds=1500)).running_power[-1] > 0.95


@pytest.mark.parametrize("weight", [1e-300, 1e-310, 1e200])
def test_weights_that_floats_cannot_carry_are_refused(weight: float) -> None:
    for settings in ({"airtime_weight": weight}, {"airtime_weight": 1.0, "penalty_weight": weight}):
        with pytest.raises(fw.FadewiseError, match=r"it must be from 1e-50 to 1e\+50"):
            fw.Lyapunov(fw.Link(22e6, 1e7), 10, **settings)  # type: ignore[arg-type]
    with pytest.raises(fw.FadewiseError, match=r"^peak_power is .*; it must be from"):
        fw.Link(22e6, 1e7, peak_power=weight)


@pytest.mark.parametrize("extreme", [1e-50, 1e50])
def test_at_the_ends_of_the_range_decisions_are_numbers(extreme: float) -> None:
    for settings in ({"payload_bits": extreme}, {"bandwidth_hz": extreme}, {"noise_power": extreme}):
        link = fw.Link(**{"bandwidth_hz": 1e7, "payload_bits": 1e7} | settings)  # type: ignore[arg-type]
        for weights in ((extreme, 1.0), (1.0, extreme), (extreme, extreme)):
            policy = fw.Lyapunov(link, 3, *weights)
            decision, state = policy.decide(Backlog(np.array([0.0, 1e-9, 1e9])), np.array([1e-3, 1.0, 1e3]))
            for values in (decision.probability, decision.power, state.backlog):
                assert np.isfinite(values).all()


def test_above_the_lowest_peak_power_and_below_ones_own() -> None:
    link = fw.Link(22e6, 1.7e6, peak_power=np.array([1.0, 100.0]))
    policy = fw.Lyapunov(link, 2, airtime_weight=100.0)
    state, gains = Backlog(np.array([1e6, 1e2])), np.array([2.0, 2.0])
    decision, _ = policy.decide(state, gains)
    assert decision.power[0] < 1.0 < decision.power[1] < 100.0
    for device in range(2):
        alone = fw.Lyapunov(link.of_device(device), 2, airtime_weight=100.0)
        one, _ = alone.decide(Backlog(state.backlog[device : device + 1]), gains[device : device + 1])
        assert one.power[0] == decision.power[device]
        assert one.probability[0] == decision.probability[device]
