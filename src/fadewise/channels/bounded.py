"""The range of a real radio: it has a slowest and a fastest modulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.channels.base import Channel
from fadewise.errors import NotAllowed
from fadewise.link import Link
from fadewise.randomness import Stream


@dataclass(frozen=True, eq=False)
class Bounded(Channel[Any]):
    """Another channel, its gains brought into the range that a radio's modulations can use.

    The floor is the gain at which peak power just carries `lowest_bits_per_s_hz`, (2^lowest - 1)·N0/Pmax;
    the ceiling the gain beyond which mean power carries no more than `highest_bits_per_s_hz`,
    (2^highest - 1)·N0/P̄. The paper has 0.25 and 10 (1024-QAM). A gain of 0 (unreachable) stays 0.
    """

    kind: ClassVar[str] = "bounded"
    link: Link
    inner: Channel[Any]
    lowest_bits_per_s_hz: float = 0.25
    highest_bits_per_s_hz: float = 10.0

    def __post_init__(self) -> None:
        lowest = checks.number("lowest_bits_per_s_hz", self.lowest_bits_per_s_hz, least=0, most=100)
        checks.number("highest_bits_per_s_hz", self.highest_bits_per_s_hz, above=0, most=100)
        if np.any(self.floor > self.ceiling):
            raise NotAllowed("lowest_bits_per_s_hz", lowest, "so low that the floor on gains is under their ceiling")

    @property
    def floor(self) -> checks.PerDevice:
        return (2**self.lowest_bits_per_s_hz - 1) * self.link.noise_power / self.link.peak_power

    @property
    def ceiling(self) -> checks.PerDevice:
        return (2**self.highest_bits_per_s_hz - 1) * self.link.noise_power / self.link.mean_power

    def init(self, devices: int, stream: Stream) -> Any:
        return self.inner.init(devices, stream)

    def step(self, state: Any, devices: int, stream: Stream) -> tuple[NDArray[np.float64], Any]:
        gains, state = self.inner.step(state, devices, stream)
        floor = checks.of_devices("peak_power", self.floor, stream.first_device, devices)
        ceiling = checks.of_devices("mean_power", self.ceiling, stream.first_device, devices)
        unreachable = None if gains.min() > 0 else gains == 0
        np.maximum(gains, floor, out=gains)
        np.minimum(gains, ceiling, out=gains)
        if unreachable is not None:
            gains[unreachable] = 0.0
        return gains, state
