"""Ratios of what targets cost: exact on known curves, honest where a run never came there."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fadewise as fw
from fadewise.reports import comparison, runs, tables
from fadewise.reports.comparison import compared, ratio
from fadewise.reports.curves import Target
from fadewise.reports.runs import Arm
from tests.reports import made

RISING = [0.1, 0.3, 0.5, 0.6, 0.7, 0.7, 0.7]
LOW = [0.1, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]
TARGET = Target("accuracy", 0.6)  # RISING meets it with its fifth evaluation: round 25


def arms(folder: Path, ours: list[tuple[list[float], float]], theirs: list[tuple[list[float], float]]) -> list[Arm]:
    """Uniform choice and the policy, with a curve and an airtime a round for each seed."""
    for seed, (curve, airtime_s) in enumerate(theirs):
        made.run(folder / f"a-uniform-{seed}", curve, airtime_s=airtime_s, seed=seed, preset="handwriting/het-uniform")
    for seed, (curve, airtime_s) in enumerate(ours):
        made.run(folder / f"b-{seed}", curve, airtime_s=airtime_s, seed=seed)
    return runs.arms([folder])


def test_the_interval_is_students_of_paired_logarithms(tmp_path: Path) -> None:
    ours, theirs = [0.5, 0.9, 0.6], [1.0, 2.0, 1.1]
    uniform, policy = arms(tmp_path, [(RISING, a) for a in ours], [(RISING, a) for a in theirs])
    found = ratio(policy, uniform, TARGET, "airtime_s")
    logs = np.log(np.array(ours) / theirs)
    low, high = stats.t.interval(0.95, 2, logs.mean(), stats.sem(logs))
    assert found.paired
    assert found.value == pytest.approx(math.exp(logs.mean()))
    assert found.ci == pytest.approx((math.exp(low), math.exp(high)), rel=1e-3)
    assert ratio(policy, uniform, TARGET, "rounds").value == 1


@pytest.mark.parametrize(
    ("ours", "theirs", "bound", "value"),
    [
        ([RISING, RISING], [RISING, LOW], "≤", math.sqrt(1 * 25 / 35)),  # the other was still going at round 35
        ([LOW, RISING], [RISING, RISING], "≥", math.sqrt(35 / 25)),
        ([LOW, RISING], [RISING, LOW], None, None),
        ([LOW, RISING], [LOW, RISING], None, None),
    ],
)
def test_a_run_that_never_reached_the_target_bounds_the_ratio(
    tmp_path: Path, ours: list[list[float]], theirs: list[list[float]], bound: str | None, value: float | None
) -> None:
    uniform, policy = arms(tmp_path, [(c, 1.0) for c in ours], [(c, 1.0) for c in theirs])
    found = ratio(policy, uniform, TARGET, "airtime_s")
    assert found.bound == bound
    assert found.ci is None
    if value is not None:
        assert found.value == pytest.approx(value)
        assert str(found) == f"{bound} {value:.2f}"
    else:
        assert str(found) == "–"


def test_what_does_not_share_its_settings_is_not_paired(tmp_path: Path) -> None:
    ours, theirs = [0.5, 0.9, 0.6], [1.0, 2.0, 1.1]
    for seed in range(3):
        made.run(tmp_path / f"a-{seed}", RISING, airtime_s=theirs[seed], seed=seed, preset="handwriting/het-uniform")
        made.run(tmp_path / f"b-{seed}", RISING, airtime_s=ours[seed], seed=seed, changes={"training.batch_size": 8})
    uniform, policy = runs.arms([tmp_path])
    found = ratio(policy, uniform, TARGET, "airtime_s")
    assert not found.paired
    # Welch's, whose degrees of freedom are taken as a whole number, on the safe side.
    welch = stats.ttest_ind(np.log(ours), np.log(theirs), equal_var=False).confidence_interval()
    assert found.ci is not None
    assert math.exp(welch.low) / found.ci[0] == pytest.approx(1, abs=0.2)
    assert found.ci[0] <= math.exp(welch.low) < math.exp(welch.high) <= found.ci[1]
    assert comparison.unshared(policy, uniform) == ["training.batch_size"]


def test_how_it_was_computed_does_not_keep_it_from_being_paired(tmp_path: Path) -> None:
    made.run(tmp_path / "a", RISING, preset="handwriting/het-uniform")
    made.run(tmp_path / "b", RISING, changes={"training.device": "cuda"})
    uniform, policy = runs.arms([tmp_path])
    assert ratio(policy, uniform, TARGET, "airtime_s").paired


def test_other_seeds_are_not_paired(tmp_path: Path) -> None:
    made.run(tmp_path / "a", RISING, preset="handwriting/het-uniform", seed=0)
    made.run(tmp_path / "b", RISING, seed=1)
    uniform, policy = runs.arms([tmp_path])
    assert not ratio(policy, uniform, TARGET, "airtime_s").paired


def test_only_common_seeds_are_compared(tmp_path: Path) -> None:
    uniform, policy = arms(tmp_path, [(RISING, 0.5), (RISING, 0.5), (LOW, 99.0)], [(RISING, 1.0), (RISING, 1.0)])
    found = ratio(policy, uniform, TARGET, "airtime_s")
    assert found.value == pytest.approx(0.5)
    assert (found.seeds, found.bound) == (2, "")


def test_what_is_printed_and_what_programs_get(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(arms(tmp_path, [(RISING, 0.5), (LOW, 0.5)], [(RISING, 1.0), (RISING, 1.1)]), TARGET)
    tables.print_comparison(found)
    said = capsys.readouterr().out
    assert "2 of 2" in said
    assert "1 of 2" in said
    assert "> " in said
    uniform, policy = found.as_dict()["arms"]
    assert uniform["ratios"] == {}
    assert policy["airtime_s"]["all_reached"] is False
    assert policy["ratios"]["airtime_s"]["bound"] == "≥"


def test_the_reference_is_named_by_a_part_of_its_name(tmp_path: Path) -> None:
    both = arms(tmp_path, [(RISING, 1.0)], [(RISING, 1.0)])
    assert [comparison.reference(both, text) for text in (None, "uni", "lyap")] == [0, 0, 1]
    with pytest.raises(fw.FadewiseError, match="'n' is in 2 names; it must be in one of"):
        comparison.reference(both, "n")
