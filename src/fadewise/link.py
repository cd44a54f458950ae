"""What a link can carry: bandwidth, noise and power limits, and from them rate and airtime."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.checks import PerDevice
from fadewise.errors import FadewiseError


@dataclass(frozen=True, eq=False)
class Link:
    """The uplink that the devices share.

    A device with channel gain g that sends at power P carries C = B·log2(1 + g·P/N0) bit/s (the
    paper's capacity), so its update of `payload_bits` bits is on the air for payload_bits/C seconds.

    Powers are in the paper's normalised units here, where only the ratio to `noise_power` matters
    and energy has no unit. `Link.physical` takes watts or dBm, and then energy is in joules.

    `peak_power` (never exceeded) and `mean_power` (the limit on the long-run average) may be one
    number for all devices or an array with one each.
    """

    bandwidth_hz: float
    payload_bits: float
    peak_power: PerDevice = 100.0
    mean_power: PerDevice = 1.0
    noise_power: float = 1.0
    in_watts: bool = False

    def __post_init__(self) -> None:
        for name in ("bandwidth_hz", "payload_bits", "noise_power"):
            object.__setattr__(self, name, checks.positive(name, getattr(self, name)))
        for name in ("peak_power", "mean_power"):
            object.__setattr__(self, name, checks.positive_per_device(name, getattr(self, name)))

    @classmethod
    def physical(
        cls,
        bandwidth_hz: float,
        payload_bits: float,
        *,
        peak_power_w: PerDevice | None = None,
        peak_power_dbm: PerDevice | None = None,
        mean_power_w: PerDevice | None = None,
        mean_power_dbm: PerDevice | None = None,
        noise_density_w_hz: float | None = None,
        noise_density_dbm_hz: float | None = None,
    ) -> Link:
        """A link in watts: each power in watts or dBm, the noise by its density over the bandwidth.

        Gains are then true power gains (received over sent), and energy is reported in joules.
        """
        bandwidth_hz = checks.positive("bandwidth_hz", bandwidth_hz)
        return cls(
            bandwidth_hz=bandwidth_hz,
            payload_bits=payload_bits,
            peak_power=_watts("peak_power", peak_power_w, peak_power_dbm),
            mean_power=_watts("mean_power", mean_power_w, mean_power_dbm),
            noise_power=_noise(noise_density_w_hz, noise_density_dbm_hz) * bandwidth_hz,
            in_watts=True,
        )

    def sized(self, devices: int) -> Link:
        """This link, refused if its per-device limits are for another number of devices."""
        checks.sized("peak_power", self.peak_power, devices)
        checks.sized("mean_power", self.mean_power, devices)
        return self

    def of_device(self, device: int) -> Link:
        """The same link as one device alone sees it."""
        one = slice(device, device + 1)
        return dataclasses.replace(
            self, peak_power=checks.part(self.peak_power, one), mean_power=checks.part(self.mean_power, one)
        )

    def rate(self, gains: NDArray[np.float64], power: PerDevice, share_of_band: float = 1.0) -> NDArray[np.float64]:
        """Bits per second: b·B·log2(1 + g·P/(b·N0)) in a share b of the band, which has b of its noise."""
        snr = gains * power / (self.noise_power * share_of_band)
        return share_of_band * self.bandwidth_hz / math.log(2) * np.log1p(snr)

    def airtime_s(
        self, gains: NDArray[np.float64], power: PerDevice, share_of_band: float = 1.0
    ) -> NDArray[np.float64]:
        """Seconds on the air for one update; infinite where nothing can be carried."""
        with np.errstate(divide="ignore"):
            return self.payload_bits / self.rate(gains, power, share_of_band)


def _watts(name: str, watts: PerDevice | None, dbm: PerDevice | None) -> PerDevice:
    if (watts is None) == (dbm is None):
        raise FadewiseError(f"give {name} once, as {name}_w or as {name}_dbm")
    if watts is not None:
        return checks.positive_per_device(f"{name}_w", watts)
    return _from_dbm(checks.per_device(f"{name}_dbm", dbm, least=-200, most=200))  # type: ignore[arg-type]


def _noise(w_hz: float | None, dbm_hz: float | None) -> float:
    if (w_hz is None) == (dbm_hz is None):
        raise FadewiseError("give the noise once, as noise_density_w_hz or as noise_density_dbm_hz")
    if w_hz is not None:
        return checks.positive("noise_density_w_hz", w_hz)
    return float(_from_dbm(checks.number("noise_density_dbm_hz", dbm_hz, least=-300, most=100)))


def _from_dbm(dbm: PerDevice) -> PerDevice:
    """Watts from decibels over a milliwatt: 0 dBm is 1 mW, 30 dBm is 1 W."""
    return 10.0 ** (dbm / 10.0) / 1000.0
