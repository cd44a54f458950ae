"""Figures of plans: every point within its axes, and room for the axes beside any legend."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.figure import Figure

import fadewise as fw
from fadewise.planning import Plan
from fadewise.reports import plots


def planned(**changes: Any) -> Plan:
    return fw.plan(fw.load("paper/cifar10-hom", {"rounds": 20, **changes}), [0, 1])


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return [planned(**{"policy.airtime_weight": weight}) for weight in (10.0, 100.0)]


def drawn(figure: Figure) -> Figure:
    figure.savefig("/dev/null", format="svg")  # lays it out; a warning, which is an error here, if it cannot be
    return figure


@pytest.mark.parametrize("shown", [1, 2])
def test_points_are_well_within_their_axes(plans: list[Plan], shown: int) -> None:
    figure = drawn(plots.of_plans("x", [({"policy.airtime_weight": n}, plans[n]) for n in range(shown)]))
    axes = figure.axes[1]
    for plan in plans[:shown]:
        at = axes.transAxes.inverted().transform(
            axes.transData.transform((plan.mean_participants.value, plan.airtime_s.value))
        )
        assert (at > 0).all()
        assert (at < 0.95).all()


@pytest.mark.parametrize("value", [5.0, {"kind": "lyapunov", "airtime_weight": 20.0, "penalty_weight": 1000.0}])
@pytest.mark.parametrize("count", [2, 13])
def test_any_legend_leaves_room_for_the_axes(plans: list[Plan], value: Any, count: int) -> None:
    figure = drawn(plots.of_plans("x", [({"policy": value, "n": n}, plans[n % 2]) for n in range(count)]))
    width, height = figure.get_size_inches()
    left, right = (axes.get_window_extent() for axes in figure.axes)
    assert left.width > 0.4 * width * figure.dpi
    assert right.width > 0.25 * width * figure.dpi
    assert min(left.height, right.height) > 2.5 * figure.dpi
    legend = figure.legends[0].get_window_extent()
    assert legend.x0 >= 0
    assert legend.x1 <= width * figure.dpi
    assert not legend.overlaps(left)
    assert height < 8
