"""Σ w_n·Δ_n in fixed point: whole numbers add up to the same sum in whatever order they come."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fadewise.minimiser import BLOCK

_ONE = 2.0**40
"""The fixed point: a unit of the last place is 9e-13, far below that of a float32 weight of 1e-4."""

LARGEST = 2.0**22
"""What the terms of one sum may come to in all, so that it stays below 2^63 units."""


def add(total: NDArray[np.int64], update: NDArray[np.float32], weight: float) -> None:
    """total += weight·update, rounded to the fixed point. The update's norm is known to be finite."""
    scratch = np.empty(min(len(total), BLOCK))
    for first in range(0, len(total), BLOCK):
        part = total[first : first + BLOCK]
        product = scratch[: len(part)]
        np.multiply(update[first : first + BLOCK], weight * _ONE, out=product, dtype=np.float64)
        np.rint(product, out=product)
        part += product.astype(np.int64)


def fixed(value: float) -> int:
    """A number in the fixed point."""
    return round(value * _ONE)


def value_of(total: NDArray[np.int64]) -> NDArray[np.float64]:
    """The numbers that a fixed-point sum stands for."""
    return total / _ONE
