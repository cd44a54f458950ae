"""Where a device has its channel gain from: any function of the round that returns |h|², 0 while out of reach.

`DeviceAgent` takes such a function. These make one from a trace, from a channel model, or from what
uploads have taken; `gain_of_rate` turns a measured rate into the gain that explains it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.channels import Channel, Trace
from fadewise.errors import FadewiseError
from fadewise.link import Link
from fadewise.randomness import Stream
from fadewise.state import NoState, load_state, save_state

Gain = Callable[[int], float]
"""The power gain |h|² in a round."""

_FASTEST_BITS_PER_S_HZ = 100.0
"""An upload that seems faster was not timed well: clocks are read on two machines."""


def gain_of_rate(link: Link, rate_bits_per_s: float, power: float) -> float:
    """The gain with which a device that sends at this power has this rate: (2^(R/B) - 1)·N0/P.

    The rate that a modem reports, or that an upload has had, becomes a gain that way, whatever the radio
    does inside: the policy then decides by what the link really carries.
    """
    rate = checks.number("rate_bits_per_s", rate_bits_per_s, least=0)
    exponent = rate / link.bandwidth_hz * math.log(2)
    if exponent > 700:
        raise FadewiseError(f"a rate of {rate:g} bit/s is beyond a link of {link.bandwidth_hz:g} Hz")
    return math.expm1(exponent) * link.noise_power / checks.number("power", power, above=0)


def gains_of_trace(path: str | Path, column: int = 0, repeat: bool = False) -> Gain:
    """A column of a trace file (see `fw.Trace`), a row a round."""
    return gains_of_channel(Trace(path, repeat=repeat), checks.whole("column", column, least=0), seed=0)


def gains_of_channel(channel: Channel[Any], device: int, seed: int) -> Gain:
    """What a channel model gives this device: in a rehearsal the same gains as in the simulator."""
    device = checks.whole("device", device, least=0)

    def gain(round: int) -> float:
        state = channel.init(1, Stream(seed, 0, device))
        # A channel with a memory is played again from the start: a process may be of this round only.
        first = round if isinstance(state, NoState) else 0
        for number in range(first, round + 1):
            gains, state = channel.step(state, 1, Stream(seed, number, device))
        return float(gains[0])

    return gain


class _Seen(NamedTuple):
    gains: NDArray[np.float64]
    uploads: Any


class UploadTimes:
    """A running estimate from how long the last uploads took: the mean of the gains that explain them.

    link: the device's own. payload_bits over the duration is the rate that an upload has had.
    path: where the last gains are kept; each call of `uploaded` writes it.
    initial: the gain that is taken while there has been no upload.
    uploads: over how many the mean goes. Few follow the channel, many average out what polling and
        queues add to a duration.
    """

    def __init__(self, link: Link, path: str | Path, initial: float, uploads: int = 5) -> None:
        self._link = link
        self._path = Path(path)
        self._initial = checks.number("initial", initial, above=0)
        self._seen = _Seen(np.zeros(checks.whole("uploads", uploads, least=1)), 0)
        if self._path.exists():
            try:
                self._seen = load_state(self._path, self._seen)
            except FadewiseError as error:
                raise FadewiseError(
                    f"{self._path} does not hold the last {uploads} uploads ({error}); remove it to begin with none"
                ) from None

    def __call__(self, round: int) -> float:  # noqa: ARG002  (what it has seen is of the past)
        count = min(int(self._seen.uploads), len(self._seen.gains))
        return float(self._seen.gains[:count].mean()) if count else self._initial

    def uploaded(self, seconds: float, power: float) -> None:
        """An update that was sent at this power has taken so long."""
        rate = self._link.payload_bits / checks.number("seconds", seconds, above=0)
        rate = min(rate, _FASTEST_BITS_PER_S_HZ * self._link.bandwidth_hz)
        gains, uploads = self._seen.gains.copy(), int(self._seen.uploads)
        gains[uploads % len(gains)] = gain_of_rate(self._link, rate, power)
        self._seen = _Seen(gains, uploads + 1)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FadewiseError(f"{self._path} cannot be written: {error.strerror or error}") from None
        save_state(self._path, self._seen)
