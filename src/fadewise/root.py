"""The root behind the optimal power: the u > 0 with u² · e^u = A, in closed form u = 2·W0(√(A/4)).

With u = ln(1 + aP) this is the stationary point x·(ln x)² = A of one device's round (docs/mathematics.md).
W0 is the Lambert function. It is needed for every device in every round, so it is tabulated: one cubic
for each 256th of an octave of A, looked up by the leading bits of A as a float. Between 2^-64 and 2^64 the
table is within 1e-12 of the root, relative; outside it says NaN and `of_log` serves.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

_FIRST_OCTAVE, _END_OCTAVE = -64, 64
_CELL_BITS = 8
_SHIFT = 52 - _CELL_BITS
"""Of a float's 52 mantissa bits the leading `_CELL_BITS` number the cell within the octave."""


def of_log(log_a: NDArray[np.float64]) -> NDArray[np.float64]:
    """u + 2·ln u = ln A by Newton's method, for any A: in logarithms nothing overflows or cancels.

    The left side is concave and increasing, so the steps approach the root from below and never
    leave u > 0; from ln(1 + √A) on, six are enough for the last bit.
    """
    u = np.logaddexp(0.0, log_a / 2)
    for _ in range(6):
        u *= (2 + log_a - 2 * np.log(u)) / (2 + u)
    return u


class Table:
    """The root's cubics. Each coefficient's array starts and ends with NaN, for A outside the table."""

    def __init__(self) -> None:
        cells = 1 << _CELL_BITS
        octaves = np.arange(_FIRST_OCTAVE, _END_OCTAVE)
        starts = np.ldexp(1 + np.arange(cells) / cells, octaves[:, None]).ravel()
        widths = np.ldexp(1 / cells, octaves).repeat(cells)
        # Interpolated at Chebyshev's nodes, in x = (A - start)/width from 0 to 1 ...
        nodes = (1 + np.cos(np.pi * (np.arange(4) + 0.5) / 4)) / 2
        values = of_log(np.log(starts + widths * nodes[:, None]))
        c0, c1, c2, c3 = np.linalg.solve(np.vander(nodes, increasing=True), values)
        # ... and multiplied out into powers of A, so that a look-up needs neither start nor width.
        s = starts / widths
        cubics = (
            (c0 - s * (c1 - s * (c2 - s * c3))),
            (c1 - s * (2 * c2 - 3 * s * c3)) / widths,
            (c2 - 3 * s * c3) / widths**2,
            c3 / widths**3,
        )
        self.coefficients = tuple(np.pad(c, 1, constant_values=np.nan) for c in cubics)
        self.offset = ((1023 + _FIRST_OCTAVE) << _CELL_BITS) - 1

    def look_up(
        self,
        a: NDArray[np.float64],
        out: NDArray[np.float64],
        scratch: NDArray[np.float64],
        cell: NDArray[np.int64],
    ) -> None:
        """Writes the root for each `a` to `out`, NaN where the table ends; the last two are overwritten."""
        np.right_shift(a.view(np.int64), _SHIFT, out=cell)
        np.subtract(cell, self.offset, out=cell)
        c0, c1, c2, c3 = self.coefficients
        np.take(c3, cell, out=out, mode="clip")
        for c in (c2, c1, c0):
            np.multiply(out, a, out=out)
            np.take(c, cell, out=scratch, mode="clip")
            np.add(out, scratch, out=out)


@functools.cache
def table() -> Table:
    """The table, made when it is first needed (some ten milliseconds, one megabyte)."""
    return Table()
