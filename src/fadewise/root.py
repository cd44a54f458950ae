"""The root behind the optimal power: the u > 0 with u² · e^u = A, in closed form u = 2·W0(√(A/4)).

With u = ln(1 + aP) this is the stationary point x·(ln x)² = A of one device's round (docs/mathematics.md);
W0 is the Lambert function. What is needed of it is needed for every device in every round, so functions of
it are tabulated: a parabola for each 512th of an octave of A, looked up by the leading bits of A as a float.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_FIRST_OCTAVE, _END_OCTAVE = -64, 64
_CELL_BITS = 9
_SHIFT = 52 - _CELL_BITS
"""Of a float's 52 mantissa bits the leading `_CELL_BITS` number the cell within the octave."""
_OFFSET = ((1023 + _FIRST_OCTAVE) << _CELL_BITS) - 1
"""What the leading bits of a float are before the table's first cell."""


def of_log(log_a: Array) -> Array:
    """u + 2·ln u = ln A by Newton's method, for any A: in logarithms nothing overflows or cancels.

    The left side is concave and increasing, so the steps approach the root from below and never
    leave u > 0; from ln(1 + √A) on, six are enough for the last bit.
    """
    u = np.logaddexp(0.0, log_a / 2)
    for _ in range(6):
        u *= (2 + log_a - 2 * np.log(u)) / (2 + u)
    return u


def cell_of(a: Array, out: NDArray[np.int64]) -> None:
    """Writes to `out` in which cell of a table each A lies; one beyond the ends where it lies in none."""
    np.right_shift(a.view(np.int64), _SHIFT, out=out)
    np.subtract(out, _OFFSET, out=out)


class Table:
    """A smooth function of the root, by its parabolas over A from 2^-64 to 2^64; NaN outside.

    Within 1e-10 of the function, relative. An optimum is flat: what is chosen by such numbers has an
    objective that is right to the last bit.
    """

    def __init__(self, of_root: Callable[[Array], Array]) -> None:
        cells = 1 << _CELL_BITS
        octaves = np.arange(_FIRST_OCTAVE, _END_OCTAVE)
        starts = np.ldexp(1 + np.arange(cells) / cells, octaves[:, None]).ravel()
        widths = np.ldexp(1 / cells, octaves).repeat(cells)
        # Interpolated at Chebyshev's nodes, in x = (A - start)/width from 0 to 1 ...
        nodes = (1 + np.cos(np.pi * (np.arange(3) + 0.5) / 3)) / 2
        values = of_root(of_log(np.log(starts + widths * nodes[:, None])))
        c0, c1, c2 = np.linalg.solve(np.vander(nodes, increasing=True), values)
        # ... and multiplied out into powers of A, so that a look-up needs neither start nor width.
        s = starts / widths
        parabolas = (c0 - s * (c1 - s * c2), (c1 - 2 * s * c2) / widths, c2 / widths**2)
        self._coefficients = tuple(np.pad(c, 1, constant_values=np.nan) for c in parabolas)

    def times(self, factor: float) -> Table:
        """The table of the function times a factor."""
        result = copy.copy(self)
        result._coefficients = tuple(c * factor for c in self._coefficients)
        return result

    def look_up(self, a: Array, cell: NDArray[np.int64], out: Array, scratch: Array) -> None:
        """Writes the function's value for each `a`, which lies in `cell`, to `out`; overwrites `scratch`."""
        c0, c1, c2 = self._coefficients
        np.take(c2, cell, out=out, mode="clip")
        np.multiply(out, a, out=out)
        np.take(c1, cell, out=scratch, mode="clip")
        np.add(out, scratch, out=out)
        np.multiply(out, a, out=out)
        np.take(c0, cell, out=scratch, mode="clip")
        np.add(out, scratch, out=out)
