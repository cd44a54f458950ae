from __future__ import annotations

import pytest

import fadewise as fw
from fadewise.reports.curves import Evaluation, Spent, Target, parse_target, reached, smoothed, spent, usual_targets


def curve(*accuracies: float) -> list[Evaluation]:
    return [
        Evaluation(10 * n, accuracy, 1 - accuracy, 2.0 * n, 3.0 * n, 4.0 * n)
        for n, accuracy in enumerate(accuracies, 1)
    ]


LUCKY = curve(0.2, 0.9, 0.3, 0.5, 0.6, 0.7, 0.6)


def test_a_target_is_reached_when_three_in_a_row_average_above_it() -> None:
    at = reached(LUCKY, Target("accuracy", 0.6))
    assert at is not None
    assert at.rounds == 60  # 0.5 + 0.6 + 0.7
    assert reached(LUCKY, Target("accuracy", 0.65)) is None
    assert reached(curve(0.9, 0.9), Target("accuracy", 0.5)) is None


def test_a_mean_that_is_the_target_reaches_it_whatever_rounding_does() -> None:
    assert reached(curve(0.7, 0.7, 0.7), Target("accuracy", 0.7)) is not None
    assert reached(curve(0.69, 0.7, 0.71), Target("accuracy", 0.7)) is not None


def test_a_loss_is_reached_from_above() -> None:
    at = reached(LUCKY, Target("loss", 0.4))
    assert at is not None
    assert at.rounds == 60


def test_a_run_that_never_reached_a_target_has_spent_all_that_it_spent() -> None:
    assert spent(LUCKY, Target("accuracy", 0.6), "airtime_s") == Spent(12.0, True)
    assert spent(LUCKY, Target("accuracy", 0.65), "energy") == Spent(28.0, False)


def test_usual_targets_are_reached_by_all() -> None:
    targets = usual_targets([LUCKY, curve(0.5, 0.5, 0.5)])
    assert [target.value for target in targets] == [0.4, 0.45, 0.5]
    assert all(reached(LUCKY, target) for target in targets)
    with pytest.raises(fw.FadewiseError, match=r"not all runs have reached an accuracy of 0\.05"):
        usual_targets([LUCKY, curve(0.9, 0.9)])


@pytest.mark.parametrize("text", ["0.7", "accuracy", "accuracy=", "accuracy=70", "accuracy=nan", "loss=-1", "f1=0.5"])
def test_a_target_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(fw.FadewiseError, match="it must be accuracy=A"):
        parse_target(text)


def test_targets_are_read() -> None:
    assert parse_target("accuracy=0.7") == Target("accuracy", 0.7)
    assert parse_target("loss=1.5") == Target("loss", 1.5)


def test_smoothing_looks_back() -> None:
    assert list(smoothed([1.0, 3.0, 5.0, 7.0], 3)) == [1, 2, 3, 5]
