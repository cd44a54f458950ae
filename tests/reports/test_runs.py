from __future__ import annotations

import math
from pathlib import Path

import pytest

import fadewise as fw
from fadewise.reports import runs
from tests.reports import made


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = runs.read(made.run(tmp_path / "a", [0.1, 0.2, 0.3, 0.4], airtime_s=0.5, seed=7))
    assert (run.seed, run.rounds, len(run.evaluations)) == (7, 20, 4)
    last = run.evaluations[-1]
    assert (last.rounds, last.accuracy, last.airtime_s, last.energy) == (20, 0.4, 10.0, 20.0)
    assert last.wall_s == pytest.approx(2.0)
    assert run.core_s == pytest.approx(2.0)  # on two ranks
    assert run.power[0] == (1, 1.5)
    assert run.power[-1] == (20, 1.5)


def test_device_groups_are_those_of_the_channel(tmp_path: Path) -> None:
    groups = runs.read(made.run(tmp_path / "a", [0.1] * 4)).device_groups
    assert [(group.name, group.devices) for group in groups] == [
        ("mean gain 0.08", 10), ("mean gain 1.125", 40), ("mean gain 2.88", 50)
    ]  # fmt: skip
    # In 20 rounds device 0 sends twice at power 10 and device 99 18 times at power 2.
    assert [group.participation for group in groups] == pytest.approx([2 / 200, 0, 18 / 1000])
    assert [group.power for group in groups] == pytest.approx([20 / 200, 0, 36 / 1000])


def test_runs_are_brought_together_by_all_but_the_seed(tmp_path: Path) -> None:
    for seed in (3, 1):
        made.run(tmp_path / "x" / f"seed-{seed}", [0.1], seed=seed)
    made.run(tmp_path / "y", [0.1], preset="handwriting/het-uniform")
    x, y = runs.arms([tmp_path / "x", tmp_path / "y"])
    assert (x.name, list(x.runs)) == ("lyapunov", [1, 3])
    assert (y.name, list(y.runs)) == ("uniform", [0])


def test_uniform_choice_is_first_where_no_order_is_given(tmp_path: Path) -> None:
    made.run(tmp_path / "a", [0.1])
    made.run(tmp_path / "b", [0.1], preset="handwriting/het-uniform")
    assert [arm.name for arm in runs.arms([tmp_path])] == ["uniform", "lyapunov"]
    assert [arm.name for arm in runs.arms([tmp_path / "a", tmp_path / "b"])] == ["lyapunov", "uniform"]


def test_names_say_what_differs_and_nothing_else(tmp_path: Path) -> None:
    made.run(tmp_path / "a", [0.1], changes={"policy.airtime_weight": 10.0})
    made.run(tmp_path / "b", [0.1])
    made.run(tmp_path / "c", [0.1], preset="handwriting/het-uniform")
    made.run(tmp_path / "d", [0.1], changes={"policy.airtime_weight": 10.0, "channel.inner.mean_gain": 2.0})
    assert [arm.name for arm in runs.arms([tmp_path])] == [
        "uniform, mean gain 0.08/1.125/2.88",
        "lyapunov, mean gain 0.08/1.125/2.88, λ = 10",
        "lyapunov, mean gain 0.08/1.125/2.88, λ = 100",
        "lyapunov, mean gain 2, λ = 10",
    ]


def test_a_run_that_goes_on_is_read_as_far_as_it_has_come(tmp_path: Path) -> None:
    folder = made.run(tmp_path / "a", [0.1, 0.2])
    with (folder / "rounds.jsonl").open("a") as file:
        file.write('{"round": 10, "partic')
    (folder / "timing.jsonl").unlink()
    run = runs.read(folder)
    assert run.rounds == 10
    assert math.isnan(run.core_s)


def test_what_is_no_run_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(fw.FadewiseError, match="nothing is not there; give a run's folder"):
        runs.arms([tmp_path / "nothing"])
    with pytest.raises(fw.FadewiseError, match="is not a run's folder, and has none in it"):
        runs.arms([tmp_path])
    for name in ("a", "b"):
        made.run(tmp_path / name, [0.1])
    with pytest.raises(fw.FadewiseError, match=r"a and .*b are runs of the same configuration and seed"):
        runs.arms([tmp_path])
    (tmp_path / "a" / "rounds.jsonl").write_text("nonsense\n")
    with pytest.raises(fw.FadewiseError, match=r"a/rounds\.jsonl cannot be read as `fadewise run` writes it"):
        runs.arms([tmp_path / "a"])
    for line, said in [("3", "has a line that is no record"), ('{"round": 0}', "as config.toml has them: 'accuracy'")]:
        (tmp_path / "a" / "rounds.jsonl").write_text(line + "\n")
        with pytest.raises(fw.FadewiseError, match=said):
            runs.arms([tmp_path / "a"])
    records = (tmp_path / "b" / "rounds.jsonl").read_text()
    (tmp_path / "b" / "rounds.jsonl").write_text(records.replace("[99]", "[100]"))
    with pytest.raises(fw.FadewiseError, match=r"b/rounds\.jsonl has a line that is no record .* out of bounds"):
        runs.arms([tmp_path / "b"])
    (tmp_path / "b" / "rounds.jsonl").write_text('{"round": 0, "answered": 3}\n')
    with pytest.raises(fw.FadewiseError, match="b has a server's books of devices on Flower"):
        runs.arms([tmp_path / "b"])
    (tmp_path / "b" / "rounds.jsonl").write_text("")
    with pytest.raises(fw.FadewiseError, match="b has no evaluation yet"):
        runs.arms([tmp_path / "b"])


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ("devices = 100", 'devices = "x"', "config.toml has no devices"),
        ("seed = 0", "", "config.toml has no seed"),
        ('kind = "lyapunov"', "", "config.toml has no policy.kind"),
        ("seed = 0", "seed", "config.toml cannot be read as `fadewise run` writes it"),
    ],
)
def test_settings_that_are_no_runs_are_said(tmp_path: Path, line: str, instead: str, said: str) -> None:
    config = made.run(tmp_path / "a", [0.1]) / "config.toml"
    assert line in config.read_text()
    config.write_text(config.read_text().replace(line, instead))
    with pytest.raises(fw.FadewiseError, match=said):
        runs.arms([tmp_path / "a"])


@pytest.mark.parametrize("text", ["3\n", "[]\n", "nonsense\n"])
def test_what_only_the_clock_said_may_be_missing(tmp_path: Path, text: str) -> None:
    folder = made.run(tmp_path / "a", [0.1, 0.2])
    for name in ("timing.jsonl", "environment.json"):
        (folder / name).write_text(text)
    run = runs.read(folder)
    assert run.rounds == 10
    assert math.isnan(run.core_s)
