from __future__ import annotations

import json
from pathlib import Path

import pytest

import fadewise as fw
from fadewise.reports.curves import Evaluation, evaluations, reached


def curve(*accuracies: float) -> list[Evaluation]:
    return [Evaluation(10 * n, accuracy, 1.0, 2.0 * n, 3.0 * n, 4.0 * n) for n, accuracy in enumerate(accuracies, 1)]


def test_a_target_is_reached_when_three_in_a_row_average_above_it() -> None:
    lucky = curve(0.2, 0.9, 0.3, 0.5, 0.6, 0.7, 0.6)
    at = reached(lucky, 0.6)
    assert at is not None
    assert at.rounds == 60  # 0.5 + 0.6 + 0.7
    assert reached(lucky, 0.65) is None
    assert reached(curve(0.9, 0.9), 0.5) is None


def test_evaluations_are_read_from_a_run(tmp_path: Path) -> None:
    def line(number: int, accuracy: float | None) -> str:
        totals = {"total_airtime_s": 1.5 * number, "total_round_time_s": 2.5 * number, "total_energy": 0.1}
        return json.dumps({"round": number, "accuracy": accuracy, "loss": accuracy} | totals)

    (tmp_path / "rounds.jsonl").write_text(
        "\n".join([line(0, None), line(1, 0.25), line(2, None), line(3, 0.5)]) + "\n"
    )
    assert evaluations(tmp_path) == [
        Evaluation(2, 0.25, 0.25, 1.5, 2.5, 0.1),
        Evaluation(4, 0.5, 0.5, 4.5, 7.5, 0.1),
    ]
    with pytest.raises(fw.FadewiseError, match="is not a run's folder"):
        evaluations(tmp_path / "nothing")
