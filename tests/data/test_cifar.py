"""CIFAR-10: every official layout gives the same arrays, and a sentence for files that are not it."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import fadewise as fw
from fadewise.data import CIFAR10, Classes, cifar
from tests.data.files import BATCHES, Cifar, pickled_as_in_2009, shared


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cifar:
    return Cifar(tmp_path / "files", monkeypatch)


def refused(path: Path) -> str:
    with pytest.raises(fw.FadewiseError) as raised:
        CIFAR10(path=path).federation(2, 0)
    said = str(raised.value)
    assert "\n" not in said
    return said.replace(f"{path.parent}/", "")


def test_all_layouts_give_the_same_arrays(small: Cifar) -> None:
    folders = [small.binary(), small.python()]
    for path in (*folders, *map(small.archive, folders)):
        pool = cifar.read(path)
        assert pool.images.tobytes() == small.images[:5].tobytes(), path
        assert pool.labels.tolist() == small.labels[:5].ravel().tolist()
        assert pool.test_images is not None
        assert pool.test_labels is not None
        assert pool.test_images.tobytes() == small.images[5].tobytes()
        assert pool.test_labels.tolist() == small.labels[5].tolist()
        assert pool.images.shape == (30, 32, 32, 3)
        assert pool.labels.dtype == np.int32
    assert cifar.read(folders[0].parent).images.tobytes() == pool.images.tobytes()


def test_a_federation_of_it(small: Cifar) -> None:
    path = small.binary()
    held = CIFAR10(path=str(path)).federation(7, 0)
    assert held.sizes.tolist() == [5, 5, 4, 4, 4, 4, 4]
    assert held.test_images.tobytes() == small.images[5].tobytes()
    np.testing.assert_allclose(held.mean, small.images[:5].mean(axis=(0, 1, 2, 3)), rtol=1e-6)
    one = CIFAR10(Classes(1), path).federation(10, 0)
    for device in range(10):
        shard = one.shard(device)
        assert len(set(shard.labels[shard.rows].tolist())) == 1


def test_a_folder_and_an_archive_that_are_found(small: Cifar, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = small.python()
    archive = small.archive(folder)
    monkeypatch.setenv("FADEWISE_DATA", str(folder.parent))
    first = CIFAR10().federation(3, 0)
    for file in folder.iterdir():
        file.unlink()
    assert archive.exists()
    second = CIFAR10().federation(3, 0)
    assert first.test_images.tobytes() == second.test_images.tobytes()


def test_not_there(tmp_path: Path) -> None:
    with pytest.raises(fw.FadewiseError) as raised:
        CIFAR10().federation(3, 0)
    assert str(raised.value) == (
        f"the data set cifar10 was not found in FADEWISE_DATA (not set), data or {tmp_path}/cache/downloads; "
        "`fadewise data fetch cifar10` gets it, or set FADEWISE_DATA to the folder that has it"
    )
    assert refused(tmp_path / "nowhere") == "nowhere is not there; it must be a folder or an archive of CIFAR-10"
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty") == (
        "empty has no CIFAR-10 in it; it must be the folder cifar-10-batches-bin or cifar-10-batches-py, "
        "or the archive (.tar.gz) of either"
    )


@pytest.mark.parametrize("missing", ["data_batch_1.bin", "data_batch_3.bin", "test_batch.bin"])
def test_a_file_missing(small: Cifar, missing: str) -> None:
    folder = small.binary()
    (folder / missing).unlink()
    assert refused(folder) == f"cifar-10-batches-bin/{missing} cannot be read: No such file or directory"
    assert refused(small.archive(folder)) == (
        f"cifar-10-binary.tar.gz has no {missing.removesuffix('.bin')}; all of {', '.join(BATCHES[:5])} "
        "and test_batch are needed"
    )


def test_a_file_cut_off(small: Cifar) -> None:
    file = small.binary() / "data_batch_2.bin"
    os.truncate(file, 10_000)
    assert refused(file.parent) == (
        "cifar-10-batches-bin/data_batch_2.bin has 10000 bytes, which is no multiple of 3073: "
        "it is cut off or another file"
    )
    os.truncate(file, 3073 * 5)
    assert refused(file.parent) == (
        "cifar-10-batches-bin/data_batch_2.bin has 5 images; it must have 6: it is cut off or another"
    )


def test_a_label_that_is_no_class(small: Cifar) -> None:
    small.labels[3, 2] = 10
    said = "sample 2 has the label 10; it must be a class from 0 to 9"
    assert refused(small.binary()) == f"cifar-10-batches-bin/data_batch_4.bin: {said}"
    folder = small.python()
    assert refused(folder) == f"cifar-10-batches-py/data_batch_4: {said}"
    archive = small.archive(folder)
    assert refused(archive) == f"cifar-10-python.tar.gz: cifar-10-batches-py/data_batch_4: {said}"


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_an_archive_cut_off(small: Cifar, share: float) -> None:
    archive = small.archive(small.binary())
    os.truncate(archive, int(share * archive.stat().st_size))
    said = refused(archive)
    assert said.startswith(
        "cifar-10-binary.tar.gz cannot be read as an archive (.tar.gz): it is cut off, damaged or another file ("
    )


def test_an_archive_damaged_or_of_something_else(small: Cifar) -> None:
    archive = small.archive(small.binary())
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 255
    archive.write_bytes(content)
    assert refused(archive).startswith("cifar-10-binary.tar.gz cannot be read as an archive (.tar.gz): ")
    archive.write_text("<html>not found</html>")
    assert refused(archive).startswith("cifar-10-binary.tar.gz cannot be read as an archive (.tar.gz): ")


class Malicious:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("echo broken into",)


def test_a_pickle_that_would_run_a_program(small: Cifar, capfd: pytest.CaptureFixture[str]) -> None:
    file = small.python() / "data_batch_1"
    file.write_bytes(pickle.dumps({b"data": Malicious(), b"labels": [1]}, 3))
    assert refused(file.parent) == (
        "cifar-10-batches-py/data_batch_1 cannot be read as a CIFAR-10 batch: it is cut off or another "
        "(posix.system is not allowed in it)"
    )
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({b"labels": [1]}, "data are not uint8 of shape (n, 3072)"),
        ({b"data": [1, 2], b"labels": [1]}, "data are not uint8 of shape (n, 3072)"),
        ({b"data": np.zeros((6, 3071), np.uint8), b"labels": [1] * 6}, "data are not uint8 of shape (n, 3072)"),
        ({b"data": np.zeros((6, 3072), np.uint8), b"labels": [1] * 5}, "labels are not one whole number an image"),
        ({b"data": np.zeros((6, 3072), np.uint8), b"labels": [0.5] * 6}, "labels are not one whole number an image"),
    ],
)
def test_a_pickle_of_something_else(small: Cifar, batch: dict[bytes, object], said: str) -> None:
    file = small.python() / "data_batch_1"
    file.write_bytes(pickled_as_in_2009({b"nothing": np.zeros(1), **batch}))
    assert refused(file.parent) == f"cifar-10-batches-py/data_batch_1 cannot be read as a CIFAR-10 batch: {said}"


def test_a_pickle_cut_off(small: Cifar) -> None:
    file = small.python() / "test_batch"
    os.truncate(file, file.stat().st_size // 2)
    assert refused(file.parent).startswith(
        "cifar-10-batches-py/test_batch cannot be read as a CIFAR-10 batch: it is cut off or another ("
    )


def test_the_real_one() -> None:
    pool = cifar.read(shared("cifar-10-batches-bin"))
    assert pool.test_labels is not None
    assert np.bincount(pool.labels).tolist() == [5000] * 10
    assert np.bincount(pool.test_labels).tolist() == [1000] * 10
    assert pool.labels[:5].tolist() == [6, 9, 9, 4, 1]  # frog, truck, truck, deer, automobile
    assert pool.images[0, 0, 0].tolist() == [59, 62, 63]
