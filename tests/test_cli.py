"""The command as people and programs meet it: what it prints, how it ends, and never a traceback."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import fadewise
from fadewise import cli, config

PRESET = "paper/cifar10-hom"
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PLAN_KEYS = {
    "mean_participants", "airtime_s", "round_time_s", "mean_power", "worst_power", "worst_power_ratio", "power_slack",
    "objective",    "variance_factor", "fallback_rate", "excluded_share",
}  # fmt: skip


def command() -> str:
    path = shutil.which("fadewise", path=str(Path(sys.executable).parent))
    assert path is not None, "fadewise is not installed beside this Python"
    return path


def ran(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The real command in a process of its own."""
    result = subprocess.run(
        [command(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, **options
    )
    assert "Traceback" not in result.stdout + result.stderr
    return result


def called(*words: str) -> int:
    """The command in this process; its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fadewise", *words])
        patch.setenv("COLUMNS", "160")
        with pytest.raises(SystemExit) as ended:
            cli.main()
    code = ended.value.code
    return code if isinstance(code, int) else 0


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one sentence with which a command ends."""
    assert called(*words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fadewise: ")
    assert err.count("\n") == 1
    return err.removeprefix("fadewise: ").strip()


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert called("plan", *words, "--json") == 0
    out, err = capsys.readouterr()
    assert err == ""
    return [json.loads(line) for line in out.splitlines()]


# What it prints


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("--version") == 0
    assert capsys.readouterr().out == f"{fadewise.__version__}\n"


def test_presets_are_listed_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("presets") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == config.preset_names()
    assert all("The paper's" in line for line in lines if line.startswith("paper/"))


@pytest.mark.parametrize("name", ["paper/cifar10-het", "paper/cifar10-hom-uniform"])
def test_a_preset_copied_to_a_file_plans_the_same(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("presets", "show", name) == 0
    copy = tmp_path / "copy.toml"
    copy.write_text(capsys.readouterr().out)
    assert tomllib.loads(copy.read_text()) == config.read(name)
    (original,), (copied,) = (planned(capsys, source, "--rounds", "30") for source in (name, str(copy)))
    assert copied.pop("source") == str(copy)
    assert original.pop("source") == name
    assert copied == original


def test_json_is_one_object_with_an_interval_for_each_mean(capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = planned(capsys, PRESET, "--rounds", "50", "--seeds", "3-4", "--set", "policy.variant=published")
    assert one["set"] == {"policy.variant": "published", "rounds": 50}
    assert (one["devices"], one["rounds"], one["seeds"]) == (100, 50, [3, 4])
    assert set(one) == {"source", "set", "devices", "rounds", "seeds", "settled_round"} | PLAN_KEYS | {
        f"{key}_ci" for key in PLAN_KEYS
    }
    for key in PLAN_KEYS:
        low, high = one[f"{key}_ci"]
        assert low <= one[key] <= high


def test_json_has_joules_where_the_link_is_in_watts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = "bandwidth_hz = 1e6\npayload_bits = 1e6\npeak_power_dbm = 23.0\nmean_power_w = 0.01\n"
    noise = "noise_density_dbm_hz = -174.0\n"
    file = tmp_path / "net.toml"
    file.write_text(
        f"devices = 5\nrounds = 60\n[link]\n{link}{noise}"
        '[channel]\nkind = "rayleigh"\nmean_gain = 1e-11\n[policy]\nkind = "lyapunov"\nairtime_weight = 1.0\n'
    )
    (one,) = planned(capsys, str(file))
    assert one["energy_j"] > 0
    assert one["energy_j_ci"] is None  # of one seed's 60 rounds there is no interval


def test_a_sweep_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = planned(
        capsys,
        PRESET,
        "--rounds",
        "5",
        "--sweep",
        "policy.airtime_weight=10,100",
        "--sweep",
        "policy.variant=exact,published",
    )
    assert [line["set"] for line in lines] == [
        {"rounds": 5, "policy.airtime_weight": weight, "policy.variant": variant}
        for weight in (10, 100)
        for variant in ("exact", "published")
    ]
    assert lines[0]["mean_participants"] > lines[2]["mean_participants"]


def test_the_same_command_prints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (planned(capsys, PRESET, "--rounds", "40", "--seeds", "0-2") for _ in range(2))
    assert first == second


def test_the_table_names_all_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("plan", PRESET, "--rounds", "60") == 0
    out = capsys.readouterr().out
    for name in (
        "participants",
        "airtime",
        "round time",
        "mean power",
        "worst power",
        "power slack",
        "objective y0",
        "mean 1/π",
        "fallback",
        "excluded",
        "power settled",
    ):
        assert name in out
    assert "100 devices, 60 rounds, seed 0" in out


def test_a_sweeps_table_has_a_line_for_each_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("plan", PRESET, "--rounds", "5", "--sweep", "policy.penalty_weight=12345,54321") == 0
    out = capsys.readouterr().out
    assert "a = policy.penalty_weight" in out
    assert [line.split()[0] for line in out.splitlines() if re.match(r"\s*\d{5}\b", line)] == ["12345", "54321"]


@pytest.mark.parametrize("words", [(), ("plan",), ("presets",), ("presets", "show")])
def test_help_mentions_every_option(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    node: Any = typer.main.get_command(cli.app)
    for word in words:
        node = node.commands[word]
    assert called(*words, "--help") == 0
    said = ANSI.sub("", capsys.readouterr().out)
    names = [name for parameter in node.params for name in parameter.opts if name.startswith("--")]
    for name in [*names, *getattr(node, "commands", {}), "--help"]:
        assert name in said
    if words == ("plan",):
        assert set(names) >= {"--set", "--sweep", "--rounds", "--seeds", "--json", "--plot"}


# Figures


@pytest.mark.parametrize(("suffix", "signature"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_plot_writes_the_format_of_the_ending(
    suffix: str, signature: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"power{suffix}"
    sweep = ("--sweep", "policy.penalty_weight=10,1000")
    assert called("plan", PRESET, "--rounds", "50", *sweep, "--plot", str(file)) == 0
    assert file.read_bytes().startswith(signature)
    assert f"Figure: {file}" in capsys.readouterr().out.replace("\n", "")


def test_the_same_figure_is_the_same_file(tmp_path: Path) -> None:
    """In two processes: nothing of a date, a path or a hash seed is in it."""
    files = [tmp_path / "one.svg", tmp_path / "other.svg"]
    for number, file in enumerate(files):
        result = ran(
            "plan", PRESET, "--rounds", "50", "--seeds", "0-1", "--plot", str(file),
            env=os.environ | {"PYTHONHASHSEED": str(number)},
        )  # fmt: skip
        assert result.returncode == 0
    assert files[0].read_bytes() == files[1].read_bytes()


FOREVER = ("--rounds", "100000000")  # if it were begun, this test would not end


@pytest.mark.parametrize("name", ["figure.jpg", "figure", "figure.svg.gz"])
def test_an_unknown_format_is_refused_before_work(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = refused(capsys, "plan", PRESET, *FOREVER, "--plot", name)
    assert said == f"the figure's file is '{name}'; it must be a name ending in .png, .svg, .pdf"


def test_an_unwritable_target_is_refused_before_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "file").touch()
    for file in (tmp_path / "none" / "x.svg", tmp_path / "file" / "x.svg", tmp_path / "folder.svg"):
        said = refused(capsys, "plan", PRESET, *FOREVER, "--plot", str(file))
        assert said.startswith(f"the figure cannot be written to {file}: ")


# What is wrong


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plan", "paper/cifar10"), "paper/cifar10 is neither a file nor a preset; the nearest is paper/cifar10-hom"),
        (("presets", "show", "cifar10-hom"), "there is no preset cifar10-hom; the nearest is paper/cifar10-hom; "
         "`fadewise presets` lists them"),
        (("plan", PRESET, "--rounds", "0"), f"{PRESET}: rounds is 0; it must be a whole number at least 1 "
         "and at most 1000000000"),
        (("plan", PRESET, "--set", "seed=1", "--seeds", "0-2"), "seed is given more than once on the command line; "
         "it must be given once"),
        (("plan", PRESET, "--set", "policy.variant=exact", "--sweep", "policy.variant=exact,published"),
         "policy.variant is given more than once on the command line; it must be given once"),
        (("plan", PRESET, "--set", "rounds"), "--set 'rounds' must be key=value, as in --set policy.airtime_weight=10"),
        (
            ("plan", PRESET, "--set", "policy.variant=exakt"),
            f"{PRESET}: policy.variant is 'exakt'; it must be one of exact, published",
        ),
        (
            ("plan", PRESET, "--seeds", "4-0"),
            "--seeds is '4-0'; it must be seeds or ranges of them, as in 0-4 or 0,3,7",
        ),
        (
            ("plan", PRESET, *FOREVER, "--sweep", "policy.airtime_weight=10,0"),
            f"{PRESET}: policy.airtime_weight is 0.0; it must be a number above 0",
        ),
        (
            ("plan", PRESET, *FOREVER, "--sweep", "policy.kind=lyapunov,unifrom"),
            f"{PRESET}: policy.kind is 'unifrom'; it must be one of lyapunov, uniform, uniform-poisson; "
            "did you mean uniform?",
        ),
        (("plan", PRESET, "--sweep", "rounds=,"), "--sweep 'rounds=,' must be key=v1,v2,…, as in "
         "--sweep policy.penalty_weight=10,100"),
    ],
)  # fmt: skip
def test_a_wrong_word_gets_one_sentence(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, *words) == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("frobnicate",), "no such command 'frobnicate'; `fadewise --help` says what there is"),
        (("plan",), "missing argument 'PRESET_OR_FILE'; `fadewise plan --help` says what there is"),
        (("--versio",), "no such option: --versio; did you mean --version?"),
        (("plan", PRESET, "--frobnicate"), "no such option: --frobnicate; `fadewise plan --help` says what there is"),
        (
            ("plan", PRESET, "--seedz", "3"),
            "no such option: --seedz (Possible options: --seeds, --set, --sweep); "
            "`fadewise plan --help` says what there is",
        ),
        (("plan", PRESET, "--set"), "option '--set' requires an argument"),
        (("presets", "list"), "no such command 'list'; `fadewise presets --help` says what there is"),
        (("data",), "missing command; `fadewise data --help` says what there is"),
        (("export", "runs"), "missing option '--out' / '-o'; `fadewise export --help` says what there is"),
    ],
)
def test_words_that_make_no_command_get_one_sentence_too(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, *words) == said


def test_a_word_too_many_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "plan", PRESET, "more")
    assert "unexpected extra argument" in said
    assert "(more); `fadewise plan --help`" in said


def test_without_any_word_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert called() == 2
    out, err = capsys.readouterr()
    assert "What a schedule costs" in out
    assert not err


def test_the_process_ends_with_2_and_one_line_and_prints_nothing() -> None:
    for words in (("plan", "nope"), ("plan", PRESET, "--set", "policy.airtime_wieght=1"), ("plan", PRESET, "--fast")):
        result = ran(*words)
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert result.stderr.startswith("fadewise: ")


@pytest.mark.parametrize("value", ["channel.kind=[1]", "rounds=100000000000000000000", f"devices={'9' * 5000}"])
def test_no_setting_is_an_internal_error(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "internal error" not in refused(capsys, "plan", PRESET, "--set", value)


@pytest.mark.parametrize("gain", ["nan", "-0.5", "inf"])
def test_a_bad_gain_in_a_trace_is_named_with_its_device(
    gain: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, network = tmp_path / "gains.csv", tmp_path / "net.toml"
    trace.write_text(f"round,device,gain\n0,0,1\n0,1,1\n1,0,1\n1,1,{gain}\n")
    network.write_text(
        "devices = 2\nrounds = 2\n[link]\nbandwidth_hz = 1e6\npayload_bits = 1e6\n"
        f'[channel]\nkind = "trace"\npath = "{trace}"\n[policy]\nkind = "lyapunov"\nairtime_weight = 1.0\n'
    )
    assert refused(capsys, "plan", str(network)) == (
        f"{network}: {trace}: the gain of device 1 in round 1 is {float(gain)}; "
        "it must be a finite number, 0 where the device is unreachable"
    )


def test_a_trace_that_is_too_short_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "gains.npz"
    np.savez(trace, gains=np.ones((3, 100)))
    words = ("plan", PRESET, "--set", "channel.kind=trace", "--set", f"channel.path={trace}")
    assert f"{trace} ends after round 2; set rounds to 3 at most" in refused(capsys, *words, "--rounds", "4")
    (one,) = planned(capsys, *words[1:], "--rounds", "3")
    assert one["rounds"] == 3
    (repeated,) = planned(capsys, *words[1:], "--rounds", "7", "--set", "channel.repeat=true")
    assert repeated["rounds"] == 7


@pytest.mark.parametrize(
    "change",
    ["link.payload_bits=1e300", "link.noise_power=1e300", "link.bandwidth_hz=1e-300", "link.mean_power=1e-300"],
)
def test_extreme_numbers_give_valid_json_and_no_warning(change: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("plan", PRESET, "--rounds", "3", "--set", change, "--json") in (0, 2)
    out, err = capsys.readouterr()
    assert "internal error" not in err
    assert "Infinity" not in out
    assert "NaN" not in out


# The process


@pytest.mark.parametrize("words", [("presets",), ("--version",), ("plan", PRESET, "--rounds", "3", "--json")])
def test_a_reader_that_has_gone_is_no_error_to_report(words: tuple[str, ...]) -> None:
    """As in `fadewise presets | head -1`, with a reader that is sure to have gone."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = subprocess.run(
            [command(), *words], stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE, timeout=60
        )
    finally:
        os.close(writer)
    assert result.stderr == b""


def test_head_takes_its_line_in_silence() -> None:
    result = subprocess.run(f"'{command()}' presets | head -1", shell=True, capture_output=True, text=True, timeout=60)
    assert (result.stdout.count("\n"), result.stderr) == (1, "")


def on_a_terminal(*words: str, interrupt_at: bytes = b"") -> tuple[int, bytes, str]:
    """Exit code, output, and what a terminal on the error stream was sent; interrupted where that says so."""
    terminal, error = pty.openpty()
    try:
        process = subprocess.Popen(
            [command(), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=error,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
            start_new_session=True,
        )
        os.close(error)
        sent, interrupted = b"", False
        while True:
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # Linux's way to say that the other end is closed
                break
            if not piece:
                break
            sent += piece
            if interrupt_at and not interrupted and interrupt_at in sent:
                process.send_signal(signal.SIGINT)
                interrupted = True
        out, _ = process.communicate(timeout=60)
    finally:
        os.close(terminal)
    assert b"Traceback" not in sent + out
    return process.returncode, out, sent.decode()


def test_a_progress_bar_is_for_terminals_only() -> None:
    words = ("plan", PRESET, "--rounds", "300", "--json")
    code, out, sent = on_a_terminal(*words)
    assert code == 0
    assert "planning" in sent
    assert "%" in sent
    piped = ran(*words)
    assert (piped.returncode, piped.stderr) == (0, "")
    assert json.loads(piped.stdout) == json.loads(out)


def test_an_interrupted_plan_ends_with_130_and_one_line() -> None:
    code, out, sent = on_a_terminal("plan", PRESET, "--rounds", "1000000", interrupt_at=b"planning")
    assert (code, out) == (130, b"")
    after = ANSI.sub("", sent.split("planning")[-1])
    lines = [line.strip() for line in after.replace("\r", "\n").splitlines()]
    assert [line for line in lines if line.startswith("fadewise")] == ["fadewise: stopped"]


# What people type and have


def test_a_figure_that_cannot_be_written_is_refused_before_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dangling, old = tmp_path / "dangling.svg", tmp_path / "old.svg"
    dangling.symlink_to(tmp_path / "none" / "x.svg")
    for file in (Path("/proc/x.svg"), Path("/sys/x.png"), dangling):
        said = refused(capsys, "plan", PRESET, *FOREVER, "--plot", str(file))
        assert said.startswith(f"the figure cannot be written to {file}: ")
    old.write_text("old")
    new = tmp_path / "new.svg"
    for file in (old, new):
        refused(capsys, "plan", PRESET, "--rounds", "1000000000", "--seeds", "0-9999", "--plot", str(file))
    assert old.read_text() == "old", "looking leaves what is there as it is"
    assert not new.exists()


@pytest.mark.parametrize("name", ["a$\\frac{$.toml", "[red]x.toml", "[bold].toml", "$.toml"])
def test_any_file_name_is_shown_as_it_is(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, figure = tmp_path / name, tmp_path / f"{name}.png"
    source.write_text(config.preset_text(PRESET))
    for more in ((), ("--sweep", "policy.airtime_weight=10,20")):
        assert called("plan", str(source), "--rounds", "3", *more, "--plot", str(figure)) == 0
        out = capsys.readouterr().out
        assert f"Figure: {figure}" in out.replace("\n", "")
        assert name in "".join(out.split("Figure")[0].split())


def test_a_full_disk_and_closed_streams_are_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        for words in (("presets",), ("plan", PRESET, "--rounds", "3"), ("plan", PRESET, "--rounds", "3", "--json")):
            result = subprocess.run(
                [command(), *words],
                stdin=subprocess.DEVNULL,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
            )
            assert result.returncode == 1
            assert result.stderr == "fadewise: the output cannot be written: No space left on device\n"
    plan = f"'{command()}' plan {PRESET} --rounds 3 --json"
    shell = {"shell": True, "capture_output": True, "text": True, "timeout": 60}
    without_error = subprocess.run(f"{plan} 2>&-", **shell)  # type: ignore[call-overload]
    assert (without_error.returncode, without_error.stdout.count("\n")) == (0, 1)
    without_output = subprocess.run(f"{plan} >&-", **shell)  # type: ignore[call-overload]
    assert without_output.returncode == 1
    assert without_output.stderr.startswith("fadewise: the standard output is closed")


def test_a_sweep_over_policies_is_numbered_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = 'policy={kind="uniform", participants=4},{kind="lyapunov", airtime_weight=20}'
    assert called("plan", PRESET, "--rounds", "5", "--sweep", sweep) == 0
    out = capsys.readouterr().out
    assert "1: policy = {kind = uniform, participants = 4}" in out
    assert "2: policy = {kind = lyapunov, airtime_weight = 20}" in out
    assert [line.split()[0] for line in out.splitlines() if re.match(r"\s*[12] ", line)] == ["1", "2"]
    lines = planned(capsys, PRESET, "--rounds", "5", "--sweep", sweep)
    assert [line["set"]["policy"]["kind"] for line in lines] == ["uniform", "lyapunov"]
    said = refused(capsys, "plan", PRESET, "--set", "policy.airtime_weight=3", "--sweep", sweep)
    assert said == "policy.airtime_weight is given beside policy, the whole table; give one or the other"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plan", ""), "the name of the preset or file is empty; `fadewise presets` lists the presets"),
        (("plan", PRESET, "--rounds", "1.5"), f"{PRESET}: rounds is 1.5; it must be a whole number"),
        (("plan", PRESET, "--rounds", "3", "--rounds", "4"), "rounds is given more than once on the command line; "
         "it must be given once"),
        (("plan", PRESET, "--seeds", "0", "--seeds", "1"), "seed is given more than once on the command line; "
         "it must be given once"),
        (("plan", PRESET, "--seeds", "٣"), "--seeds is '٣'; it must be seeds or ranges of them, as in 0-4 or 0,3,7"),
        (("plan", PRESET, "--set", "policy..x=1"), "--set 'policy..x=1' has a dot too many; "
         "a key is as in policy.airtime_weight"),
        (("plan", PRESET, "--set", "policy.airtime_weight=abc"),
         f"{PRESET}: policy.airtime_weight is 'abc'; it must be a number above 0"),
        (("plan", PRESET, "--set", "policy.airtime_weight=true"),
         f"{PRESET}: policy.airtime_weight is true; it must be a number above 0"),
        (("plan", PRESET, "--set", "policy.penalty_weight=1e-310"),
         f"{PRESET}: policy.penalty_weight is 1e-310; it must be from 1e-50 to 1e+50"),
        (("plan", PRESET, "--set", "link.peak_power=1e200"),
         f"{PRESET}: link.peak_power is 1e+200; it must be from 1e-50 to 1e+50"),
        (("plan", PRESET, "--set", "policy.warm_start_rounds=100001"),
         f"{PRESET}: policy.warm_start_rounds is 100001; it must be a whole number at least 0 and at most 100000"),
        (("plan", PRESET, "--sweep", "rounds=1,,2"), "--sweep 'rounds=1,,2' must be key=v1,v2,…, as in "
         "--sweep policy.penalty_weight=10,100"),
        (("plan", PRESET, "--sweep", "rounds=3,4,3"), "--sweep 'rounds=3,4,3' has a value more than once; "
         "it must have each once"),
        (("plan", PRESET, "--sweep", "policy.airtime_weight=1,nan"),
         "--sweep 'policy.airtime_weight=1,nan' has nan among its values; there is nothing to plan with it"),
    ],
)  # fmt: skip
def test_a_slip_gets_its_own_sentence(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, *words) == said


def test_work_beyond_this_machine_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "plan", PRESET, "--rounds", "1000000000", "--seeds", "0-99")
    assert said.startswith("rounds = 1000000000 with 100 seeds needs about")


def test_a_file_with_a_mark_in_front_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.toml"
    file.write_text(config.preset_text(PRESET), encoding="utf-8-sig")
    assert len(planned(capsys, str(file), "--rounds", "3")) == 1


def test_the_schema_of_a_part_is_made_once() -> None:
    assert config._schema(fadewise.Lyapunov) is config._schema(fadewise.Lyapunov)
    assert config._link_schema(True) is config._link_schema(True)


def test_a_run_that_has_not_settled_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("plan", "paper/cifar10-het", "--rounds", "1000") == 0
    out = capsys.readouterr().out
    assert re.search(r"mean power .*not settled", out)
    assert "--seeds 0-4" in out


def test_a_sweeps_numbers_are_whole_however_narrow_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for width in ("40", "80"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["fadewise", "plan", "paper/cifar10-het", "--rounds", "1000",
                                        "--sweep", "policy.penalty_weight=10,100000"])  # fmt: skip
            patch.setenv("COLUMNS", width)
            with pytest.raises(SystemExit):
                cli.main()
        out = capsys.readouterr().out
        assert "…" not in out
        assert "unsettled" in out
        assert "worst/P̄" in out
        assert max(map(len, out.splitlines())) <= 81  # P̄ is two characters


def test_where_no_interval_can_be_the_table_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("plan", PRESET, "--rounds", "999") == 0
    assert "no ± from fewer than 1,000 rounds of one seed" in capsys.readouterr().out
