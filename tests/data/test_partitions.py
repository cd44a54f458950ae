"""Partitions: who has what, against what each promises, and a sentence for what cannot be shared out."""

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

import fadewise as fw
from fadewise.data import IID, PARTITIONS, ByOwner, Classes, Dirichlet, OwnClasses, Partition
from fadewise.data.partitions import Holdings

ALL: list[Partition] = [
    IID(),
    ByOwner(),
    Dirichlet(0.05),
    Dirichlet(1e-4),
    Dirichlet(3.0),
    Classes(2),
    Classes(3),
    OwnClasses(7, 3),
]


def samples(count: int, classes: int, owners: int, seed: int = 0) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Labels and owners; every class appears, and every owner has a sample."""
    random = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), random.integers(0, classes, count - classes)])
    whose = np.concatenate([np.arange(owners), random.integers(0, owners, count - owners)])
    return random.permutation(labels).astype(np.int32), random.permutation(whose).astype(np.int32)


def by_device(held: Holdings) -> list[list[int]]:
    return [held.of(device).tolist() for device in range(len(held.starts) - 1)]


@pytest.mark.parametrize("partition", ALL, ids=str)
def test_nobody_is_empty_no_sample_is_twice_and_rows_rise(partition: Partition) -> None:
    labels, owners = samples(3000, 10, 60)
    held = partition.rows(labels, owners, 60, seed=4)
    assert held.starts.dtype == held.rows.dtype == np.int64
    assert held.starts[0] == 0
    assert held.starts[-1] == len(held.rows) == 3000
    assert sorted(held.rows.tolist()) == list(range(3000))
    for rows in by_device(held):
        assert rows
        assert rows == sorted(rows)


@pytest.mark.parametrize("partition", ALL, ids=str)
def test_the_seed_decides_and_nothing_else(partition: Partition) -> None:
    labels, owners = samples(3000, 10, 60)
    first, again, other = (partition.rows(labels, owners, 60, seed) for seed in (4, 4, 5))
    assert first.rows.tobytes() == again.rows.tobytes()
    assert first.starts.tobytes() == again.starts.tobytes()
    assert (first.rows.tobytes() == other.rows.tobytes()) == isinstance(partition, ByOwner)


@pytest.mark.parametrize("devices", [1, 7, 60, 3000])
def test_iid_sizes_are_equal_up_to_one_and_samples_are_mixed(devices: int) -> None:
    labels, _ = samples(3000, 10, 1)
    held = IID().rows(np.sort(labels), None, devices, 0)
    sizes = np.diff(held.starts)
    assert sizes.max() - sizes.min() <= 1
    if devices == 7:  # 430 samples each, of all classes though the labels come sorted
        for rows in by_device(held):
            assert np.bincount(np.sort(labels)[rows], minlength=10).min() > 15


def test_by_owner_is_the_owners_samples_and_takes_the_first_owners() -> None:
    labels, owners = samples(500, 10, 20)
    for devices in (20, 13, 1):
        expected = [np.flatnonzero(owners == device).tolist() for device in range(devices)]
        assert by_device(ByOwner().rows(labels, owners, devices, 0)) == expected


def test_dirichlet_proportions_are_dirichlet() -> None:
    """A device's proportion of a class is Beta(a, (N - 1) a): its mean and variance, within 5 standard errors."""
    devices, alpha, draws = 5, 0.3, 400
    labels = np.repeat(np.arange(10, dtype=np.int32), 1000)
    shares = []
    for seed in range(draws):
        holders = Dirichlet(alpha).holders(labels, None, devices, seed)
        shares += [np.bincount(holders[labels == label], minlength=devices) / 1000 for label in range(10)]
    proportions = np.array(shares)
    mean, variance = 1 / devices, (1 / devices) * (1 - 1 / devices) / (devices * alpha + 1)
    count = len(proportions)
    assert np.abs(proportions.mean(axis=0) - mean).max() < 5 * np.sqrt(variance / count)
    deviations = (proportions - mean) ** 2
    assert np.abs(deviations.mean(axis=0) - variance).max() < 5 * deviations.std() / np.sqrt(count)
    # Classes are drawn independently.
    by_class = proportions.reshape(draws, 10, devices)
    assert abs(np.corrcoef(by_class[:, 0, 0], by_class[:, 1, 0])[0, 1]) < 5 / np.sqrt(draws)


def test_dirichlet_of_large_alpha_is_even_and_of_small_alpha_one_device_a_class() -> None:
    labels = np.repeat(np.arange(10, dtype=np.int32), 1000)
    even = by_device(Dirichlet(1e7).rows(labels, None, 4, 0))
    for rows in even:
        assert np.abs(np.bincount(labels[rows]) - 250).max() <= 2
    alone = Dirichlet(1e-6).holders(labels, None, 4, 0)
    assert sum(len(np.unique(alone[labels == label])) > 1 for label in range(10)) <= 2  # who was empty has one


def test_dirichlet_fills_the_empty_from_the_largest_and_moves_no_more() -> None:
    """As one sample after another would be, from whoever has most then."""
    labels, _ = samples(300, 3, 1)
    for devices in (50, 200, 299, 300):
        draw = Dirichlet(0.02)
        held = np.diff(draw.rows(labels, None, devices, 1).starts)
        labels_of_draw = draw.holders(labels, None, devices, 1)
        assert np.bincount(labels_of_draw, minlength=devices).tolist() == held.tolist()
        assert held.min() >= 1
        before = raw_sizes(draw, labels, devices, 1)
        expected = sorted(before)
        for _ in range(before.count(0)):
            expected[-1] -= 1
            expected = sorted([*expected[1:], 1])
        assert sorted(held.tolist()) == expected


def raw_sizes(partition: Dirichlet, labels: NDArray[np.int32], devices: int, seed: int) -> list[int]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fadewise.data.partitions._fill_empty", lambda *_: None)
        return list(np.bincount(partition.holders(labels, None, devices, seed), minlength=devices))


@pytest.mark.parametrize("per_device", [1, 2, 3, 4, 7, 10])
@pytest.mark.parametrize("devices", [1, 3, 5, 10, 23, 100])
def test_classes_are_per_device_balanced_and_shared_evenly(per_device: int, devices: int) -> None:
    labels = np.repeat(np.arange(10, dtype=np.int32), 600)
    held = by_device(Classes(per_device).rows(labels, None, devices, 2))
    classes = [set(labels[rows].tolist()) for rows in held]
    assert {len(one) for one in classes} == {per_device}
    holders = Counter(label for one in classes for label in one)
    counts = [holders[label] for label in range(10)]
    assert max(counts) - min(counts) <= 1
    assert (min(counts) >= 1) == (devices * per_device >= 10)
    for label in range(10):
        shares = [int((labels[rows] == label).sum()) for rows, one in zip(held, classes, strict=True) if label in one]
        if shares:
            assert sum(shares) == 600
            assert max(shares) - min(shares) <= 1


def test_classes_are_combined_at_random() -> None:
    labels = np.repeat(np.arange(10, dtype=np.int32), 1000)
    held = by_device(Classes(2).rows(labels, None, 1000, 0))
    pairs = Counter(frozenset(labels[rows].tolist()) for rows in held)
    assert len(pairs) == 45
    assert max(pairs.values()) < 1000 / 45 + 5 * (1000 / 45) ** 0.5


def test_what_classes_leave_over_is_evened_out() -> None:
    labels = np.repeat(np.arange(10, dtype=np.int32), 155)
    assert set(np.diff(Classes(2).rows(labels, None, 1000, 0).starts).tolist()) == {1, 2}


def test_classes_that_do_not_appear_are_nobodys() -> None:
    labels = np.array([0, 5, 9] * 10, np.int32)
    held = by_device(Classes(3).rows(labels, None, 4, 0))
    assert [set(labels[rows].tolist()) for rows in held] == [{0, 5, 9}] * 4


def test_own_classes_are_the_first_devices_and_nobody_elses() -> None:
    labels, _ = samples(3000, 10, 60)
    held = by_device(OwnClasses(7, 3).rows(labels, None, 60, 0))
    assert all(set(labels[rows].tolist()) <= {0, 1, 2} for rows in held[:7])
    assert all(set(labels[rows].tolist()) <= set(range(3, 10)) for rows in held[7:])
    for part in (held[:7], held[7:]):
        sizes = [len(rows) for rows in part]
        assert max(sizes) - min(sizes) <= 1
    assert held != by_device(OwnClasses(7, 3).rows(labels, None, 60, 1))


def test_many_devices() -> None:
    labels, owners = samples(150_000, 62, 100_000)
    for partition in (IID(), ByOwner(), Classes(2), Dirichlet(0.1)):
        held = partition.rows(labels, owners, 100_000, 0)
        assert np.diff(held.starts).min() >= 1
        assert len(np.unique(held.rows)) == 150_000


@pytest.mark.parametrize(
    ("partition", "devices", "said"),
    [
        (
            IID(),
            60,
            "device 50 has no training samples; 50 samples shared out by partition iid leave 10 of 60 devices "
            "without any",
        ),
        (Dirichlet(1.0), 51, "device "),
        (Classes(1), 51, "device "),
        (ByOwner(), 6, "devices is 6, but the data set has 5 owners; with partition by-owner it must be at most 5"),
        (Classes(11), 5, "per_device is 11, but the samples have 10 classes; it must be at most 10"),
        (OwnClasses(5), 5, "first_devices is 5 and there are 5 devices; it must be fewer, as the others have"),
        (OwnClasses(2, 10), 5, "device 2 has no training samples; "),
        (IID(), 0, "devices is 0; it must be a whole number at least 1"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(partition: Partition, devices: int, said: str) -> None:
    labels, owners = samples(50, 10, 5)
    with pytest.raises(fw.FadewiseError) as raised:
        partition.rows(labels, owners, devices, 0)
    assert str(raised.value).startswith(said)


def test_an_owner_without_samples_is_named() -> None:
    owners = np.array([0, 1, 3, 3], np.int32)
    with pytest.raises(fw.FadewiseError) as raised:
        ByOwner().rows(np.zeros(4, np.int32), owners, 4, 0)
    assert str(raised.value) == (
        "device 2 has no training samples; 4 samples shared out by partition by-owner leave 1 of 4 devices without any"
    )


def test_owners_that_nobody_knows() -> None:
    with pytest.raises(fw.FadewiseError) as raised:
        ByOwner().rows(np.zeros(4, np.int32), None, 4, 0)
    assert str(raised.value) == (
        "partition is by-owner, but this data set does not say whose its samples are; "
        "it must be one of classes, dirichlet, iid, own-classes"
    )


def test_settings_out_of_range() -> None:
    with pytest.raises(fw.FadewiseError) as raised:
        Dirichlet(0)
    assert str(raised.value) == "alpha is 0; it must be a number above 0"
    with pytest.raises(fw.FadewiseError) as raised:
        Classes(0)
    assert str(raised.value) == "per_device is 0; it must be a whole number at least 1"


def test_kinds() -> None:
    kinds = {"iid": IID, "by-owner": ByOwner, "dirichlet": Dirichlet, "classes": Classes, "own-classes": OwnClasses}
    assert kinds == PARTITIONS
