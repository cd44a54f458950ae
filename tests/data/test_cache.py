"""The cache: read once and mapped after, rebuilt when sources change or it is damaged, and safe in a crowd."""

import errno
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fadewise as fw
from fadewise.data import cache
from fadewise.data.base import Pool
from fadewise.data.held import training_moments
from tests.data import files


def pool_of(path: Path) -> Pool:
    random = np.random.default_rng(int(path.read_text()))
    images = random.integers(0, 256, (50, 4, 3, 2), np.uint8)
    return Pool(images, random.integers(0, 5, 50).astype(np.int32), 5, (np.arange(50) // 10).astype(np.int32))


class Reader:
    """Reads a source and counts how often it does."""

    def __init__(self, path: Path) -> None:
        self.path, self.times = path, 0

    def __call__(self) -> Pool:
        self.times += 1
        return pool_of(self.path)

    def stored(self, **options: object) -> cache.Stored:
        return cache.stored("test", [self.path], options, self)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    (tmp_path / "source").write_text("7")
    return Reader(tmp_path / "source")


def entries() -> list[Path]:
    return sorted(cache.cache_folder().iterdir())


def same(stored: cache.Stored, pool: Pool) -> bool:
    return files.same((*stored.pool, *stored.moments), (*pool, *training_moments(pool)))


def test_read_once_and_then_mapped(reader: Reader) -> None:
    stored = reader.stored()
    assert same(stored, pool_of(reader.path))
    for _ in range(3):
        stored = reader.stored()
    assert reader.times == 1
    assert same(stored, pool_of(reader.path))
    assert isinstance(stored.pool.images, np.memmap)
    assert not stored.pool.images.flags.writeable
    assert stored.pool.test_images is None
    assert stored.moments.mean.dtype == np.float32
    assert len(entries()) == 1


def test_a_test_set_is_kept_too(reader: Reader) -> None:
    pool = pool_of(reader.path)._replace(owners=None)
    pool = pool._replace(test_images=pool.images[:3], test_labels=pool.labels[:3])
    stored = cache.stored("test", [reader.path], {}, lambda: pool)
    assert same(stored, pool)
    assert stored.pool.owners is None


def test_a_source_that_changed_is_read_again(reader: Reader) -> None:
    before = reader.stored()
    reader.path.write_text("8")
    os.utime(reader.path, ns=(1, 1))
    after = reader.stored()
    assert reader.times == 2
    assert same(after, pool_of(reader.path))
    assert not same(before, pool_of(reader.path))  # whoever has it open keeps reading the old one
    assert len(entries()) == 1


def test_options_have_their_own_entries(reader: Reader) -> None:
    for _ in range(2):
        reader.stored(classes=5)
        reader.stored(classes=None)
    assert reader.times == 2
    assert len(entries()) == 2


def truncate(entry: Path) -> None:
    os.truncate(entry / "images.npy", 100)


def grow(entry: Path) -> None:
    with (entry / "labels.npy").open("ab") as file:
        file.write(b"more")


def overwrite(entry: Path) -> None:
    path = entry / "images.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(5, 5))


def remove(entry: Path) -> None:
    (entry / "owners.npy").unlink()


def garble(entry: Path) -> None:
    (entry / "manifest.json").write_bytes(b'{"format": 1, \xff')


def no_table(entry: Path) -> None:
    (entry / "manifest.json").write_text("[]")


def no_arrays(entry: Path) -> None:
    manifest = json.loads((entry / "manifest.json").read_text())
    (entry / "manifest.json").write_text(json.dumps(manifest | {"arrays": {}}))


def of_another_format(entry: Path) -> None:
    manifest = json.loads((entry / "manifest.json").read_text())
    (entry / "manifest.json").write_text(json.dumps(manifest | {"format": -1}))


@pytest.mark.parametrize("damage", [truncate, grow, overwrite, remove, garble, no_table, no_arrays, of_another_format])
def test_a_damaged_entry_is_made_again(reader: Reader, damage: Callable[[Path], None]) -> None:
    reader.stored()
    damage(entries()[0])
    assert same(reader.stored(), pool_of(reader.path))
    assert reader.times == 2
    reader.stored()
    assert reader.times == 2
    assert len(entries()) == 1


def together(path: Path, barrier: object, results: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    reader = Reader(path)
    results.put(same(reader.stored(), pool_of(path)))  # type: ignore[attr-defined]


@pytest.mark.parametrize("stale", [False, True])
def test_processes_at_once(reader: Reader, stale: bool) -> None:
    if stale:
        reader.stored()
        reader.path.write_text("9")
        os.utime(reader.path, ns=(1, 1))
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    processes = [context.Process(target=together, args=(reader.path, barrier, results)) for _ in range(2)]
    for process in processes:
        process.start()
    assert [results.get(timeout=30) for _ in processes] == [True] * 2
    for process in processes:
        process.join()
    assert len(entries()) == 1


def test_another_process_was_faster(reader: Reader) -> None:
    """It finished the same entry while this one was reading."""

    def read() -> Pool:
        reader.stored()
        return pool_of(reader.path)

    assert same(cache.stored("test", [reader.path], {}, read), pool_of(reader.path))
    assert len(entries()) == 1


def refused(reader: Reader) -> str:
    with pytest.raises(fw.FadewiseError) as raised:
        reader.stored()
    return str(raised.value)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_cannot_be_written(reader: Reader, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    assert refused(reader) == (
        f"the cache folder {cache.cache_folder()} cannot be written: {os.strerror(number)}; "
        "set FADEWISE_CACHE to a folder that can"
    )
    assert entries() == []


def test_a_device_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with Path("/dev/full").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left on device"):
        cache._save(file, np.zeros(10_000_000, np.uint8))


def test_a_cache_folder_that_is_a_file(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FADEWISE_CACHE", str(tmp_path / "source"))
    assert refused(reader).startswith(f"the cache folder {tmp_path}/source cannot be written: ")


def test_a_source_that_is_missing(reader: Reader) -> None:
    reader.path.unlink()
    assert refused(reader) == f"{reader.path} cannot be read: No such file or directory"


def test_what_a_killed_process_left_is_removed_after_a_day(reader: Reader) -> None:
    old, new = (cache.cache_folder() / f".unfinished-{name}" for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "images.npy").write_bytes(b"half")
    os.utime(old, (time.time() - 2 * 86400,) * 2)
    reader.stored()
    assert not old.exists()
    assert new.exists()


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("FADEWISE_CACHE", "~/mine")
    assert cache.cache_folder() == Path("/home/me/mine")
    monkeypatch.setenv("FADEWISE_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache.cache_folder() == Path("/xdg/fadewise")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.cache_folder() == Path("/home/me/.cache/fadewise")
