"""How often what a device sends arrives, estimated so that one over it is right on average.

A device's update counts w/(π·ρ), with ρ the probability that it arrives. The reciprocal of an estimated
ρ is biased (Jensen's inequality), so 1/ρ itself is estimated: between two deliveries lie a geometric
number of attempts, whose mean is 1/ρ. The mean of the last intervals is therefore unbiased, and as it is
of the past alone, it is independent of whether the update at hand arrives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Deliveries(NamedTuple):
    """What is known of every device's deliveries.

    intervals: the last ones of each device, in attempts; a row a device.
    known: how many there have been in all.
    pending: attempts since the last delivery.
    """

    intervals: NDArray[np.int64]
    known: NDArray[np.int64]
    pending: NDArray[np.int64]


def nothing_known(devices: int, intervals: int) -> Deliveries:
    """Before the first attempt."""
    return Deliveries(
        np.zeros((devices, max(intervals, 1)), np.int64), np.zeros(devices, np.int64), np.zeros(devices, np.int64)
    )


def reciprocal(deliveries: Deliveries) -> NDArray[np.float64]:
    """1/ρ of every device: the mean of its last intervals, 1 where there is none yet."""
    columns = deliveries.intervals.shape[1]
    count = np.minimum(deliveries.known, columns)
    return np.where(count > 0, deliveries.intervals.sum(axis=1) / np.maximum(count, 1), 1.0)


def attempted(deliveries: Deliveries, unheard: NDArray[np.int64], lost: list[int], delivered: list[int]) -> Deliveries:
    """After a round.

    unheard: attempts of each device in earlier rounds that the server now learns of.
    """
    intervals, known = deliveries.intervals.copy(), deliveries.known.copy()
    pending = deliveries.pending + unheard
    pending[lost] += 1
    for device in delivered:
        intervals[device, known[device] % intervals.shape[1]] = pending[device] + 1
        known[device] += 1
        pending[device] = 0
    return Deliveries(intervals, known, pending)
