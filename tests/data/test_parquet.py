"""Images by writer from parquet: the same arrays in every form the columns may have, and sentences for bad ones."""

import os
import string
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest

import fadewise as fw
from fadewise.data import IID, Writers
from fadewise.data.parquet import parquet_files, read
from tests.data.files import parquet, png, same, shared

IMAGES = np.random.default_rng(0).integers(0, 256, (40, 7, 6), np.uint8)
PNGS = [png(image) for image in IMAGES]
STRUCTS = [{"bytes": one, "path": f"{number}.png"} for number, one in enumerate(PNGS)]
NAMES = ["zoe", "ann", "zoe", "bob"] * 10
CLASSES = (np.arange(40) * 7 % 62).tolist()


def write(folder: Path, **changes: Any) -> Path:
    return parquet(folder / "train.parquet", **{"image": STRUCTS, "writer_id": NAMES, "character": CLASSES, **changes})


def refused(path: Path, **settings: Any) -> str:
    with pytest.raises(fw.FadewiseError) as raised:
        Writers(path=path, **settings).federation(2, 0)
    said = str(raised.value)
    assert "\n" not in said
    return said.replace(f"{path.parent}/", "")


LETTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"image": PNGS},
        {"image": pyarrow.array(PNGS, pyarrow.large_binary())},
        {"character": [LETTERS[label] for label in CLASSES]},
        {"character": pyarrow.array(CLASSES, pyarrow.int16())},
        {"writer_id": [{"zoe": 70, "ann": 3, "bob": 9}[name] for name in NAMES]},
        {"hsf_id": [0] * 40},
    ],
    ids=lambda changes: ", ".join(changes) or "as released",
)
def test_every_form_gives_the_same_arrays(tmp_path: Path, changes: dict[str, Any]) -> None:
    pool = read([write(tmp_path, **changes)])
    assert pool.images.tobytes() == IMAGES.tobytes()
    assert pool.images.shape == (40, 7, 6, 1)
    assert pool.labels.tolist() == CLASSES
    assert pool.classes == max(CLASSES) + 1
    assert pool.owners is not None
    assert pool.owners.tolist() == [0, 1, 0, 2] * 10  # in order of appearance
    assert pool.test_images is None


def test_files_of_a_folder_are_one_data_set(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    parquet(folder / "b.parquet", image=STRUCTS[25:], writer_id=NAMES[25:], label=CLASSES[25:])
    parquet(folder / "a.parquet", image=STRUCTS[:25], writer_id=NAMES[:25], label=CLASSES[:25])
    (folder / "notes.txt").write_text("no parquet")
    pool, one = read(parquet_files(folder)), read([write(tmp_path)])
    assert same(pool, one)


def test_rows_are_read_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read([write(tmp_path)])
    monkeypatch.setattr("fadewise.data.parquet._BATCH_ROWS", 7)
    again = read([write(tmp_path)])
    assert same(whole, again)
    assert refused(write(tmp_path, character=[*CLASSES[:30], -1, *CLASSES[31:]])) == (
        "train.parquet, row 30 has the label -1; it must be a class from 0, a digit or a letter"
    )


def test_kinds_of_images(tmp_path: Path) -> None:
    colour = np.random.default_rng(1).integers(0, 256, (40, 4, 5, 3), np.uint8)
    assert read([write(tmp_path, image=[png(one) for one in colour])]).images.tobytes() == colour.tobytes()
    clear = [png(one, "RGBA") for one in colour]
    assert read([write(tmp_path, image=clear)]).images.tobytes() == colour.tobytes()
    binary = (IMAGES > 127).astype(np.uint8) * np.uint8(255)
    assert read([write(tmp_path, image=[png(one, "1") for one in binary])]).images.tobytes() == binary.tobytes()


def test_a_federation_of_it(tmp_path: Path) -> None:
    held = Writers(path=write(tmp_path), classes=62).federation(3, 0)
    assert held.classes == 62
    assert held.sizes.tolist() == [18, 9, 9]
    assert len(held.test_labels) == 4
    assert Writers(partition=IID(), path=str(tmp_path / "train.parquet")).federation(4, 0).sizes.tolist() == [9] * 4


def test_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(fw.FadewiseError) as raised:
        Writers(dataset="mnist-by-writer").federation(3, 0)
    downloads = tmp_path / "cache" / "downloads"
    assert str(raised.value) == (
        f"the data set mnist-by-writer was not found in FADEWISE_DATA (not set), data or {downloads}; it has no "
        f"download: put its files into {downloads}/mnist-by-writer, or set FADEWISE_DATA to the folder that does"
    )
    with pytest.raises(fw.FadewiseError, match="the data set femnist was not found as parquet in FADEWISE_DATA"):
        Writers().federation(3, 0)
    write(tmp_path / "elsewhere" / "mnist-by-writer")
    monkeypatch.setenv("FADEWISE_DATA", str(tmp_path / "elsewhere"))
    assert Writers(dataset="mnist-by-writer").federation(3, 0).sizes.tolist() == [18, 9, 9]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image": [*STRUCTS[:39], {"bytes": None}]}, "train.parquet, row 39: the image is no PNG file, as bytes"),
        ({"image": ["x"] * 40}, "train.parquet, row 0: the image is no PNG file, as bytes"),
        (
            {"image": [{"path": "0.png"}] * 40},
            "train.parquet: the column image holds struct<path: string>; it must hold PNG files, as bytes",
        ),
        (
            {"image": [*PNGS[:5], png(IMAGES[0, 1:]), *PNGS[6:]]},
            "train.parquet, row 5: the image is of shape (6, 6, 1); it must be as the first image, (7, 6, 1)",
        ),
        (
            {"image": [png(image.astype(np.uint16)) for image in IMAGES]},
            "train.parquet, row 0: the image is of mode I;16; it must be one of 1, L, LA, P, RGB, RGBA",
        ),
        ({"writer_id": [*NAMES[:3], None, *NAMES[4:]]}, "train.parquet, row 3: writer_id is missing"),
        (
            {"character": [*CLASSES[:4], None, *CLASSES[5:]]},
            "train.parquet, row 4 has the label None; it must be a class from 0, a digit or a letter",
        ),
        (
            {"character": ["A"] * 39 + ["Ä"]},
            "train.parquet, row 39 has the label 'Ä'; it must be a class from 0, a digit or a letter",
        ),
        (
            {"character": [0.5] * 40},
            "train.parquet, row 0 has the label 0.5; it must be a class from 0, a digit or a letter",
        ),
        (
            {"image": [], "writer_id": [], "character": []},
            "train.parquet has no rows; it must have one for each image",
        ),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    assert refused(write(tmp_path, **changes)) == said


@pytest.mark.parametrize("damaged", [b"", b"no PNG", PNGS[0][:-30], PNGS[0][:50] + b"xx" + PNGS[0][52:]])
def test_images_that_are_damaged(tmp_path: Path, damaged: bytes) -> None:
    said = refused(write(tmp_path, image=[*PNGS[:5], damaged, *PNGS[6:]]))
    assert said.startswith("train.parquet, row 5: the image cannot be read as PNG (")


def test_fewer_classes_than_labels(tmp_path: Path) -> None:
    assert refused(write(tmp_path), classes=10) == (
        "train.parquet, row 2 has the label 14; it must be a class from 0 to 9"
    )  # fmt: skip
    with pytest.raises(fw.FadewiseError) as raised:
        Writers(classes=0)
    assert str(raised.value) == "classes is 0; it must be a whole number at least 1"
    with pytest.raises(fw.FadewiseError) as raised:
        Writers(dataset="emnist")  # type: ignore[arg-type]
    assert str(raised.value) == "dataset is 'emnist'; it must be one of femnist, mnist-by-writer"


def test_columns_missing(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", image=PNGS, writer_id=NAMES)
    assert refused(path) == (
        "a.parquet has no column character; it has image, writer_id and must have image, writer_id and "
        "character or label"
    )


def test_files_that_are_not_parquet(tmp_path: Path) -> None:
    path = write(tmp_path)
    os.truncate(path, path.stat().st_size // 2)
    assert refused(path).startswith("train.parquet cannot be read as parquet: Parquet magic bytes not found in footer")
    path.write_bytes(b"")
    assert refused(path).startswith("train.parquet cannot be read as parquet: ")
    assert refused(tmp_path / "no") == "no is not there; it must be a .parquet file or a folder of them"
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty") == "empty has no .parquet file in it"


@pytest.mark.parametrize("module", ["PIL.Image", "pyarrow"])
def test_without_what_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    path = write(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    assert refused(path) == (
        "train.parquet is read with pyarrow and pillow, which are not installed: pip install 'fadewise[train]'"
    )


def test_the_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows of MNIST by writer, so that it is quick."""
    folder = shared("mnist-by-writer")
    pool = read([head(folder, Path("head.parquet"))])
    assert pool.images.shape == (3000, 28, 28, 1)
    assert pool.classes == 10
    assert pool.owners is not None
    assert set(pool.owners.tolist()) == set(range(int(pool.owners.max()) + 1))
    assert np.bincount(pool.images.ravel()).argmax() == 255  # paper is white


def head(folder: Path, path: Path) -> Path:
    file = pyarrow.parquet.ParquetFile(next(folder.glob("*.parquet")))
    table = pyarrow.Table.from_batches([next(file.iter_batches(3000))])
    pyarrow.parquet.write_table(table, path)
    return path
