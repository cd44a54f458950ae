"""From single airtimes to the round's time: how the participants share the band."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.checks import PerDevice
from fadewise.link import Link
from fadewise.sampling import Draw

Array = NDArray[np.float64]


class Times(NamedTuple):
    """How long a round takes: on the air, and in all. Simulated time of the network, never the wall's.

    upload_s: how long each participant sends.
    """

    airtime_s: float
    round_time_s: float
    upload_s: Array


@dataclass(frozen=True, eq=False)
class Access(ABC):
    """How participants take turns or share. Its fields are settings.

    overhead_s: added to every round, for what is not modelled (broadcast of the model, signalling).
    compute_s: how long a device computes before it can send, one number for all or one each.
    """

    kind: ClassVar[str]
    adds_up: ClassVar[bool]
    """Whether the round's airtime is the sum of the airtimes that single devices would have."""
    overhead_s: float = 0.0
    compute_s: PerDevice = 0.0

    def __post_init__(self) -> None:
        checks.number("overhead_s", self.overhead_s, least=0)
        object.__setattr__(self, "compute_s", checks.per_device("compute_s", self.compute_s, least=0))

    def times(self, link: Link, gains: Array, draw: Draw) -> Times:
        """The round's times; `gains` are every device's."""
        if not len(draw.devices):
            return Times(0.0, self.overhead_s, np.empty(0))
        compute_s = checks.part(checks.sized("compute_s", self.compute_s, len(gains)), draw.devices)
        upload_s = self._upload_s(link, gains[draw.devices], draw.power)
        airtime_s, last_s = self._airtime_and_last(upload_s, compute_s)
        return Times(airtime_s, self.overhead_s + last_s, upload_s)

    @abstractmethod
    def _upload_s(self, link: Link, gains: Array, power: Array) -> Array:
        """How long each of these participants sends."""

    @abstractmethod
    def _airtime_and_last(self, upload_s: Array, compute_s: PerDevice) -> tuple[float, float]:
        """How long the band is busy, and when the last update has arrived."""


@dataclass(frozen=True, eq=False)
class TDMA(Access):
    """One after the other, each with the whole band: airtimes add up (the paper's)."""

    kind: ClassVar[str] = "tdma"
    adds_up: ClassVar[bool] = True

    def _upload_s(self, link: Link, gains: Array, power: Array) -> Array:
        return link.airtime_s(gains, power)

    def _airtime_and_last(self, upload_s: Array, compute_s: PerDevice) -> tuple[float, float]:
        if not isinstance(compute_s, np.ndarray):
            airtime_s = float(upload_s.sum())
            return airtime_s, compute_s + airtime_s
        # Whoever has computed first sends first, which ends soonest: from each device on, the band is
        # not idle once it is ready, so the end is the latest of "ready, then all that are still to send".
        order = np.argsort(compute_s, kind="stable")
        still_to_send_s = np.cumsum(upload_s[order][::-1])[::-1]
        return float(still_to_send_s[0]), float((compute_s[order] + still_to_send_s).max())


@dataclass(frozen=True, eq=False)
class FDMA(Access):
    """All at once, each of the k participants with B/k of the band and its noise N0/k: the slowest counts."""

    kind: ClassVar[str] = "fdma"
    adds_up: ClassVar[bool] = False

    def _upload_s(self, link: Link, gains: Array, power: Array) -> Array:
        return link.airtime_s(gains, power, share_of_band=1 / len(gains))

    def _airtime_and_last(self, upload_s: Array, compute_s: PerDevice) -> tuple[float, float]:
        return float(upload_s.max()), float((compute_s + upload_s).max())


ACCESSES: dict[str, type[Access]] = {a.kind: a for a in (TDMA, FDMA)}
