"""Traces from files: the same gains from each format, and a sentence for each thing that can be wrong."""

import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import fadewise as fw
from fadewise.channels.trace import read_trace
from fadewise.randomness import Stream

HEADER = "round,device,gain\n"
WHERE = "every device needs one in every round (0 where it was unreachable)"
FINITE = "it must be a finite number, 0 where the device is unreachable"


def refused(path: Path) -> str:
    """What is said of a file, without the folder it is in."""
    with pytest.raises(fw.FadewiseError) as raised:
        read_trace(path)
    said = str(raised.value)
    assert "\n" not in said.strip()
    return said.replace(f"{path.parent}/", "")


def csv_file(folder: Path, text: str) -> Path:
    path = folder / "gains.csv"
    path.write_text(text)
    return path


def npz_file(folder: Path, **arrays: Any) -> Path:
    path = folder / "gains.npz"
    np.savez(path, **arrays)
    return path


def parquet_file(folder: Path, **columns: Any) -> Path:
    path = folder / "gains.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def test_all_formats_give_the_same_gains(tmp_path: Path) -> None:
    gains = np.random.default_rng(0).exponential(1, (7, 5))
    gains[3, 2] = 0.0
    rounds, devices = (index.ravel() for index in np.indices(gains.shape))
    order = np.random.default_rng(1).permutation(gains.size)
    lines = [
        f"{devices[i]},{gains.ravel()[i]!r},{rounds[i]}\n".replace("np.float64(", "").replace(")", "") for i in order
    ]
    paths = [
        csv_file(tmp_path, "device, gain, round\n" + "".join(lines)),
        npz_file(tmp_path, gains=gains),
        parquet_file(tmp_path, gain=gains.ravel()[order], round=rounds[order], device=devices[order]),
    ]
    for path in paths:
        assert read_trace(path).tobytes() == gains.tobytes(), path.suffix
        assert fw.Trace(str(path)).gains.tobytes() == gains.tobytes()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "gains.csv has no columns; it must have round, device, gain"),
        ("round,device\n0,0\n", "gains.csv has the columns round, device; it must have round, device, gain"),
        ("round;device;gain\n0;0;1\n", "gains.csv has the columns round;device;gain; it must have round, device, gain"),
        ("round,gain,gain\n", "gains.csv has the columns round, gain, gain; it must have round, device, gain"),
        (HEADER, "gains.csv has no rows; it must have one for each device in each round"),
        (HEADER + "0,0,1\n0,1,x\n", "gains.csv, line 3: '0,1,x' must be three numbers: round, device, gain"),
        (HEADER + "0,0,1\n0,1\n", "gains.csv, line 3: '0,1' must be three numbers: round, device, gain"),
        (HEADER + "0,0,0x1\n", "gains.csv, line 2: '0,0,0x1' must be three numbers: round, device, gain"),
        (HEADER + "1,0,1\n", "gains.csv: the lowest round is 1; rounds must be numbered from 0"),
        (HEADER + "0,0,1\n1,1,1\n1,0,1\n", f"gains.csv has no gain for device 1 in round 0; {WHERE}"),
        (
            HEADER + "0,0,1\n0,1,1\n1,1,2\n1,0,1\n1,1,2\n",
            f"gains.csv has more than one gain for device 1 in round 1; {WHERE}",
        ),
        (
            HEADER + "5000000,5000000,1\n",
            "gains.csv has 1 rows for 5000001 rounds of 5000001 devices; it must have one for each",
        ),
        (HEADER + "0,0,1\n0,1,-0.5\n", f"gains.csv: the gain of device 1 in round 0 is -0.5; {FINITE}"),
        (HEADER + "0,0,nan\n", f"gains.csv: the gain of device 0 in round 0 is nan; {FINITE}"),
        (HEADER + "0,0,1\n1,0,inf\n", f"gains.csv: the gain of device 0 in round 1 is inf; {FINITE}"),
        (HEADER + "0,0,1e400\n", f"gains.csv: the gain of device 0 in round 0 is inf; {FINITE}"),
    ],
)
def test_a_bad_csv_gets_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    assert refused(csv_file(tmp_path, text)) == said


@pytest.mark.parametrize(
    ("line", "what"),
    [("0.5,0,1", "round 0.5"), ("-1,0,1", "round -1"), ("nan,0,1", "round nan"), ("0,1.5,1", "device 1.5")],
)
def test_rounds_and_devices_are_whole_numbers(tmp_path: Path, line: str, what: str) -> None:
    said = refused(csv_file(tmp_path, HEADER + line + "\n"))
    assert said.startswith(f"gains.csv: {what} in ")
    assert said.endswith("must be a whole number from 0")


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.ones(3), "gains.npz: gains have shape (3,); they must be (rounds, devices)"),
        (np.ones((0, 3)), "gains.npz: gains have shape (0, 3); they must be (rounds, devices)"),
        (np.ones((1, 1, 1)), "gains.npz: gains have shape (1, 1, 1); they must be (rounds, devices)"),
        (np.array([[1.0, -2.0]]), f"gains.npz: the gain of device 1 in round 0 is -2.0; {FINITE}"),
        (np.array([[1.0], [np.nan]]), f"gains.npz: the gain of device 0 in round 1 is nan; {FINITE}"),
        (np.array([[np.inf]]), f"gains.npz: the gain of device 0 in round 0 is inf; {FINITE}"),
    ],
)
def test_a_bad_npz_gets_one_sentence(tmp_path: Path, array: np.ndarray, said: str) -> None:
    assert refused(npz_file(tmp_path, gains=array)) == said


def test_an_npz_needs_an_array_named_gains(tmp_path: Path) -> None:
    assert refused(npz_file(tmp_path, gain=np.ones((2, 2)), x=np.ones(1))) == (
        "gains.npz has no array named gains; it has gain, x"
    )
    assert refused(npz_file(tmp_path)) == "gains.npz has no array named gains; it has none"


def test_an_npz_of_objects_or_words_is_refused(tmp_path: Path) -> None:
    for array in (np.array([["loud"]]), np.array([[{}]], dtype=object)):
        assert refused(npz_file(tmp_path, gains=array)).startswith("gains.npz cannot be read as .npz: ")


def test_complex_amplitudes_are_not_gains(tmp_path: Path) -> None:
    """h where |h|² is meant: dropping the imaginary part would be wrong without a word."""
    assert refused(npz_file(tmp_path, gains=np.array([[1 + 1j]]))).startswith("gains.npz")


def damaged_npz(folder: Path, how: str) -> bytes:
    raw = bytearray(npz_file(folder, gains=np.random.default_rng(0).random((30, 30))).read_bytes())
    if how == "empty":
        return b""
    if how == "text":
        return b"round,device,gain\n0,0,1\n"
    if how == "only a signature":
        return b"PK\x03\x04"
    if how == "truncated":
        return bytes(raw[: len(raw) // 2])
    if how == "one byte changed":
        raw[len(raw) // 2] ^= 255
        return bytes(raw)
    path = folder / "array.npy"
    np.save(path, np.ones((2, 2)))
    return path.read_bytes()


@pytest.mark.parametrize("how", ["empty", "text", "only a signature", "truncated", "one byte changed", "an npy"])
def test_a_corrupt_npz_is_refused(tmp_path: Path, how: str) -> None:
    path = tmp_path / "corrupt.npz"
    path.write_bytes(damaged_npz(tmp_path, how))
    assert refused(path).startswith("corrupt.npz cannot be read")


def test_a_zip_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    with zipfile.ZipFile(path, "w") as other:
        other.writestr("readme.txt", "hello")
    assert refused(path) == "other.npz has no array named gains; it has readme.txt"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"round": [0], "device": [0]},
            "gains.parquet has the columns round, device; it must have round, device, gain",
        ),
        (
            {"round": [0], "device": [0], "gain": ["x"]},
            "gains.parquet: the columns round, device, gain must hold numbers",
        ),
        (
            {"round": [0], "device": [0], "gain": [{"dB": 1.0}]},
            "gains.parquet: the columns round, device, gain must hold numbers",
        ),
        (
            {"round": [0, 0], "device": [0, 1], "gain": [1.0, None]},
            f"gains.parquet: the gain of device 1 in round 0 is nan; {FINITE}",
        ),
        (
            {"round": [0, 1], "device": [0, 1], "gain": [1.0, 1.0]},
            f"gains.parquet has no gain for device 1 in round 0; {WHERE}",
        ),
        (
            {"round": [0, 0], "device": [0, 0], "gain": [1.0, 1.0]},
            f"gains.parquet has more than one gain for device 0 in round 0; {WHERE}",
        ),
        (
            {"round": [0], "device": [0], "gain": [-1.0]},
            f"gains.parquet: the gain of device 0 in round 0 is -1.0; {FINITE}",
        ),
    ],
)
def test_a_bad_parquet_gets_one_sentence(tmp_path: Path, columns: dict[str, list[Any]], said: str) -> None:
    assert refused(parquet_file(tmp_path, **columns)) == said


def test_an_empty_parquet_is_refused(tmp_path: Path) -> None:
    nothing = pyarrow.array([], pyarrow.float64())
    assert refused(parquet_file(tmp_path, round=nothing, device=nothing, gain=nothing)) == (
        "gains.parquet has no rows; it must have one for each device in each round"
    )


@pytest.mark.parametrize("damage", ["empty", "truncated", "data", "footer"])
def test_a_corrupt_parquet_is_refused(tmp_path: Path, damage: str) -> None:
    path = parquet_file(tmp_path, round=list(range(1000)), device=[0] * 1000, gain=[1.0] * 1000)
    raw = bytearray(path.read_bytes())
    place = {"data": 6, "footer": len(raw) - 200}.get(damage, 0)
    if place:
        raw[place : place + 20] = b"\xff" * 20
    path.write_bytes(bytes(raw[: {"empty": 0, "truncated": len(raw) // 2}.get(damage, len(raw))]))
    assert refused(path).startswith("gains.parquet cannot be read")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet_file(tmp_path, round=[0], device=[0], gain=[1.0])
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    assert refused(path) == (
        "gains.parquet is parquet, which needs pyarrow: pip install 'fadewise[train]', or give a .csv or .npz file"
    )


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet"])
def test_a_missing_file_is_named(tmp_path: Path, suffix: str) -> None:
    assert refused(tmp_path / f"none{suffix}") == f"none{suffix} cannot be read: No such file or directory"


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet"])
def test_a_folder_is_not_a_trace(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"folder{suffix}").mkdir()
    assert refused(tmp_path / f"folder{suffix}") == f"folder{suffix} cannot be read: Is a directory"


@pytest.mark.parametrize("name", ["gains.txt", "gains", "gains.csv.gz"])
def test_an_unknown_ending_is_refused(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path / name) == f"path is '{name}'; it must be a file ending in .csv, .npz, .parquet"


def test_a_decimal_comma_is_not_cut_off(tmp_path: Path) -> None:
    """`0,1,2,5` is a gain of 2,5 to whoever wrote it; read as 2 it would be wrong without a word."""
    assert refused(csv_file(tmp_path, HEADER + "0,0,1\n0,1,2,5\n")).startswith("gains.csv, line 3: '0,1,2,5'")


def test_a_csv_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gains.csv"
    path.write_bytes(b"\xff\xfer\x00o\x00")
    assert refused(path).startswith("gains.csv")


def test_a_csv_with_an_endless_field_is_refused(tmp_path: Path) -> None:
    assert refused(csv_file(tmp_path, HEADER + "0,0," + "1" * 200_000 + "\n")).startswith("gains.csv")


# The channel


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return npz_file(tmp_path, gains=np.arange(6.0).reshape(2, 3))


def step(channel: fw.Trace, round: int, devices: int = 3, first: int = 0) -> list[float]:
    stream = Stream(0, round, first)
    gains, _ = channel.step(channel.init(devices, stream), devices, stream)
    return [float(gain) for gain in gains]


def test_rounds_and_devices_are_those_of_the_file(trace: Path) -> None:
    channel = fw.Trace(trace)
    assert step(channel, 0) == [0.0, 1.0, 2.0]
    assert step(channel, 1) == [3.0, 4.0, 5.0]
    assert step(channel, 1, devices=1, first=2) == [5.0]
    assert step(channel, 1, devices=2) == [3.0, 4.0]


def test_a_trace_that_ends_says_so(trace: Path) -> None:
    with pytest.raises(fw.FadewiseError) as raised:
        step(fw.Trace(trace), 2)
    assert str(raised.value) == f"{trace} ends after round 1; set rounds to 2 at most, or the channel's repeat = true"


def test_a_trace_repeats_if_so_wished(trace: Path) -> None:
    channel = fw.Trace(trace, repeat=True)
    assert [step(channel, t)[0] for t in range(5)] == [0.0, 3.0, 0.0, 3.0, 0.0]


@pytest.mark.parametrize(("devices", "first", "needed"), [(4, 0, 4), (1, 3, 4), (2, 2, 4)])
def test_a_trace_of_too_few_devices_says_so(trace: Path, devices: int, first: int, needed: int) -> None:
    with pytest.raises(fw.FadewiseError) as raised:
        step(fw.Trace(trace), 0, devices, first)
    assert str(raised.value) == f"{trace} has gains for 3 devices, not for {needed}"


def test_a_bad_file_is_refused_when_the_channel_is_made(tmp_path: Path) -> None:
    with pytest.raises(fw.FadewiseError, match=r"has no rows"):
        fw.Trace(csv_file(tmp_path, HEADER))


def test_the_trace_cannot_be_changed_by_its_users(trace: Path) -> None:
    channel = fw.Trace(trace)
    gains, _ = channel.step(channel.init(3, Stream(0, 0)), 3, Stream(0, 0))
    gains[:] = 9.0
    assert step(channel, 0) == [0.0, 1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        channel.gains[0, 0] = 1.0


def test_an_experiment_checks_its_trace_before_the_first_round(tmp_path: Path) -> None:
    path = npz_file(tmp_path, gains=np.ones((4, 3)))
    link = fw.Link(1e6, 1e6)

    def experiment(devices: int, rounds: int, repeat: bool, warm_start_rounds: int = 0) -> fw.Experiment:
        channel = fw.Bounded(link, fw.Trace(path, repeat))
        policy = fw.Lyapunov(link, devices, 1.0, warm_start_rounds=warm_start_rounds)
        return fw.Experiment(devices, channel, policy, rounds=rounds)

    fw.plan(experiment(3, 4, repeat=False))
    fw.plan(experiment(3, 9, repeat=True, warm_start_rounds=5))
    for (devices, rounds, repeat, warm), said in {
        (2, 4, True, 0): "has gains for 3 devices; it must have them for 2",
        (3, 5, False, 0): "ends after round 3; set rounds to 4 at most, or the channel's repeat = true",
        (3, 4, False, 1): "has no rounds before round 0 for a warm start to see; "
        "set the channel's repeat = true, or policy.warm_start_rounds = 0",
    }.items():
        with pytest.raises(fw.FadewiseError) as raised:
            experiment(devices, rounds, repeat, warm)
        assert str(raised.value) == f"{path} {said}"


def test_devices_numbered_from_one_are_told(tmp_path: Path) -> None:
    path = csv_file(tmp_path, HEADER + "0,1,1\n0,2,1\n")
    assert refused(path) == "gains.csv: the lowest device is 1; devices must be numbered from 0"
