from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet
import pytest

import fadewise as fw
from fadewise.reports import export
from tests.reports import made


def test_every_round_is_a_row_and_both_formats_say_the_same(tmp_path: Path) -> None:
    made.run(tmp_path / "runs" / "a", [0.1, 0.2], seed=4)
    made.run(tmp_path / "runs" / "b", [0.5], preset="handwriting/het-uniform")
    for name in ("rounds.csv", "rounds.parquet"):
        assert export.write([tmp_path / "runs"], tmp_path / name) == 15
    with (tmp_path / "rounds.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = pyarrow.parquet.read_table(tmp_path / "rounds.parquet").to_pylist()
    assert [row["round"] for row in table] == [*range(10), *range(5)]
    assert list(table[0]) == list(rows[0])
    for row, other in zip(table, rows, strict=True):
        assert (str(row["seed"]), row["configuration"], row["run"]) == (
            other["seed"],
            other["configuration"],
            other["run"],
        )
        assert row["participants"] == json.loads(other["participants"])
        assert other["accuracy"] == ("" if row["accuracy"] is None else str(row["accuracy"]))
        assert row["wall_s"] == float(other["wall_s"]) == 0.1
    assert {row["configuration"] for row in table} == {"lyapunov", "uniform"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rounds.csv", "rounds.parquet", "runs"]


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    made.run(tmp_path / "a", [0.1])
    with pytest.raises(fw.FadewiseError, match=r"must be a name ending in \.csv or \.parquet"):
        export.write([tmp_path], tmp_path / "rounds.xlsx")
    with pytest.raises(fw.FadewiseError, match=r"nowhere/rounds\.csv cannot be written"):
        export.write([tmp_path], tmp_path / "nowhere" / "rounds.csv")


def test_runs_of_another_version_may_have_written_more(tmp_path: Path) -> None:
    made.run(tmp_path / "runs" / "a", [0.1])
    records = made.run(tmp_path / "runs" / "b", [0.1], seed=1) / "rounds.jsonl"
    records.write_text(records.read_text().replace('{"round"', '{"some_day": 1, "round"'))
    for name in ("rounds.csv", "rounds.parquet"):
        assert export.write([tmp_path / "runs"], tmp_path / name) == 10
    assert "some_day" not in (tmp_path / "rounds.csv").read_text()
