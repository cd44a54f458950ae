"""The exact minimiser of one round, for one device or a block of them.

Each device minimises V·κ/q + q·c(P) over 0 < q ≤ 1 and 0 ≤ P ≤ Pmax, where a = g/N0,
c(P) = V·λ·ℓ/C(P) + Z·P and C(P) = B·log2(1 + aP), with κ = N·w² (1/N for equal shares w = 1/N).
The P that minimises c does not depend on q, so the joint minimum is taken in two steps:

    P* = min(P, Pmax) where x(ln x)² = A, x = 1 + aP, A = V·λ·ℓ·a·ln2/(B·Z)
    q* = min(1, √(V·κ/c(P*)))

`published` follows the paper's Algorithm 2 instead: its A has one factor ln 2 more, and where q would
exceed 1 it sends at Pmax. Both use u = ln(1 + aP), the root of u²·e^u = A (see root.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fadewise import checks, root
from fadewise.checks import PerDevice
from fadewise.link import Link

BLOCK = 16_384
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


class Minimiser:
    """The constants of a policy's one-round problem, folded once."""

    def __init__(
        self, link: Link, airtime_weight: float, penalty_weight: float, curvature: PerDevice, published: bool
    ) -> None:
        seconds = link.payload_bits * math.log(2) / link.bandwidth_hz  # ℓ/C = seconds/u
        self.noise_power = link.noise_power
        self.peak_power = link.peak_power
        self.lowest_peak_power = float(np.min(link.peak_power))
        self.a_factor = penalty_weight * airtime_weight * seconds / link.noise_power  # A = a_factor·g/Z
        if published:
            self.a_factor *= math.log(2)
        # q² = V·κ/c = u/(airtime_cost + power_cost·Z·P·u)
        self.airtime_cost = airtime_weight * seconds / curvature
        self.power_cost = 1 / (penalty_weight * curvature)
        self.published = published
        self.table = root.table()

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
        u, t = probability, scratch.numbers[: len(gains)]
        np.divide(gains, backlog, out=a)
        np.multiply(a, self.a_factor, out=a)
        self.table.look_up(a, out=u, scratch=t, cell=scratch.cells[: len(gains)])
        np.expm1(u, out=power)
        np.divide(power, gains, out=power)
        np.multiply(power, self.noise_power, out=power)
        if not power.max() <= self.lowest_peak_power:
            self._at_the_limits(gains, backlog, block, u, power)
        airtime_cost, power_cost = checks.part(self.airtime_cost, block), checks.part(self.power_cost, block)
        np.multiply(backlog, power, out=t)
        np.multiply(t, power_cost, out=t)
        np.multiply(t, u, out=t)
        np.add(t, airtime_cost, out=t)
        np.divide(u, t, out=probability)
        np.sqrt(probability, out=probability)
        if self.published:
            self._else_branch(gains, backlog, block, probability, power)
        np.minimum(probability, 1.0, out=probability)

    def _at_the_limits(self, gains: Array, backlog: Array, block: slice, u: Array, power: Array) -> None:
        """Mends the devices that are at peak power, beyond the table's range or unreachable."""
        peak = checks.part(self.peak_power, block)
        at_limit = ~(power <= peak)
        # Where all are (a budget that does not bind, or the first round), a view spares the copies.
        some = slice(None) if at_limit.all() else np.flatnonzero(at_limit)
        g, z, p, v, peak = gains[some], backlog[some], power[some], u[some], checks.part(peak, some)
        if not g.max() < np.inf:
            raise checks.bad_gain(gains, block.start)
        u_at_peak = self._u_at(peak, g)
        beyond = np.flatnonzero(np.isnan(p) & (g > 0) & (z > 0))
        if len(beyond):
            v[beyond] = root.of_log(math.log(self.a_factor) + np.log(g[beyond]) - np.log(z[beyond]))
            p[beyond] = np.expm1(v[beyond]) / g[beyond] * self.noise_power
        below = p <= peak  # false for NaN, which is left where the backlog is 0: then peak power is best
        u[some] = np.where(below, v, u_at_peak)
        power[some] = np.where(g > 0, np.where(below, p, peak), 0.0)

    def _else_branch(self, gains: Array, backlog: Array, block: slice, probability: Array, power: Array) -> None:
        """The paper's: where q would exceed 1, P = Pmax and q = min(1, q at Pmax)."""
        over = np.flatnonzero(probability > 1)
        if len(over):
            airtime_cost, power_cost, peak_power = (
                checks.part(checks.part(constant, block), over)
                for constant in (self.airtime_cost, self.power_cost, self.peak_power)
            )
            u = self._u_at(peak_power, gains[over])
            power[over] = peak_power
            probability[over] = np.sqrt(u / (airtime_cost + power_cost * backlog[over] * peak_power * u))

    def _u_at(self, power: PerDevice, gains: Array) -> Array:
        """u = ln(1 + aP), which is 0 where the gain is."""
        return np.log1p(np.minimum(gains / self.noise_power * power, _LARGEST))
