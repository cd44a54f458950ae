"""Intervals for what is random: Student's t over seeds, or over batches of rounds of one seed."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BATCHES = 20
"""Consecutive batches into which one seed's rounds are cut: long, so that their means hardly correlate."""

# The 97.5% quantiles for 1 to 30 degrees of freedom.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


class Estimate(NamedTuple):
    """A mean and, where it could be had, the interval that covers the true one in 95% of cases."""

    value: float
    ci: tuple[float, float] | None


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


def of_rounds(series: NDArray[np.float64]) -> Estimate:
    """The mean over all rounds of all seeds (a row a seed), with its interval.

    With two seeds or more the seeds are the samples. With one, batches of its rounds are: the interval
    is then too wide rather than too narrow if the rounds have a trend, as they have from an empty backlog.
    """
    if len(series) > 1:
        return of_samples(series.mean(axis=1))
    batches = np.array_split(series[0], BATCHES)
    estimate = of_samples(np.array([batch.mean() for batch in batches if len(batch)]))
    if series.shape[1] < 2 * BATCHES or estimate.ci is None:
        return Estimate(float(series.mean()), None)
    # Batches may differ by one round in length: centre the interval on the mean of all rounds.
    mean, half = float(series.mean()), (estimate.ci[1] - estimate.ci[0]) / 2
    return Estimate(mean, (mean - half, mean + half))
