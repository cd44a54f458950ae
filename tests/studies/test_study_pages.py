"""Every study's page at full scale, from made-up numbers: what is compared with what, and what is said of it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fadewise import config, planning, studies
from fadewise.manifest import manifest
from fadewise.reports.curves import Evaluation
from fadewise.reports.runs import DeviceGroup, Run
from fadewise.reproduction import pages
from fadewise.reproduction.store import Store
from fadewise.reproduction.study import Line
from fadewise.studies import corrections, prediction


def run(line: Line, seed: int, airtime_s: float) -> Run:
    """A run whose accuracy comes to 0.95 half-way, with this airtime a round."""
    settings = manifest(config.experiment(line.settings(seed), line.preset))
    every, scale = settings["training"]["evaluate_every"], line.rounds / 6
    evaluations = [
        Evaluation(
            rounds, 1 - math.exp(-rounds / scale), 3 * math.exp(-rounds / scale),
            airtime_s * rounds, airtime_s * rounds, 2.0 * rounds, 0.1 * rounds,
        )
        for rounds in range(every, line.rounds + 1, every)
    ]  # fmt: skip
    groups = [DeviceGroup(f"mean gain {gain}", 10, 0.1, 1.0) for gain in (1, 2, 3)]
    judged = {"classes": [0.5, 0.4], "groups": [0.3, 0.4, 0.5]} if line.judged else {}
    return Run("made up", settings, line.rounds, evaluations, groups, [(1, 2.0), (line.rounds, 1.0)], 3600.0, judged)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[Line, int], float]], str]:
    """The page of a study whose lines have these airtimes a round under two seeds."""
    plan = planning.plan

    def short(experiment: Any, *_: Any) -> planning.Plan:
        return plan(experiment, range(2))

    monkeypatch.setattr(prediction, "plan", short)
    load = config.load
    monkeypatch.setattr(config, "load", lambda preset, changes: load(preset, changes | {"rounds": 20}))
    for table in ("bias_table", "cap_table"):
        original = getattr(corrections, table)
        monkeypatch.setattr(corrections, table, lambda seeds, rounds, of=original: of(range(2), 20))

    def write(name: str, airtime_s: Callable[[Line, int], float]) -> str:
        study, store = studies.by_name()[name], Store(tmp_path / "data")
        for line in study.lines("full"):
            for seed in range(2):
                store.add(line.identity, run(line, seed, airtime_s(line, seed)))
        assert pages.write(study, "full", store, tmp_path)
        pages.write_verdicts(tmp_path, store)
        return (tmp_path / f"{name}.md").read_text(encoding="utf-8")

    return write


def half(line: Line, seed: int) -> float:
    """Uniform choice takes twice the airtime; both scatter a little, and not alike."""
    return (1.0 if "uniform" in line.name else 0.5) * (1 + 0.1 * seed * ("uniform" in line.name))


@pytest.mark.parametrize("name", ["cifar10", "mnist-by-writer", "handwriting", "femnist", "heterogeneous", "saving"])
def test_the_policy_is_compared_with_uniform_choice(
    written: Callable[[str, Callable[[Line, int], float]], str], tmp_path: Path, name: str
) -> None:
    text = written(name, half)
    assert "Quick" not in text
    ratios = [float(found) for found in re.findall(r"× (\d\.\d\d) \(", text)]
    assert {0.48, 1.0} >= set(ratios)  # of airtime 0.5/√1.1, of rounds 1
    assert ratios.count(0.48) >= 3
    for figure in re.findall(r"\]\((.*\.svg)\)", text):
        assert (tmp_path / figure).exists()
        assert (tmp_path / figure).with_suffix(".pdf").exists()
    if name in ("cifar10", "mnist-by-writer", "femnist"):
        verdicts = (tmp_path / "verdicts.md").read_text()
        assert verdicts.count("| 0.48 (") == {"cifar10": 4, "mnist-by-writer": 2, "femnist": 2}[name]
        assert "inside" in verdicts
    if name == "heterogeneous":
        assert "| 0.300 ±0 | 0.400 ±0 | 0.500 ±0 | 0.400 ±0 | 1.00 |" in text


@pytest.mark.parametrize("name", ["cifar10", "mnist-by-writer"])
def test_a_network_without_runs_has_no_heading(tmp_path: Path, name: str) -> None:
    study, store = studies.by_name()[name], Store(tmp_path / "data")
    for line in study.lines("full"):
        if "-het" in line.preset:
            store.add(line.identity, run(line, 0, 1.0))
    pages.write(study, "full", store, tmp_path)
    text = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    assert "## Heterogeneous channels" in text
    assert "## Homogeneous channels" not in text


def test_the_corrections_are_compared_with_what_is_published(
    written: Callable[[str, Callable[[Line, int], float]], str],
) -> None:
    text = written("corrections", lambda line, seed: 0.5 + 0.01 * seed + 0.1 * ("published" in line.name))
    assert re.search(r"\| both as published, λ = 1000 \| \d+; × 1\.\d\d \(", text)
    assert re.search(r"\| exact, λ = 1000 \| 1\.0000 \| 1\.0000 \|", text)
    (bias,) = re.findall(r"\| the paper's fallback, λ = 1000 \| (\d\.\d+)", text)
    assert float(bias) > 1.05


def test_a_prediction_that_is_right_is_found_right(
    written: Callable[[str, Callable[[Line, int], float]], str],
) -> None:
    """Runs that all take as many rounds: then airtime is in proportion to that of a round."""
    weights = {f"λ = {weight}": weight for weight in prediction.WEIGHTS}
    planned = {
        name: planning.plan(
            config.load(prediction.PRESET, {"policy.airtime_weight": float(weight), "rounds": 20}), range(2)
        )
        for name, weight in weights.items()
    }
    text = written("prediction", lambda line, seed: planned[line.name].airtime_s.value)
    assert "Measured, λ = 10000 is best" in text
    assert "By “no variance” it is λ = 10000, which takes 1.00 times as long." in text


def test_the_corollarys_shape_is_fitted() -> None:
    points = [
        prediction.Point(1, 1.0, v, 300 / (1 - v / 80), 300 / (1 - v / 80), True) for v in (5.0, 10.0, 20.0, 40.0, 60.0)
    ]
    first, limit = prediction.corollary(points)
    assert first == pytest.approx(300, rel=0.02)
    assert limit == pytest.approx(80, rel=0.02)
    assert prediction.predictions(points)["Corollary 1, fitted"] == pytest.approx([p.rounds for p in points], rel=0.05)
