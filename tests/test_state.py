"""Saving a state: what comes back is what was saved, or a sentence; a file is whole whatever happens."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from fadewise.errors import FadewiseError
from fadewise.state import NoState, flatten, load_state, save_state


class Inner(NamedTuple):
    on: NDArray[np.bool_]
    nothing: NoState


class Outer(NamedTuple):
    backlog: NDArray[np.float64]
    rounds_on: NDArray[np.int64]
    inner: Inner


class Backlog(NamedTuple):
    backlog: NDArray[np.float64]


def state(devices: int, seed: int = 0) -> Outer:
    rng = np.random.default_rng(seed)
    backlog = rng.exponential(1.0, devices)
    backlog[0] = 5e-324  # not lost, not rounded
    return Outer(backlog, rng.integers(0, 10**15, devices), Inner(rng.random(devices) < 0.5, NoState()))


def as_bytes(one: Outer) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in flatten(one).items()}


def test_a_nested_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    saved = state(5)
    save_state(tmp_path / "state", saved)
    loaded = load_state(tmp_path / "state", state(5, seed=1))
    assert type(loaded) is Outer
    assert type(loaded.inner) is Inner
    assert loaded.inner.nothing == NoState()
    assert as_bytes(loaded) == as_bytes(saved)
    assert [array.dtype for array in flatten(loaded).values()] == [np.float64, np.int64, np.bool_]


def test_names_of_inner_arrays_are_joined_by_dots() -> None:
    assert list(flatten(state(2))) == ["backlog", "rounds_on", "inner.on"]


def test_a_state_of_nothing_is_a_file_too(tmp_path: Path) -> None:
    save_state(str(tmp_path / "state"), NoState())
    assert load_state(str(tmp_path / "state"), NoState()) == NoState()


def test_saving_again_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    for seed in (0, 1):
        save_state(path, state(5, seed))
    assert as_bytes(load_state(path, state(5))) == as_bytes(state(5, seed=1))
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]


def refused(path: Path, like: Any) -> str:
    with pytest.raises(FadewiseError) as raised:
        load_state(path, like)
    return str(raised.value)


def test_a_state_of_other_devices_is_refused(tmp_path: Path) -> None:
    save_state(tmp_path / "state", state(5))
    assert refused(tmp_path / "state", state(4)) == (
        "the saved array backlog is float64 of shape (5,); it must be float64 of shape (4,): "
        "another number of devices was saved"
    )


def test_a_state_of_another_type_is_refused(tmp_path: Path) -> None:
    save_state(tmp_path / "state", Backlog(np.ones(5)))
    said = refused(tmp_path / "state", Backlog(np.ones(5, np.int64)))
    assert said.startswith("the saved array backlog is float64 of shape (5,); it must be int64 of shape (5,)")


def test_a_state_of_another_kind_is_refused(tmp_path: Path) -> None:
    save_state(tmp_path / "state", Backlog(np.ones(5)))
    assert refused(tmp_path / "state", state(5)) == (
        "the saved state has no array rounds_on: another kind of state was saved"
    )


def test_a_state_that_holds_more_is_of_another_kind(tmp_path: Path) -> None:
    """Else a policy that remembers nothing would silently go on from another's checkpoint."""
    save_state(tmp_path / "state", state(5))
    for like in (NoState(), Backlog(np.ones(5))):
        assert "another kind of state was saved" in refused(tmp_path / "state", like)


@pytest.mark.parametrize("kept", [0.0, 0.02, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "state"
    save_state(path, state(50))
    raw = path.read_bytes()
    path.write_bytes(raw[: int(kept * len(raw))])
    assert refused(path, state(50)).startswith(f"{path} cannot be read as a saved state: ")


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state"
    save_state(path, state(50))
    raw = bytearray(path.read_bytes())
    raw[300] ^= 1
    path.write_bytes(bytes(raw))
    assert refused(path, state(50)).startswith(f"{path} cannot be read as a saved state: ")


def test_what_is_not_a_state_is_refused(tmp_path: Path) -> None:
    text, array, missing = tmp_path / "text", tmp_path / "array.npy", tmp_path / "missing"
    text.write_text("hello")
    np.save(array, np.ones(3))
    for path in (text, array, missing, tmp_path):
        assert refused(path, state(5)).startswith(f"{path} cannot be read as a saved state: ")


class Unsavable(NamedTuple):
    backlog: NDArray[np.float64]
    objects: NDArray[np.object_]


def test_a_write_that_fails_leaves_the_old_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "state"
    save_state(path, state(5))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"[Oo]bject"):
        save_state(path, Unsavable(np.ones(1000), np.array([{}], dtype=object)))
    assert path.read_bytes() == before


def test_a_half_written_file_from_a_crash_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "state"
    (tmp_path / "state.part").write_bytes(b"half")
    save_state(path, state(5))
    assert as_bytes(load_state(path, state(5))) == as_bytes(state(5))


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(FadewiseError, match=r"^the state cannot be saved to .*: No such file or directory$"):
        save_state(tmp_path / "none" / "state", Backlog(np.zeros(3)))
