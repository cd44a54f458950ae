"""Rate and airtime against the paper's formula, units, and what a link refuses."""

import math
from typing import Any

import numpy as np
import pytest

import fadewise as fw

GAINS = np.array([1e-6, 0.01, 0.3, 1.0, 7.0, 1e6])


def test_rate_and_airtime_are_shannons() -> None:
    link = fw.Link(22e6, 1e6, noise_power=0.5)
    for gain in GAINS:
        rate = 22e6 * math.log2(1 + gain * 3.0 / 0.5)
        np.testing.assert_allclose(link.rate(np.array([gain]), 3.0), [rate], rtol=1e-9)
        np.testing.assert_allclose(link.airtime_s(np.array([gain]), 3.0), [1e6 / rate], rtol=1e-9)


def test_a_weak_signal_keeps_its_digits() -> None:
    """log2(1 + x) is x/ln 2 for small x; computed naively it is 0."""
    link = fw.Link(1.0, 1.0)
    np.testing.assert_allclose(link.rate(np.array([1e-20]), 1.0), [1e-20 / math.log(2)], rtol=1e-14)


def test_a_share_of_the_band_has_that_share_of_its_noise() -> None:
    link = fw.Link(22e6, 1e6, noise_power=0.5)
    alone = fw.Link(22e6 / 4, 1e6, noise_power=0.5 / 4)
    np.testing.assert_allclose(link.rate(GAINS, 2.0, share_of_band=0.25), alone.rate(GAINS, 2.0), rtol=1e-14)
    np.testing.assert_allclose(link.airtime_s(GAINS, 2.0, 0.25), alone.airtime_s(GAINS, 2.0), rtol=1e-14)


def test_power_may_be_one_each() -> None:
    link = fw.Link(22e6, 1e6)
    power = np.linspace(1, 6, 6)
    each = [link.rate(GAINS[n : n + 1], float(power[n]))[0] for n in range(6)]
    assert link.rate(GAINS, power).tolist() == each


def test_what_carries_nothing_takes_for_ever() -> None:
    link = fw.Link(22e6, 1e6)
    assert link.airtime_s(np.array([0.0, 1.0]), np.array([1.0, 0.0])).tolist() == [math.inf, math.inf]


def test_only_the_ratio_to_the_noise_matters() -> None:
    one, other = fw.Link(22e6, 1e6), fw.Link(22e6, 1e6, noise_power=1e-13)
    np.testing.assert_allclose(one.rate(GAINS, 2.0), other.rate(GAINS, 2e-13), rtol=1e-12)


@pytest.mark.parametrize(("dbm", "watts"), [(0.0, 1e-3), (30.0, 1.0), (20.0, 0.1), (-30.0, 1e-6), (23.0, 0.19952623)])
def test_dbm(dbm: float, watts: float) -> None:
    link = fw.Link.physical(1e6, 1e6, peak_power_dbm=dbm, mean_power_w=1.0, noise_density_dbm_hz=dbm)
    assert link.peak_power == pytest.approx(watts, rel=1e-7)
    assert link.noise_power == pytest.approx(watts * 1e6, rel=1e-7)


def test_a_physical_link_is_in_watts_with_thermal_noise_over_its_band() -> None:
    link = fw.Link.physical(20e6, 1e6, peak_power_w=0.2, mean_power_w=0.1, noise_density_dbm_hz=-174.0)
    assert link.in_watts
    assert not fw.Link(20e6, 1e6).in_watts
    # -174 dBm/Hz over 20 MHz is -101 dBm.
    assert 10 * math.log10(link.noise_power / 1e-3) == pytest.approx(-174 + 10 * math.log10(20e6))


def test_a_device_sees_its_own_limits() -> None:
    link = fw.Link(22e6, 1e6, peak_power=np.array([1.0, 2.0, 3.0]), mean_power=0.5)
    alone = link.of_device(1)
    assert (np.asarray(alone.peak_power).tolist(), alone.mean_power) == ([2.0], 0.5)
    assert (alone.bandwidth_hz, alone.payload_bits, alone.noise_power) == (22e6, 1e6, 1.0)
    assert alone.sized(1) is alone


def test_limits_are_the_links_own() -> None:
    limits = np.array([1.0, 2.0])
    link = fw.Link(22e6, 1e6, peak_power=limits)
    limits[0] = -5.0
    assert np.asarray(link.peak_power).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(link.peak_power)[0] = 3.0


@pytest.mark.parametrize("name", ["peak_power", "mean_power"])
def test_limits_for_other_devices_are_refused(name: str) -> None:
    limits: dict[str, Any] = {name: np.ones(3)}
    link = fw.Link(22e6, 1e6, **limits)
    assert link.sized(3) is link
    with pytest.raises(fw.FadewiseError) as raised:
        link.sized(4)
    assert str(raised.value) == f"{name} has 3 values for 4 devices; it must have one each"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bandwidth_hz": 0}, "bandwidth_hz is 0; it must be a number above 0"),
        ({"bandwidth_hz": "22e6"}, "bandwidth_hz is '22e6'; it must be a number above 0"),
        ({"bandwidth_hz": None}, "bandwidth_hz is None; it must be a number above 0"),
        ({"payload_bits": -1.5}, "payload_bits is -1.5; it must be a number above 0"),
        ({"payload_bits": True}, "payload_bits is true; it must be a number above 0"),
        ({"noise_power": float("nan")}, "noise_power is nan; it must be a number above 0"),
        ({"noise_power": np.float64(0.0)}, "noise_power is 0.0; it must be a number above 0"),
        ({"peak_power": 0.0}, "peak_power is 0.0; it must be a number above 0"),
        ({"peak_power": [1.0, -2.0]}, "peak_power of device 1 is -2.0; it must be a number above 0"),
        ({"peak_power": np.ones((2, 2))}, "peak_power has shape (2, 2); it must be one number, or one number a device"),
        ({"mean_power": [np.inf]}, "mean_power of device 0 is inf; it must be a finite number above 0"),
    ],
)
def test_a_link_that_cannot_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(fw.FadewiseError) as raised:
        fw.Link(**({"bandwidth_hz": 22e6, "payload_bits": 1e6} | settings))
    assert str(raised.value) == said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"peak_power_w": None}, "give peak_power once, as peak_power_w or as peak_power_dbm"),
        ({"peak_power_dbm": 30.0}, "give peak_power once, as peak_power_w or as peak_power_dbm"),
        ({"mean_power_w": None}, "give mean_power once, as mean_power_w or as mean_power_dbm"),
        ({"noise_density_w_hz": None}, "give the noise once, as noise_density_w_hz or as noise_density_dbm_hz"),
        ({"noise_density_dbm_hz": -174.0}, "give the noise once, as noise_density_w_hz or as noise_density_dbm_hz"),
        ({"peak_power_w": 0.0}, "peak_power_w is 0.0; it must be a number above 0"),
        ({"noise_density_w_hz": 0.0}, "noise_density_w_hz is 0.0; it must be a number above 0"),
        ({"bandwidth_hz": "wide"}, "bandwidth_hz is 'wide'; it must be a number above 0"),
        (
            {"peak_power_w": None, "peak_power_dbm": [0.0, 201.0]},
            "peak_power_dbm of device 1 is 201.0; it must be a number at least -200 and at most 200",
        ),
    ],
)
def test_a_physical_link_that_cannot_be_is_refused(settings: dict[str, Any], said: str) -> None:
    good = {
        "bandwidth_hz": 22e6,
        "payload_bits": 1e6,
        "peak_power_w": 1.0,
        "mean_power_w": 1.0,
        "noise_density_w_hz": 1e-20,
    }
    with pytest.raises(fw.FadewiseError) as raised:
        fw.Link.physical(**(good | settings))
    assert str(raised.value) == said


@pytest.mark.parametrize(
    "value", [["loud"], [1 + 1j], [[1.0], [2.0, 3.0]], 10**400], ids=["word", "complex", "ragged", "huge"]
)
def test_what_is_no_number_is_refused_with_its_name(value: Any) -> None:
    with pytest.raises(fw.FadewiseError, match=r"^peak_power"):
        fw.Link(22e6, 1e6, peak_power=value)
