"""A round's costs against the same sums written out plainly."""

import math

import numpy as np
import pytest

import fadewise as fw
from fadewise.ledger import Costs, Ledger
from fadewise.randomness import Stream
from fadewise.sampling import drawn

DEVICES = 40


def experiment(
    sampling: fw.Poisson | fw.TopK, airtime_weight: float, access: fw.TDMA | fw.FDMA, *, switched: bool = True
) -> fw.Experiment:
    rng = np.random.default_rng(0)
    link = fw.Link.physical(
        2e6,
        3e6,
        peak_power_w=rng.uniform(1, 2, DEVICES),
        mean_power_w=rng.uniform(0.01, 0.1, DEVICES),
        noise_density_w_hz=1e-9,
    )
    policy = fw.Lyapunov(link, DEVICES, airtime_weight=airtime_weight, data_shares=rng.dirichlet(np.full(DEVICES, 3)))
    fading = fw.Rayleigh(rng.uniform(0.01, 1, DEVICES))
    channel = fw.Switched(fading) if switched else fading
    return fw.Experiment(DEVICES, channel, policy, sampling, access, rounds=60)


@pytest.mark.parametrize("sampling", [fw.Poisson(), fw.Poisson("published"), fw.TopK(3)], ids=str)
@pytest.mark.parametrize("airtime_weight", [0.1, 100.0])
@pytest.mark.parametrize("switched", [True, False])
def test_costs_are_their_definitions(sampling: fw.Poisson | fw.TopK, airtime_weight: float, switched: bool) -> None:
    e = experiment(sampling, airtime_weight, fw.TDMA(overhead_s=2.0), switched=switched)
    link, ledger, spent = e.policy.link, Ledger(e.policy, e.access), np.zeros(DEVICES)
    fallbacks = 0
    for played in fw.play_all(e):
        costs = ledger.enter(played)
        on = np.flatnonzero(played.gains > 0)
        q, power, shares = (
            x[on] for x in (played.decision.probability, played.decision.power, np.asarray(e.policy.shares))
        )
        tau = link.payload_bits / (link.bandwidth_hz * np.log2(1 + played.gains[on] * power / link.noise_power))
        draw = played.draw
        if draw.population_inclusion is None:
            pi = np.isin(on, draw.devices).astype(float)
        else:
            nobody, last = float(np.prod(1 - q)), int(q.argmax())
            pi = q + nobody * (np.arange(len(on)) == last)
            np.testing.assert_allclose(costs.variance_factor, np.mean(1 / pi))
        np.testing.assert_allclose(costs.participants, pi.sum())
        np.testing.assert_allclose(costs.airtime_s, (pi * tau).sum())
        np.testing.assert_allclose(costs.round_time_s, (pi * tau).sum() + 2)
        np.testing.assert_allclose(costs.power, (pi * power).sum() / DEVICES)
        np.testing.assert_allclose(costs.power_ratio, (pi * power / link.mean_power[on]).sum() / DEVICES)  # type: ignore[index]
        np.testing.assert_allclose(costs.energy, (pi * power * tau).sum())
        y0 = (DEVICES * shares**2 / q + airtime_weight * q * tau).sum()
        np.testing.assert_allclose(costs.objective, y0)
        np.testing.assert_allclose(costs.excluded_share, 1 - shares.sum(), atol=1e-12)
        assert costs.fallback == draw.fallback
        fallbacks += draw.fallback
        spent[on] += pi * power
        np.testing.assert_allclose(ledger.spent, spent)
    assert isinstance(sampling, fw.TopK) or airtime_weight < 1 or fallbacks


@pytest.mark.parametrize(
    "access", [fw.TDMA(overhead_s=0.1, compute_s=0.2), fw.FDMA(overhead_s=0.1, compute_s=0.2)], ids=str
)
def test_costs_are_what_draws_cost_on_average(access: fw.TDMA | fw.FDMA) -> None:
    e = experiment(fw.Poisson(), 3.0, access)
    states = fw.begin(e)
    first, _ = fw.play(e, states, 0)
    costs, realised = [], []
    for t in range(4000):
        draw = e.sampling.draw(first.decision, Stream(7, t))
        times = e.access.times(e.policy.link, first.gains, draw)
        costs.append(Ledger(e.policy, e.access).enter(first._replace(draw=draw, times=times)))
        energy = float((draw.power * times.upload_s).sum())
        realised.append((len(draw.devices), times.airtime_s, times.round_time_s, energy))
    means = np.mean(realised, axis=0)
    errors = np.std(realised, axis=0) / math.sqrt(len(realised))
    for at, name in enumerate(("participants", "airtime_s", "round_time_s", "energy")):
        ours = np.array([getattr(c, name) for c in costs])
        assert abs(ours.mean() - means[at]) < 4 * errors[at]
        if name == "participants" or (name == "airtime_s" and access.adds_up):
            assert np.ptp(ours) < 1e-9 * ours.mean(), "the draw's own noise does not enter"


def test_sums_are_the_same_in_blocks() -> None:
    """Above one block of devices, with all that is per device in arrays."""
    devices = 40_000
    link = fw.Link(22e6, 1e6, mean_power=np.linspace(0.5, 2, devices))
    policy = fw.Lyapunov(link, devices, airtime_weight=1000.0)
    e = fw.Experiment(devices, fw.Switched(fw.Rayleigh(2.0)), policy, rounds=1)
    (played,) = fw.play_all(e)
    costs = Ledger(policy, e.access).enter(played)
    q = played.decision.probability
    np.testing.assert_allclose(costs.participants, q.sum())
    np.testing.assert_allclose(costs.variance_factor, np.mean(1 / q[q > 0]))
    np.testing.assert_allclose(costs.power_ratio, np.mean(q * played.decision.power / link.mean_power))


def test_a_policy_without_lambda_has_no_objective() -> None:
    policy = fw.Uniform(fw.Link(22e6, 1e6), 10, participants=2)
    (played,) = fw.play_all(fw.Experiment(10, fw.Rayleigh(1.0), policy, rounds=1))
    assert math.isnan(Ledger(policy, fw.TDMA()).enter(played).objective)
    assert len(Costs._fields) == 10


def test_energy_with_shared_bands_is_that_of_the_draws() -> None:
    """Under FDMA each of those who send is on the air with its own share of the band, and spends as long as it is."""
    e = experiment(fw.Poisson(), 3.0, fw.FDMA())
    link, ledger, energies = e.policy.link, Ledger(e.policy, e.access), []
    for played in fw.play_all(e):
        draw, gains = played.draw, played.gains
        k = max(len(draw.devices), 1)
        rate = link.bandwidth_hz / k * np.log2(1 + k * gains[draw.devices] * draw.power / link.noise_power)
        expected = float((draw.power * link.payload_bits / rate).sum())
        assert ledger.enter(played).energy == pytest.approx(expected)
        energies.append(expected)
    assert np.mean(energies) > 0


def test_a_device_without_a_chance_is_infinite_and_nobody_at_all_is_no_number() -> None:
    policy = fw.Uniform(fw.Link(22e6, 1e6), 3, participants=1, airtime_weight=1.0)
    (played,) = fw.play_all(fw.Experiment(3, fw.Rayleigh(1.0), policy, rounds=1))
    nobody = np.zeros(3)
    none_wanted = played._replace(
        decision=played.decision._replace(probability=nobody, power=nobody),
        draw=drawn(played.decision, np.empty(0, np.int64), nobody),
    )
    costs = Ledger(policy, fw.TDMA()).enter(none_wanted)
    assert costs.variance_factor == costs.objective == math.inf
    assert costs.participants == costs.power == 0
    costs = Ledger(policy, fw.TDMA()).enter(none_wanted._replace(gains=nobody))
    assert math.isnan(costs.variance_factor)
    assert math.isnan(costs.objective)
