from __future__ import annotations

import math
from pathlib import Path

import pytest

import fadewise as fw
from fadewise.reports import runs
from fadewise.reproduction.store import Store, core_hours
from tests.reports import made


def test_what_is_kept_is_what_was_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    for seed in (1, 0):
        run = runs.read(made.run(tmp_path / str(seed), [0.1234, 0.2], seed=seed, airtime_s=0.5))
        store.add("some", run._replace(judged={"groups": [0.5]}))
    kept = Store(tmp_path / "data").runs("some")
    assert list(kept) == [0, 1]
    for seed, run in kept.items():
        original = runs.read(tmp_path / str(seed))
        for one, other in zip(run.evaluations, original.evaluations, strict=True):
            assert one == pytest.approx(other, rel=1e-6)
        assert run.device_groups == original.device_groups
        assert run.power == original.power
        assert run.seed == seed
        assert runs.key(run.settings) == runs.key(original.settings)
        assert run.judged == {"groups": [0.5]}
    known = [run._replace(core_s=1800.0) for run in kept.values()]
    assert core_hours(known) == "1 core-hours"
    assert core_hours([*known, known[0]._replace(core_s=math.nan)]) == "1 core-hours (of the 2 of which it is known)"
    assert Store(tmp_path / "data").runs("other") == {}


def test_a_file_that_is_damaged_is_said(tmp_path: Path) -> None:
    (tmp_path / "some.json").write_text('{"settings": {}, "runs": {"0": {}}}')
    with pytest.raises(fw.FadewiseError, match=r"some\.json cannot be read as runs' numbers"):
        Store(tmp_path).runs("some")
