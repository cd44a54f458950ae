"""Round times: TDMA against all orders of sending, FDMA against its definition."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import fadewise as fw

LINK = fw.Link(22e6, 1e6, noise_power=0.7)
POPULATION = 9


def drawn(devices: list[int], power: Any) -> fw.Draw:
    chosen = np.array(devices, dtype=np.int64)
    return fw.Draw(
        devices=chosen,
        inclusion=np.full(len(chosen), 0.5),
        power=np.broadcast_to(np.asarray(power, dtype=np.float64), chosen.shape).copy(),
        shares=1 / POPULATION,
        population_inclusion=np.full(POPULATION, 0.5),
        asked=np.empty(0, np.int64),
        fallback=False,
    )


def end_of(order: tuple[int, ...], ready_s: list[float], upload_s: list[float]) -> float:
    """When the last has sent, each in turn, none before it has computed."""
    now = 0.0
    for n in order:
        now = max(now, ready_s[n]) + upload_s[n]
    return now


@pytest.mark.parametrize("participants", [1, 2, 3, 4, 5])
def test_tdma_sends_in_the_order_that_ends_first(participants: int) -> None:
    rng = np.random.default_rng(participants)
    for _ in range(30):
        devices = sorted(rng.choice(POPULATION, participants, replace=False).tolist())
        gains = rng.exponential(1.0, POPULATION) + 0.01
        power = rng.uniform(0.1, 5.0, participants)
        # Computing takes about as long as sending, for some no time at all and for some the same time.
        compute_s = rng.choice([0.0, 0.05, rng.uniform(0, 0.2), rng.uniform(0, 0.2)], POPULATION)
        draw = drawn(devices, power)
        times = fw.TDMA(compute_s=compute_s).times(LINK, gains, draw)
        upload_s = [float(LINK.airtime_s(gains[[n]], p)[0]) for n, p in zip(devices, power, strict=True)]
        ready_s = compute_s[devices].tolist()
        best = min(end_of(order, ready_s, upload_s) for order in itertools.permutations(range(participants)))
        assert times.round_time_s == pytest.approx(best, rel=1e-12)
        assert times.airtime_s == pytest.approx(sum(upload_s), rel=1e-12)
        assert times.upload_s.tolist() == pytest.approx(upload_s, rel=1e-12)


def test_tdma_without_computing_is_the_papers_sum() -> None:
    gains = np.linspace(0.1, 2, POPULATION)
    times = fw.TDMA().times(LINK, gains, drawn([1, 4, 8], 3.0))
    airtimes = [1e6 / (22e6 * math.log2(1 + gains[n] * 3.0 / 0.7)) for n in (1, 4, 8)]
    assert times.airtime_s == pytest.approx(sum(airtimes), rel=1e-12)
    assert times.round_time_s == times.airtime_s


@pytest.mark.parametrize("participants", [1, 2, 3, 7])
def test_fdma_gives_each_its_part_of_the_band_and_waits_for_the_slowest(participants: int) -> None:
    rng = np.random.default_rng(participants)
    devices = sorted(rng.choice(POPULATION, participants, replace=False).tolist())
    gains, compute_s = rng.exponential(1.0, POPULATION), rng.uniform(0, 0.5, POPULATION)
    power = rng.uniform(0.1, 5.0, participants)
    times = fw.FDMA(compute_s=compute_s).times(LINK, gains, drawn(devices, power))
    k = participants
    uploads = [1e6 / (22e6 / k * math.log2(1 + gains[n] * p / (0.7 / k))) for n, p in zip(devices, power, strict=True)]
    assert times.upload_s.tolist() == pytest.approx(uploads, rel=1e-12)
    assert times.airtime_s == pytest.approx(max(uploads), rel=1e-12)
    ends = [compute_s[n] + upload for n, upload in zip(devices, uploads, strict=True)]
    assert times.round_time_s == pytest.approx(max(ends), rel=1e-12)


def test_for_one_participant_both_are_the_same() -> None:
    gains = np.linspace(0.1, 2, POPULATION)
    draw = drawn([3], 2.0)
    settings: dict[str, Any] = {"overhead_s": 0.25, "compute_s": 0.5}
    np.testing.assert_allclose(
        np.hstack(fw.FDMA(**settings).times(LINK, gains, draw)),
        np.hstack(fw.TDMA(**settings).times(LINK, gains, draw)),
        rtol=1e-14,
    )


@pytest.mark.parametrize("access", [fw.TDMA, fw.FDMA])
def test_an_empty_round_lasts_its_overhead(access: type[fw.TDMA] | type[fw.FDMA]) -> None:
    times = access(overhead_s=0.25, compute_s=9.0).times(LINK, np.ones(POPULATION), drawn([], 1.0))
    assert times[:2] == (0.0, 0.25)
    assert not len(times.upload_s)


@pytest.mark.parametrize("access", [fw.TDMA, fw.FDMA])
def test_overhead_is_added_to_the_round_and_not_to_airtime(access: type[fw.TDMA] | type[fw.FDMA]) -> None:
    gains, draw = np.linspace(0.1, 2, POPULATION), drawn([0, 2, 5], 1.0)
    without, with_it = access().times(LINK, gains, draw), access(overhead_s=3.5).times(LINK, gains, draw)
    assert with_it.airtime_s == without.airtime_s
    assert with_it.round_time_s == pytest.approx(without.round_time_s + 3.5, rel=1e-14)


@pytest.mark.parametrize("access", [fw.TDMA, fw.FDMA])
def test_only_participants_are_waited_for(access: type[fw.TDMA] | type[fw.FDMA]) -> None:
    compute_s = np.array([0.0, 1e6, 0.0, *[1e6] * (POPULATION - 3)])
    gains, draw = np.ones(POPULATION), drawn([0, 2], 1.0)
    late, at_once = access(compute_s=compute_s).times(LINK, gains, draw), access().times(LINK, gains, draw)
    np.testing.assert_array_equal(np.hstack(late), np.hstack(at_once))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"overhead_s": -1}, "overhead_s is -1; it must be a number at least 0"),
        ({"overhead_s": "long"}, "overhead_s is 'long'; it must be a number at least 0"),
        ({"overhead_s": float("nan")}, "overhead_s is nan; it must be a number at least 0"),
        ({"compute_s": [1.0, -1.0]}, "compute_s of device 1 is -1.0; it must be a number at least 0"),
        ({"compute_s": np.ones((2, 2))}, "compute_s has shape (2, 2); it must be one number, or one number a device"),
    ],
)
def test_times_that_cannot_be_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(fw.FadewiseError) as raised:
        fw.TDMA(**settings)
    assert str(raised.value) == said


def test_computing_times_of_other_devices_are_refused() -> None:
    with pytest.raises(fw.FadewiseError, match="compute_s"):
        fw.TDMA(compute_s=np.ones(2)).times(LINK, np.ones(POPULATION), drawn([5], 1.0))
