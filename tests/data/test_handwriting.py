"""The built-in handwriting set: the same samples always, made on demand, and nothing wrong after any interruption."""

import errno
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fadewise.data import handwriting, strokes, writers
from fadewise.data.handwriting import Handwriting
from fadewise.errors import FadewiseError

DATA = Handwriting(samples_per_writer=20)


@pytest.fixture
def cache() -> Path:
    return Path(os.environ["FADEWISE_CACHE"])


def held(data: Handwriting, devices: int, device: int) -> tuple[np.ndarray, np.ndarray]:
    images, labels, rows = data.federation(devices, seed=0).shard(device)
    return images[rows], labels[rows]


def only(cache: Path, pattern: str) -> Path:
    (path,) = cache.glob(pattern)
    return path


def test_the_same_samples_always(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = [array.tobytes() for array in held(DATA, 5, 3)]
    monkeypatch.setenv("FADEWISE_CACHE", str(tmp_path / "another"))
    assert [array.tobytes() for array in held(DATA, 5, 3)] == first
    assert [array.tobytes() for array in held(Handwriting(20, seed=1), 5, 3)] != first


def test_a_writer_is_the_same_among_any_number() -> None:
    for few, many in zip(held(DATA, 4, 3), held(DATA, 40, 3), strict=True):
        np.testing.assert_array_equal(few, many)


def test_the_runs_seed_changes_nothing() -> None:
    a, b = DATA.federation(3, seed=0), DATA.federation(3, seed=1)
    np.testing.assert_array_equal(a.test_images, b.test_images)
    np.testing.assert_array_equal(a.sizes, b.sizes)


def test_a_sample_alone_is_as_among_others() -> None:
    images, labels = writers.samples(0, 7, 0, 50)
    for first, count in ((0, 1), (31, 2), (45, 5)):
        some, theirs = writers.samples(0, 7, first, count)
        np.testing.assert_array_equal(some, images[first : first + count])
        np.testing.assert_array_equal(theirs, labels[first : first + count])


def test_a_tenth_of_every_writers_samples_is_held_out() -> None:
    amounts = writers.amounts(0, 20, 30)
    federation = DATA.federation(30, seed=0)
    tenths = np.maximum(1, np.rint(amounts / 10)).astype(int)
    np.testing.assert_array_equal(federation.sizes, amounts - tenths)
    assert len(federation.test_images) == len(federation.test_labels) == tenths.sum()
    start = 0
    for writer in range(30):
        images, labels = writers.samples(0, writer, 0, amounts[writer])
        shard = federation.shard(writer)
        np.testing.assert_array_equal(shard.images[shard.rows], images[: -tenths[writer]])
        np.testing.assert_array_equal(shard.labels[shard.rows], labels[: -tenths[writer]])
        mine = slice(start, start + tenths[writer])
        np.testing.assert_array_equal(federation.test_images[mine], images[-tenths[writer] :])
        np.testing.assert_array_equal(federation.test_labels[mine], labels[-tenths[writer] :])
        start = mine.stop


def test_held_out_samples_are_no_training_samples() -> None:
    federation = DATA.federation(30, seed=0)
    training = {image.tobytes() for d in range(30) for image in federation.shard(d).images[federation.shard(d).rows]}
    assert not training & {image.tobytes() for image in federation.test_images}


def test_of_very_many_writers_the_first_are_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handwriting, "MOST_TESTED", 3)
    many, few = DATA.federation(9, seed=0), DATA.federation(3, seed=0)
    np.testing.assert_array_equal(many.test_images, few.test_images)


def test_pictures_are_dark_ink_on_white_paper() -> None:
    images = np.concatenate([writers.samples(0, writer, 0, 100)[0] for writer in range(30)])
    assert images.shape[1:] == (28, 28, 1)
    assert images.dtype == np.uint8
    assert (images.min(axis=(1, 2, 3)) < 160).all()  # something is written
    assert np.median(images) == 255
    # Ink may come to an edge, but the corners stay white.
    assert (images[:, [0, 0, -1, -1], [0, -1, 0, -1]] == 255).all()
    assert (images < 255).mean() < 0.3


def test_every_font_has_every_character() -> None:
    glyphs = strokes.glyphs()
    assert (glyphs.lengths > 3).all()  # a dot of a font's unit would be nothing to see
    assert np.isfinite(glyphs.points).all()
    assert np.abs(glyphs.points).max() < 2 * strokes.CAPITAL


def test_labels_are_the_62_classes_and_digits_the_most_frequent() -> None:
    labels = np.concatenate([writers.samples(0, writer, 0, 200)[1] for writer in range(150)])
    assert labels.dtype == np.int32
    counts = np.bincount(labels, minlength=62)
    assert len(counts) == 62
    assert (counts > 0).all()
    assert 0.4 < counts[:10].sum() / counts.sum() < 0.6


def test_writers_differ_in_what_they_write() -> None:
    frequencies = [np.diff(writers.hand(0, writer).letters, prepend=0) for writer in range(20)]
    distances = [np.abs(a - b).sum() / 2 for a, b in zip(frequencies[1:], frequencies, strict=False)]
    assert min(distances) > 0.2


def test_writers_write_different_amounts() -> None:
    amounts = writers.amounts(0, 200, 3597)
    assert amounts.min() >= writers.FEWEST
    assert amounts.mean() == pytest.approx(200, rel=0.03)
    assert amounts.std() == pytest.approx(80, rel=0.2)
    np.testing.assert_array_equal(writers.amounts(0, 200, 10), amounts[:10])
    assert writers.amounts(0, 8, 1000).min() == writers.FEWEST


def test_mean_and_deviation_are_those_of_the_first_writers() -> None:
    federation = DATA.federation(70, seed=0)
    pixels = np.concatenate([held(DATA, 70, device)[0].ravel() for device in range(64)]).astype(float)
    np.testing.assert_allclose(federation.mean, [pixels.mean()], rtol=1e-6)
    np.testing.assert_allclose(federation.deviation, [pixels.std()], rtol=1e-6)


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"mean": 3}'])
def test_broken_moments_are_measured_again(cache: Path, broken: str) -> None:
    mean = DATA.federation(3, seed=0).mean
    only(cache, "*/moments.json").write_text(broken)
    np.testing.assert_array_equal(DATA.federation(3, seed=0).mean, mean)


def test_nothing_is_drawn_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    first = DATA.federation(3, seed=0)
    drawn = [held(DATA, 3, device)[0].tobytes() for device in range(3)]
    tested = first.test_images.tobytes()
    monkeypatch.setattr(handwriting.Written, "_training_samples", None)
    monkeypatch.setattr(handwriting.Written, "_held_out_samples", None)
    assert [held(DATA, 3, device)[0].tobytes() for device in range(3)] == drawn
    assert DATA.federation(3, seed=0).test_images.tobytes() == tested


def test_other_code_or_other_settings_get_other_files(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DATA.federation(3, seed=0)
    Handwriting(21).federation(3, seed=0)
    Handwriting(20, seed=1).federation(3, seed=0)
    monkeypatch.setattr(writers, "_NIB_PIXELS", 0.6)
    DATA.federation(3, seed=0)
    assert len(list(cache.iterdir())) == 4


def _no_mark(folder: Path) -> None:
    (folder / "training.made").write_bytes(bytes(12))
    with (folder / "training.images").open("r+b") as file:
        file.write(b"half a picture")


def _bad_images(folder: Path) -> None:
    with (folder / "training.images").open("r+b") as file:
        file.seek(1000)
        file.write(b"\0" * 5000)


def _bad_labels(folder: Path) -> None:
    with (folder / "training.labels").open("r+b") as file:
        file.write(b"\x05")


def _bad_mark(folder: Path) -> None:
    (folder / "training.made").write_bytes(b"\x07" * 12)


def _short(folder: Path) -> None:
    os.truncate(folder / "training.images", 100)


@pytest.mark.parametrize("harm", [_no_mark, _bad_images, _bad_labels, _bad_mark, _short])
def test_what_was_left_half_done_is_made_again(cache: Path, harm: Callable[[Path], None]) -> None:
    good = [array.tobytes() for array in held(DATA, 3, 0)]
    folder = only(cache, "*")
    marks = (folder / "training.made").read_bytes()
    harm(folder)
    assert [array.tobytes() for array in held(DATA, 3, 0)] == good
    assert (folder / "training.made").read_bytes()[:4] == marks[:4]


PROGRAM = """
import sys, zlib
from fadewise.data.handwriting import Handwriting
federation = Handwriting(20).federation(60, 0)
total = zlib.crc32(federation.test_images.data)
for device in range(60):
    images, labels, rows = federation.shard(device)
    total = zlib.crc32(labels[rows].data, zlib.crc32(images[rows].data, total))
    print(device, total, flush=True)
"""


def started() -> Any:
    return subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)


def test_two_processes_at_once_and_one_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with started() as a, started() as b:
        both = [process.communicate()[0] for process in (a, b)]
    assert both[0] == both[1]
    assert both[0].count("\n") == 60
    monkeypatch.setenv("FADEWISE_CACHE", str(tmp_path / "another"))
    with started() as victim:
        assert victim.stdout.readline()
        victim.kill()
    with started() as next_one:
        assert next_one.communicate()[0] == both[0]


def test_a_million_writers_take_little_room(cache: Path) -> None:
    DATA.federation(2, seed=0)  # the fonts are not theirs
    tracemalloc.start()
    try:
        federation = Handwriting(samples_per_writer=10).federation(1_000_000, seed=0)
        last = federation.shard(999_999)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100e6
    assert len(last.rows) == federation.sizes[-1]
    assert last.images[last.rows].min() < 160
    used = sum(file.stat().st_blocks * 512 for file in only(cache, "handwriting-1000000-*").iterdir())
    assert used < 1e6


def test_a_write_may_take_several_calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    good = held(DATA, 3, 0)[0].tobytes()
    monkeypatch.setenv("FADEWISE_CACHE", str(tmp_path / "another"))
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: write(file, data[:1000], offset))
    assert held(DATA, 3, 0)[0].tobytes() == good


def test_a_full_disk_is_said(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    federation = DATA.federation(3, seed=0)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(FadewiseError) as caught:
        federation.shard(0)
    assert str(caught.value) == (
        f"samples cannot be kept in {only(cache, '*')} (No space left on device); "
        "set FADEWISE_CACHE to a folder that can be written to and has room"
    )


def test_no_cache_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FADEWISE_CACHE", str(tmp_path / "file"))
    with pytest.raises(FadewiseError, match=r"cannot be kept in .* \(Not a directory\); set FADEWISE_CACHE to"):
        DATA.federation(3, seed=0)


def test_missing_fonts_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "HersheyFonts", None)
    strokes.glyphs.cache_clear()
    with pytest.raises(FadewiseError) as caught:
        DATA.federation(3, seed=0)
    assert str(caught.value) == "the handwriting set needs Hershey-Fonts: pip install 'fadewise[train]'"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: Handwriting(samples_per_writer=5),
            "samples_per_writer is 5; it must be a number at least 8 and at most 100000",
        ),
        (lambda: Handwriting(seed=-1), f"seed is -1; it must be a whole number at least 0 and at most {2**64 - 1}"),
        (lambda: DATA.federation(0, seed=0), "devices is 0; it must be a whole number at least 1"),
        (lambda: DATA.federation(3, seed=0).shard(3), "there is no device 3; the devices are 0 to 2"),
        (lambda: DATA.federation(3, seed=0).shard(-1), "there is no device -1; the devices are 0 to 2"),
    ],
)
def test_what_cannot_be_used_is_said(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(FadewiseError) as caught:
        make()
    assert str(caught.value) == sentence
