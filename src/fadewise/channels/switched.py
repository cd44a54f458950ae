"""Devices that come and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.channels.base import Channel
from fadewise.checks import PerDevice
from fadewise.errors import SettingError
from fadewise.randomness import Stream


class Availability(NamedTuple):
    """Which devices are on, and the inner channel's state."""

    on: NDArray[np.bool_]
    inner: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Switched(Channel[Availability]):
    """Another channel behind a switch: a device that is off is unreachable, its gain 0.

    Each device's switch is a two-state Markov chain that starts in its long-run distribution:
    on for `mean_rounds_on` rounds on average, then off for `mean_rounds_off`.
    """

    kind: ClassVar[str] = "switched"
    inner: Channel[Any]
    mean_rounds_on: PerDevice = 10.0
    mean_rounds_off: PerDevice = 10.0

    def __post_init__(self) -> None:
        within: list[Channel[Any]] = [self.inner]
        while within:
            channel = within.pop()
            if isinstance(channel, Switched):
                raise SettingError("inner", "holds another switched channel; their switches would move together")
            within += channel.held()
        for name in ("mean_rounds_on", "mean_rounds_off"):
            object.__setattr__(self, name, checks.per_device(name, getattr(self, name), least=1))

    def init(self, devices: int, stream: Stream) -> Availability:
        on, off = self._mean_rounds(devices, stream)
        return Availability(
            stream.uniforms("switched start", devices) < on / (on + off), self.inner.init(devices, stream)
        )

    def step(self, state: Availability, devices: int, stream: Stream) -> tuple[NDArray[np.float64], Availability]:
        gains, inner = self.inner.step(state.inner, devices, stream)
        gains = np.where(state.on, gains, 0.0)
        on, off = self._mean_rounds(devices, stream)
        word = stream.uniforms("switched", devices)
        stays_on, turns_on = word >= 1 / on, word < 1 / off
        return gains, Availability(np.where(state.on, stays_on, turns_on), inner)

    def _mean_rounds(self, devices: int, stream: Stream) -> tuple[PerDevice, PerDevice]:
        return (
            checks.of_devices("mean_rounds_on", self.mean_rounds_on, stream.first_device, devices),
            checks.of_devices("mean_rounds_off", self.mean_rounds_off, stream.first_device, devices),
        )
