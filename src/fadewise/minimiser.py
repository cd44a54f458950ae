"""The exact minimiser of one round, for one device or a block of them.

Each device minimises V·κ/q + q·c(P) over 0 < q ≤ 1 and 0 ≤ P ≤ Pmax, where a = g/N0,
c(P) = V·λ·ℓ/C(P) + Z·P and C(P) = B·log2(1 + aP), with κ = N·w² (1/N for equal shares w = 1/N).
The P that minimises c does not depend on q, so the joint minimum is taken in two steps:

    P* = min(P, Pmax) where x(ln x)² = A, x = 1 + aP, A = V·λ·ℓ·a·ln2/(B·Z)
    q* = min(1, √(V·κ/c(P*)))

With u = ln(1 + aP), the root of u²·e^u = A (root.py), and s = ℓ·ln2/B, so that the airtime is s/u:

    q² = u/(λ·s/κ + Z·P·u/(V·κ)),  and below peak power, where Z·P = V·λ·s·(e^u - 1)/A,
    q² = u²/(u + 1 - e^-u) · κ/(λ·s)

so that away from the limits both aP and q·√(λ·s/κ) are functions of A alone, and are looked up.

`published` follows the paper's Algorithm 2 instead: its A has one factor ln 2 more, and where q would
exceed 1 it sends at Pmax.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fadewise import checks, root
from fadewise.checks import PerDevice
from fadewise.link import Link

BLOCK = 32_768
"""Devices treated at a time: few enough that all their numbers stay in the second-level cache."""

_LARGEST = float(np.finfo(np.float64).max)

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scratch:
    """Memory that a block's calculation overwrites, allocated once for all blocks of a call."""

    numbers: Array
    cells: NDArray[np.int64]

    @classmethod
    def of(cls, devices: int) -> Scratch:
        return cls(np.empty(devices), np.empty(devices, np.int64))


@functools.cache
def _tables(published: bool) -> tuple[root.Table, root.Table]:
    """aP and q·√(λ·s/κ) as functions of A, made when first needed (tens of milliseconds, 3 MB)."""
    # The published A is larger than it should be by ln 2, so Z·P is smaller by as much than A lets expect.
    ln2 = math.log(2) if published else 1.0
    return root.Table(np.expm1), root.Table(lambda u: u / np.sqrt(u - ln2 * np.expm1(-u)))


class Minimiser:
    """The constants of a policy's one-round problem, folded once."""

    def __init__(
        self, link: Link, airtime_weight: float, penalty_weight: float, curvature: PerDevice, published: bool
    ) -> None:
        seconds = link.payload_bits * math.log(2) / link.bandwidth_hz  # s
        self.noise_power = link.noise_power
        self.peak_power = link.peak_power
        self.lowest_peak_power = float(np.min(link.peak_power))
        self.a_factor = penalty_weight * airtime_weight * seconds / link.noise_power  # A = a_factor·g/Z
        if published:
            self.a_factor *= math.log(2)
        self.airtime_cost = airtime_weight * seconds / curvature  # λ·s/κ
        self.power_cost = 1 / (penalty_weight * curvature)
        self.published = published
        snr, scaled_probability = _tables(published)
        self.received_table = snr.times(link.noise_power)  # P·g
        self.scale: Array | None = None
        if isinstance(self.airtime_cost, np.ndarray):
            self.probability_table, self.scale = scaled_probability, np.sqrt(1 / self.airtime_cost)
        else:
            self.probability_table = scaled_probability.times(math.sqrt(1 / self.airtime_cost))

    def solve(
        self,
        gains: Array,
        backlog: Array,
        block: slice,
        probability: Array,
        power: Array,
        a: Array,
        scratch: Scratch,
    ) -> None:
        """Writes q* and P* of the devices in `block` to `probability` and `power`; overwrites `a`.

        All arrays but the constants' are those of the block. Where a gain is 0 both are 0.
        """
        if not gains.min() >= 0:
            raise checks.bad_gain(gains, block.start)
        numbers, cells = scratch.numbers[: len(gains)], scratch.cells[: len(gains)]
        np.divide(gains, backlog, out=a)
        np.multiply(a, self.a_factor, out=a)
        root.cell_of(a, out=cells)
        self.received_table.look_up(a, cells, out=power, scratch=numbers)
        np.divide(power, gains, out=power)
        self.probability_table.look_up(a, cells, out=probability, scratch=numbers)
        if self.scale is not None:
            np.multiply(probability, self.scale[block], out=probability)
        if not power.max() <= self.lowest_peak_power:
            self._at_the_limits(gains, backlog, block, probability, power)
        if not probability.max() <= 1:
            if self.published:
                self._else_branch(gains, backlog, block, probability, power)
            np.minimum(probability, 1.0, out=probability)

    def _at_the_limits(self, gains: Array, backlog: Array, block: slice, probability: Array, power: Array) -> None:
        """Mends the devices that are at peak power, beyond the tables' range or unreachable."""
        peak = checks.part(self.peak_power, block)
        at_limit = ~(power <= peak)
        if not at_limit.any():
            return  # some are above the lowest peak power, none above their own
        # Where all are (a budget that does not bind, or the first round), a view spares the copies.
        some = slice(None) if at_limit.all() else np.flatnonzero(at_limit)
        g, z, p, peak = gains[some], backlog[some], power[some], checks.part(peak, some)
        if not g.max() < np.inf:
            raise checks.bad_gain(gains, block.start)
        best = self._beyond_the_tables(g, z, p, peak) if np.isnan(p.max()) else peak
        power[some] = best
        probability[some] = self._best_probability(g, z, best, block, some)

    def _beyond_the_tables(self, gains: Array, backlog: Array, power: Array, peak: PerDevice) -> Array:
        """The power of devices among which A is out of the tables' range for some, or 0, or infinite."""
        power = power.copy()
        beyond = np.flatnonzero(np.isnan(power) & (gains > 0) & (backlog > 0))
        if len(beyond):
            u = root.of_log(math.log(self.a_factor) + np.log(gains[beyond]) - np.log(backlog[beyond]))
            power[beyond] = np.expm1(u) / gains[beyond] * self.noise_power
        # Where the backlog is 0 it is still NaN, and peak power is best.
        return np.where(gains > 0, np.where(power <= peak, power, peak), 0.0)

    def _else_branch(self, gains: Array, backlog: Array, block: slice, probability: Array, power: Array) -> None:
        """The paper's: where q would exceed 1, P = Pmax and q = min(1, q at Pmax)."""
        over = np.flatnonzero(probability > 1)
        power[over] = p = checks.part(checks.part(self.peak_power, block), over)
        probability[over] = self._best_probability(gains[over], backlog[over], p, block, over)

    def _best_probability(
        self, gains: Array, backlog: Array, power: PerDevice, block: slice, some: slice | NDArray[np.int64]
    ) -> Array:
        """√(V·κ/c(P)), which may exceed 1, for some devices of the block at whatever power."""
        airtime_cost = checks.part(checks.part(self.airtime_cost, block), some)
        power_cost = checks.part(checks.part(self.power_cost, block), some)
        u = np.log1p(np.minimum(gains / self.noise_power * power, _LARGEST))
        return np.asarray(np.sqrt(u / (airtime_cost + power_cost * backlog * power * u)))
