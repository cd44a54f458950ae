"""LEAF's JSON: users as owners, pixels to the nearest of 256 greys, and a sentence for each way to be wrong."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadewise as fw
from fadewise.data import LEAF, leaf
from tests.data import files

USERS = {"f1_02": [3, 61, 0], "f0_07": [5], "f9_11": [10, 20, 30, 40]}


def refused(path: Path, **settings: Any) -> str:
    with pytest.raises(fw.FadewiseError) as raised:
        LEAF(path=path, **settings).federation(1, 0)
    said = str(raised.value)
    assert "\n" not in said
    return said.replace(f"{path.parent}/", "")


def test_users_are_owners_in_file_order(tmp_path: Path) -> None:
    pixels = files.leaf(tmp_path / "a.json", USERS)
    pool = leaf.read(leaf.json_files(tmp_path / "a.json"))
    assert pool.owners is not None
    assert pool.owners.tolist() == [0, 0, 0, 1, 2, 2, 2, 2]
    assert pool.labels.tolist() == [3, 61, 0, 5, 10, 20, 30, 40]
    assert pool.images.shape == (8, 28, 28, 1)
    expected = np.round(255 * np.concatenate(list(pixels.values())))
    assert np.array_equal(pool.images.reshape(8, 784), expected)
    assert pool.classes == 62


def test_paper_is_white(tmp_path: Path) -> None:
    data = {"u": {"x": [[1.0] * 784, [0] * 784], "y": [0, 1]}}
    files.leaf(tmp_path / "a.json", {"u": [0, 1]}, user_data=data)
    pool = leaf.read([tmp_path / "a.json"])
    assert set(pool.images[0].ravel().tolist()) == {255}
    assert set(pool.images[1].ravel().tolist()) == {0}


def test_train_and_test_are_pooled(tmp_path: Path) -> None:
    files.leaf(tmp_path / "test" / "a.json", {"late": [1, 2], "b": [3]}, 1)
    files.leaf(tmp_path / "train" / "2.json", {"b": [4, 5]}, 2)
    files.leaf(tmp_path / "train" / "1.json", {"a": [6], "nobody": []}, 3)
    pool = leaf.read(leaf.json_files(tmp_path))
    assert pool.owners is not None
    assert pool.labels.tolist() == [6, 4, 5, 1, 2, 3]
    assert pool.owners.tolist() == [0, 1, 1, 2, 2, 1]
    held = LEAF(path=tmp_path).federation(3, 0)
    assert held.sizes.tolist() == [1, 2, 1]
    assert len(held.test_labels) == 2


def test_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(fw.FadewiseError, match="the data set femnist was not found as leaf in FADEWISE_DATA"):
        LEAF().federation(2, 0)
    files.leaf(tmp_path / "leaf-femnist-x" / "test" / "a.json", USERS)
    for place in (tmp_path, tmp_path / "leaf-femnist-x"):
        monkeypatch.setenv("FADEWISE_DATA", str(place))
        assert LEAF().federation(3, 0).sizes.tolist() == [2, 1, 3]


ROW = [0.5] * 784


def user(x: Any, y: Any) -> dict[str, Any]:
    return {"users": ["u"], "num_samples": [len(y)], "user_data": {"u": {"x": x, "y": y}}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"users": ["f1_02", "f0_07"], "num_samples": [3, 1]}, "user f9_11 is in user_data but not in users"),
        (
            {"users": [*USERS, "me"], "num_samples": [3, 1, 4, 5]},
            "user me is in users but not in user_data",
        ),
        ({"users": ["f1_02"] * 3}, "users has 'f1_02' twice"),
        ({"num_samples": [3, 1]}, "num_samples has 2 numbers for 3 users; one each is needed"),
        ({"num_samples": [3, 2, 4]}, "user f0_07 has 1 samples, but num_samples says 2"),
        (user([ROW, ROW[1:]], [1, 2]), "user u: x of sample 1 has 783 numbers; it must have 784 numbers"),
        (user([ROW, 3], [1, 2]), "user u: x of sample 1 has 3; it must have 784 numbers"),
        (user([ROW, [*ROW[1:], "1"]], [1, 2]), "user u: x must hold numbers from 0 to 1"),
        (user([ROW, [*ROW[1:], None]], [1, 2]), "user u: x must hold numbers from 0 to 1"),
        (user([ROW, [*ROW[1:], [1]]], [1, 2]), "user u: x must hold numbers from 0 to 1"),
        (user([ROW, [*ROW[1:], 1.5]], [1, 2]), "user u: x of sample 1 has the number 1.5; it must be from 0 to 1"),
        (user([ROW, [*ROW[1:], -1]], [1, 2]), "user u: x of sample 1 has the number -1; it must be from 0 to 1"),
        (
            user([ROW, [*ROW[1:], float("nan")]], [1, 2]),
            "user u: x of sample 1 has the number nan; it must be from 0 to 1",
        ),
        (user([ROW], [1, 2]), "user u has 1 images and 2 labels"),
        (user([ROW, ROW], [1, 62]), "user u: sample 1 has the label 62; it must be a class from 0 to 61"),
        (user([ROW, ROW], [-1, 6]), "user u: sample 0 has the label -1; it must be a class from 0 to 61"),
        (user([ROW, ROW], [1, 2.5]), "user u: sample 1 has the label 2.5; it must be a class from 0 to 61"),
        (user([ROW, ROW], [1, "2"]), "user u: sample 1 has the label '2'; it must be a class from 0 to 61"),
        ({"users": ["u"], "num_samples": [1], "user_data": {"u": {"x": [ROW]}}}, "user u has no lists x and y"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    files.leaf(tmp_path / "a.json", USERS, **changes)
    assert refused(tmp_path / "a.json") == f"a.json: {said}"


def test_fewer_classes(tmp_path: Path) -> None:
    files.leaf(tmp_path / "a.json", USERS)
    assert LEAF(path=tmp_path).federation(3, 0).classes == 62
    assert refused(tmp_path / "a.json", classes=10) == (
        "a.json: user f1_02: sample 1 has the label 61; it must be a class from 0 to 9"
    )


def test_files_that_are_not_leaf(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.leaf(path, USERS)
    os.truncate(path, path.stat().st_size // 2)
    said = refused(path)
    assert said.startswith("a.json cannot be read as JSON: ")
    assert said.endswith("; it is cut off, damaged or another file")
    path.write_bytes(b"\xff\xfe\xfa")
    assert refused(path).startswith("a.json cannot be read as JSON: ")
    path.write_text("[1, 2]")
    assert refused(path) == "a.json is not LEAF's JSON: it has no table with users, num_samples, user_data"
    path.write_text(json.dumps({"users": [], "num_samples": []}))
    assert refused(path) == "a.json is not LEAF's JSON: it has no table user_data"
    path.write_text(json.dumps({"users": [], "num_samples": [], "user_data": {}}))
    assert refused(path) == f"{path.parent} has no samples in its .json files"
    assert refused(tmp_path / "no") == "no is not there; it must be a .json file of LEAF's or a folder of them"
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty") == "empty has no .json file in it, nor have its folders train and test"


def test_the_real_one() -> None:
    held = LEAF(path=files.shared("leaf-femnist-28-writers")).federation(28, 0)
    assert held.classes == 62
    assert held.image_shape == (28, 28, 1)
    assert held.sizes.sum() + len(held.test_labels) == 1761
    assert held.sizes.min() == 7
    assert 230 < held.mean[0] < 255
