"""The app to copy: it is a Flower app, and what it trains is what the simulator trains."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from flwr.app import ArrayRecord

import fadewise as fw
from fadewise.flower import Rules
from fadewise.flower.strategy import Scheduled
from tests.flower.test_strategy import Handed

APP = Path(__file__).parents[2] / "examples" / "flower"
ROUNDS = 3


def test_it_is_bundled_with_its_fleet(tmp_path: Path) -> None:
    quiet = {"FLWR_HOME": str(tmp_path), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    tool = Path(sys.executable).with_name("flwr")
    subprocess.run([tool, "build", "--app", APP], cwd=tmp_path, env=os.environ | quiet, check=True, capture_output=True)
    (fab,) = tmp_path.glob("*.fab")
    with zipfile.ZipFile(fab) as bundle:
        names = bundle.namelist()
    assert {f"scheduled/{name}" for name in ("server_app.py", "client_app.py", "task.py", "fleet.toml")} <= set(names)


def test_it_trains_what_the_simulator_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FADEWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(APP))
    client_app, task = (importlib.import_module(f"scheduled.{name}") for name in ("client_app", "task"))
    experiment = fw.load(str(APP / "scheduled" / "fleet.toml"), {"rounds": ROUNDS})
    grid = Handed(tmp_path / "state", experiment)
    grid.app = client_app.app
    strategy = Scheduled(Rules.of(experiment), tmp_path / "books", "first")
    result = strategy.start(grid, ArrayRecord(task.network().state_dict()), ROUNDS)
    records = [json.loads(line) for line in (tmp_path / "books" / "rounds.jsonl").read_text().splitlines()]
    simulated = list(fw.simulate(experiment))
    for ours, theirs in zip(records, simulated, strict=True):
        assert ours["delivered"] == theirs.participants
        assert ours["weights"] == theirs.weights
        assert ours["losses"] == pytest.approx(theirs.losses, rel=1e-4)
    model = task.network()
    model.load_state_dict(result.arrays.to_torch_state_dict())
    assert task.accuracy(model) == pytest.approx(simulated[-1].accuracy, abs=0.02)
    for name in [name for name in sys.modules if name.partition(".")[0] == "scheduled"]:
        monkeypatch.delitem(sys.modules, name)
