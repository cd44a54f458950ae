"""The comparison of airtimes, on curves that are known."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fadewise.statistics import Estimate
from fadewise.studies.frontier import Curve


def plan(worth: float, airtime_s: float, power: float) -> Any:
    return SimpleNamespace(
        devices=100,
        variance_factor=Estimate(100 / worth, None),
        airtime_s=Estimate(airtime_s, None),
        running_power=np.array([9.0, power]),
    )


def test_points_at_another_power_are_compared_with_none() -> None:
    curve = Curve("a", [1, 2, 4, 8], [plan(1, 0.1, 1.37), plan(2, 9.9, 1.06), plan(4, 2, 1.04), plan(8, 4, 0.97)])
    assert curve.comparable == [False, False, True, True]
    assert np.isnan(curve.airtime_for(2))
    assert curve.airtime_for(4) == pytest.approx(2)
    assert curve.airtime_for(np.sqrt(32)) == pytest.approx(np.sqrt(8))
