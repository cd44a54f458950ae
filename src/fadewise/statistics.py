"""Intervals for what is random: Student's t over seeds, or over batches of rounds of one seed."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BATCHES = 10
"""Consecutive batches into which one seed's rounds are cut."""

SHORTEST_BATCH = 100
"""Rounds that a batch must have: in shorter ones the queue's memory is all that there is to see."""

_TREND = 6.0
"""By how many of its errors the halves' difference must stand out of the batches' scatter to be a trend."""

_STRONGEST = 0.9
"""The correlation of neighbouring batches is taken to be at most this: ten cannot tell it from a trend."""

_NORMAL_QUARTILE = 0.6745
"""Half of a normal variable's values are within so many deviations of its mean."""

_ROUNDING = 1e-9
"""A difference of this part of the mean is none: what does not vary at all must not seem to have a trend."""

# The 97.5% quantiles for 1 to 30 degrees of freedom.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


class Estimate(NamedTuple):
    """A mean and, where it could be had, the interval that is to cover the true one in 95% of cases.

    settled: False where there is none because the rounds had a trend that drowned their scatter.
    """

    value: float
    ci: tuple[float, float] | None
    settled: bool = True


def t_quantile(degrees_of_freedom: int) -> float:
    """The two-sided 95% quantile of Student's t: a table, then the first terms of Fisher's expansion."""
    if degrees_of_freedom <= len(_T):
        return _T[degrees_of_freedom - 1]
    z = 1.959963985
    return z + (z**3 + z) / (4 * degrees_of_freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees_of_freedom**2)


def of_samples(samples: NDArray[np.float64]) -> Estimate:
    """The mean of independent samples with its interval; none from a single one."""
    mean = float(samples.mean())
    if len(samples) < 2 or not math.isfinite(mean):
        return Estimate(mean, None)
    half = t_quantile(len(samples) - 1) * float(samples.std(ddof=1)) / math.sqrt(len(samples))
    return Estimate(mean, (mean - half, mean + half))


def of_difference(one: NDArray[np.float64], other: NDArray[np.float64]) -> Estimate:
    """The difference of two means of independent samples, which need not scatter alike (Welch)."""
    difference = float(one.mean() - other.mean())
    if len(one) < 2 or len(other) < 2:
        return Estimate(difference, None)
    errors = [float(samples.var(ddof=1)) / len(samples) for samples in (one, other)]
    total = sum(errors)
    if total == 0:
        return Estimate(difference, (difference, difference))
    degrees = total**2 / sum(e**2 / (len(s) - 1) for e, s in zip(errors, (one, other), strict=True))
    half = t_quantile(max(1, int(degrees))) * math.sqrt(total)
    return Estimate(difference, (difference - half, difference + half))


def of_rounds(series: NDArray[np.float64]) -> Estimate:
    """The mean over all rounds of all seeds (a row a seed), with its interval; NaN rounds are left out.

    With two seeds or more the seeds are the samples, which is sound whatever a round has to do with the next.
    With one, see `of_batches`.
    """
    rows = [row[~np.isnan(row)] for row in series]
    rows = [row for row in rows if len(row)]
    if not rows:
        return Estimate(math.nan, None)
    if len(series) > 1:
        return of_samples(np.array([row.mean() for row in rows]))
    batches = np.array([rows[0][first:end].mean() for first, end in batches_of(len(rows[0]))])
    return of_batches(float(rows[0].mean()), batches)


def batches_of(rounds: int) -> list[tuple[int, int]]:
    """First round and end of each batch; none where the rounds are too few for batches to say anything."""
    if rounds < BATCHES * SHORTEST_BATCH:
        return []
    edges = [rounds * batch // BATCHES for batch in range(BATCHES + 1)]
    return list(itertools.pairwise(edges))


def of_batches(mean: float, batches: NDArray[np.float64]) -> Estimate:
    """The mean of one seed's rounds, with an interval from the means of its batches.

    Neighbouring batches are correlated, as the virtual queue remembers: the interval is widened for what they show
    of that. Where the first half of the rounds differs from the second by far more than neighbours do, there is
    no interval, and the mean is marked as not settled. Measured coverage: see docs/mathematics.md.
    """
    if not len(batches) or not np.isfinite(batches).all():
        return Estimate(mean, None)
    count, half = len(batches), len(batches) // 2
    # The median of neighbours' differences is the scatter that neither a trend nor one odd batch enters.
    scatter = float(np.median(np.abs(np.diff(batches)))) / (_NORMAL_QUARTILE * math.sqrt(2))
    scatter = scatter or float(batches.std(ddof=1))  # of what happens in a few batches only, most are alike
    difference = abs(float(batches[:half].mean() - batches[half:].mean()))
    if difference > _TREND * scatter * math.sqrt(2 / half) + _ROUNDING * abs(mean):
        return Estimate(mean, None, settled=False)
    deviations = batches - batches.mean()
    squares = float(np.square(deviations).sum())
    if squares <= count * (_ROUNDING * mean) ** 2:
        return Estimate(mean, (mean, mean))
    # That of n independent samples is -1/n on average.
    correlation = float((deviations[1:] * deviations[:-1]).sum()) / squares + 1 / count
    correlation = min(max(correlation, 0.0), _STRONGEST)
    error = math.sqrt(squares / (count - 1) / count * (1 + correlation) / (1 - correlation))
    width = t_quantile(count - 1) * error
    return Estimate(mean, (mean - width, mean + width))
