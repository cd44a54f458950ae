"""What `fadewise bench` prints; how fast anything is, no test asks."""

import json
import sys

import numpy as np
import pytest

from fadewise import cli
from fadewise.learning.models import CNN
from fadewise.learning.native import library
from fadewise.simulation import bench
from fadewise.simulation.engine import one_thread

TINY = bench.Network("tiny", CNN(first_maps=3, second_maps=5, kernel=3, hidden=4), (8, 8, 1), 3)
PYTORCH = ["PyTorch, float32", "PyTorch, bfloat16"]


def printed(*words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What the command prints when there are tiny networks only."""
    monkeypatch.setattr(bench, "NETWORKS", (TINY, TINY._replace(name="other", image_shape=(12, 4, 3))))
    monkeypatch.setattr(sys, "argv", ["fadewise", "bench", *words])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    return capsys.readouterr().out


def test_json_has_every_backend_of_every_network(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.loads(line) for line in printed("--json", capsys=capsys, monkeypatch=monkeypatch).splitlines()]
    assert [line["network"] for line in lines] == ["tiny", "other"]
    for line in lines:
        assert list(line) == ["network", "auto", "why", "backends"]
        assert [one["backend"] for one in line["backends"]] == [f"native, {t}" for t in library.targets()] + PYTORCH
        for one in line["backends"]:
            assert list(one) == ["backend", "step_ms", "speedup"]
            assert one["step_ms"] > 0
            assert one["speedup"] > 0
        assert {one["backend"]: one["speedup"] for one in line["backends"]}["PyTorch, float32"] == 1


def test_the_table_fits_and_says_what_auto_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = printed(capsys=capsys, monkeypatch=monkeypatch)
    assert "PyTorch, bfloat16" in text
    assert text.count('training.backend = "auto": computing with ') == 1
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def test_without_the_library_pytorch_is_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "targets", list)
    line = json.loads(printed("--json", capsys=capsys, monkeypatch=monkeypatch).splitlines()[0])
    assert [one["backend"] for one in line["backends"]] == PYTORCH
    assert line["auto"] == "pytorch"
    assert "this installation has none" in line["why"]


def test_without_torch_it_is_one_sentence(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["fadewise", "bench"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr() == ("", "fadewise: training needs torch: pip install 'fadewise[train]'\n")


def test_backends_do_the_same_work() -> None:
    work = bench.work_of(TINY)
    with one_thread():
        models = {name: work.done_by(backend).copy() for name, backend in bench.backends(work, TINY).items()}
    moved = np.abs(models["PyTorch, float32"] - work.model).max()
    assert moved > 0
    for name, model in models.items():
        tolerance = 0.2 if "bfloat16" in name else 1e-3
        assert np.abs(model - models["PyTorch, float32"]).max() < tolerance * moved, name


def test_speedups_are_medians_of_each_turns_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    reference, other = [2.0, 3.0, 40.0], [1.0, 3.0, 10.0]
    monkeypatch.setattr(
        bench, "seconds_of", lambda calls, turns: {name: reference if name == PYTORCH[0] else other for name in calls}
    )
    speeds = {speed.backend: speed for speed in bench.measured(TINY, turns=3).speeds}
    steps = len(bench.work_of(TINY).batches)
    assert speeds[PYTORCH[0]][1:] == (1000 * 3.0 / steps, 1.0)
    assert speeds[PYTORCH[1]][1:] == (1000 * 3.0 / steps, 2.0)


def test_backends_take_turns() -> None:
    order: list[str] = []
    times = bench.seconds_of({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, turns=2)
    assert order == ["a", "b"] * 3  # the first turn warms up
    assert {name: len(seconds) for name, seconds in times.items()} == {"a": 2, "b": 2}
