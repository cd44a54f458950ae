"""Rayleigh fading: many scattered paths and no line of sight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.channels.base import Channel
from fadewise.checks import PerDevice
from fadewise.randomness import Stream
from fadewise.state import NoState


@dataclass(frozen=True, eq=False)
class Rayleigh(Channel[NoState]):
    """|h| is Rayleigh distributed, so the gain |h|² is exponential, anew each round (block fading).

    mean_gain: E|h|². The literature's "σ" is ambiguous; with σ as the Rayleigh parameter this is 2σ².
    """

    kind: ClassVar[str] = "rayleigh"
    mean_gain: PerDevice = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean_gain", checks.per_device("mean_gain", self.mean_gain, above=0))

    def init(self, devices: int, stream: Stream) -> NoState:
        return NoState()

    def step(self, state: NoState, devices: int, stream: Stream) -> tuple[NDArray[np.float64], NoState]:
        # By inversion: one word a device, so that a device's gain does not depend on who else is drawn.
        gains = stream.uniforms("rayleigh", devices)
        np.negative(gains, out=gains)
        np.log1p(gains, out=gains)
        mean_gain = checks.of_devices("mean_gain", self.mean_gain, stream.first_device, devices)
        np.multiply(gains, -mean_gain, out=gains)
        return gains, state
