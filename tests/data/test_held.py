"""Pools in devices' hands: the held-out test set, the moments, and the shards, against the obvious ways."""

import numpy as np
import pytest

import fadewise as fw
from fadewise.data import IID, ByOwner, Dirichlet
from fadewise.data.base import Pool
from fadewise.data.held import Held, held_out_rows, training_moments


def pool(amounts: list[int], *, owned: bool = True, test: bool = False, channels: int = 2) -> Pool:
    random = np.random.default_rng(1)
    owners = random.permutation(np.repeat(np.arange(len(amounts), dtype=np.int32), amounts))
    images = random.integers(0, 256, (len(owners), 5, 4, channels), np.uint8)
    labels = random.integers(0, 10, len(owners)).astype(np.int32)
    official = (images[:3] // 2, labels[:3]) if test else (None, None)
    return Pool(images, labels, 10, owners if owned else None, *official)


AMOUNTS = [1, 2, 3, 14, 15, 16, 25, 35, 100]


def test_a_tenth_of_each_owner_is_held_out() -> None:
    everything = pool(AMOUNTS)
    assert everything.owners is not None
    out = held_out_rows(everything)
    expected = [0 if n < 2 else max(1, round(n / 10)) for n in AMOUNTS]
    assert np.bincount(everything.owners[out], minlength=len(AMOUNTS)).tolist() == expected
    alone = held_out_rows(pool(AMOUNTS, owned=False))
    assert alone.sum() == round(sum(AMOUNTS) / 10)


def test_held_out_at_random() -> None:
    """Of many owners with 20 samples, each place among an owner's is held out equally often."""
    everything = pool([20] * 2000)._replace(owners=np.repeat(np.arange(2000, dtype=np.int32), 20))
    places = held_out_rows(everything).reshape(2000, 20).sum(axis=0)
    assert places.sum() == 4000
    assert np.abs(places - 200).max() < 5 * np.sqrt(2000 * 0.1 * 0.9)


def test_the_test_set_is_the_same_for_every_seed_and_partition() -> None:
    everything = pool(AMOUNTS)
    held = [
        Held(everything, partition, len(AMOUNTS), seed)
        for partition in (ByOwner(), IID(), Dirichlet(0.3))
        for seed in (0, 7)
    ]
    out = held_out_rows(everything)
    for one in held:
        assert one.test_images.tobytes() == everything.images[out].tobytes()
        assert one.test_labels.tolist() == everything.labels[out].tolist()


def test_training_and_test_samples_are_all_samples_once() -> None:
    everything = pool(AMOUNTS)
    held = Held(everything, ByOwner(), len(AMOUNTS), 3)
    rows = np.concatenate([held.shard(device).rows for device in range(len(AMOUNTS))])
    assert sorted(rows.tolist()) == np.flatnonzero(~held_out_rows(everything)).tolist()
    assert held.sizes.tolist() == [n - (0 if n < 2 else max(1, round(n / 10))) for n in AMOUNTS]
    for device, size in enumerate(held.sizes):
        shard = held.shard(device)
        assert shard.images is everything.images
        assert len(shard.rows) == size
        assert everything.owners is not None
        assert set(everything.owners[shard.rows].tolist()) == {device}


def test_only_the_owners_that_are_used_are_tested_on() -> None:
    everything = pool(AMOUNTS)
    held = Held(everything, ByOwner(), 5, 0)
    assert everything.owners is not None
    out = held_out_rows(everything) & (everything.owners < 5)
    assert held.test_labels.tolist() == everything.labels[out].tolist()
    assert held.test_images.tobytes() == everything.images[out].tobytes()


def test_an_official_test_set_is_kept_and_nothing_held_out() -> None:
    everything = pool(AMOUNTS, test=True)
    held = Held(everything, IID(), 4, 0)
    assert held.test_images is everything.test_images
    assert held.test_labels is everything.test_labels
    assert held.sizes.sum() == sum(AMOUNTS)
    assert (held.classes, held.image_shape) == (10, (5, 4, 2))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("test", [True, False])
def test_moments_are_those_of_the_training_images(channels: int, test: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = pool(AMOUNTS, channels=channels, test=test)
    training = everything.images if test else everything.images[~held_out_rows(everything)]
    mean, deviation = training_moments(everything)
    assert mean.dtype == deviation.dtype == np.float32
    np.testing.assert_allclose(mean, training.mean(axis=(0, 1, 2)), rtol=1e-6)
    np.testing.assert_allclose(deviation, training.std(axis=(0, 1, 2)), rtol=1e-6)
    monkeypatch.setattr("fadewise.data.held._CHUNK_BYTES", 100)
    again = training_moments(everything)
    assert again.mean.tobytes() == mean.tobytes()
    assert again.deviation.tobytes() == deviation.tobytes()


def test_a_constant_channel_can_be_divided_by_its_deviation() -> None:
    everything = pool([5, 5])
    everything.images[..., 0] = 255
    held = Held(everything, IID(), 2, 0)
    assert held.mean[0] == 255
    assert held.deviation[0] == 1


def refused(everything: Pool, devices: int = 2) -> str:
    with pytest.raises(fw.FadewiseError) as raised:
        Held(everything, IID(), devices, 0, where="here")
    return str(raised.value)


def test_labels_out_of_range() -> None:
    everything = pool([5, 5])
    everything.labels[7] = 10
    assert refused(everything) == "here: sample 7 has the label 10; it must be a class from 0 to 9"
    everything = pool([5, 5], test=True)
    assert everything.test_labels is not None
    everything = everything._replace(test_labels=np.array([0, -1, 3], np.int32))
    assert refused(everything) == "the test set of here: sample 1 has the label -1; it must be a class from 0 to 9"


def test_nothing_to_test_on() -> None:
    assert refused(pool([1, 1])) == (
        "here has no sample to test on; give it a test set, or two samples to an owner"
    )  # fmt: skip


def test_devices_that_are_not_there() -> None:
    held = Held(pool([5, 5]), ByOwner(), 2, 0)
    for device in (-1, 2):
        with pytest.raises(fw.FadewiseError) as raised:
            held.shard(device)
        assert str(raised.value) == f"there is no device {device}; the devices are 0 to 1"
