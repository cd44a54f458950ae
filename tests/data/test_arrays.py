"""Arrays of one's own: what is taken as it is, and a sentence for what cannot be."""

from typing import Any

import numpy as np
import pytest

import fadewise as fw
from fadewise.data import DATASETS, Arrays, Dirichlet

IMAGES = np.random.default_rng(0).integers(0, 256, (30, 6, 5), np.uint8)
LABELS = np.arange(30) % 4
OWNERS = np.arange(30) // 10


def test_grey_images_get_a_channel_and_are_not_copied() -> None:
    held = Arrays(IMAGES, LABELS).federation(3, 0)
    assert held.image_shape == (6, 5, 1)
    assert np.shares_memory(held.shard(0).images, IMAGES)
    assert held.classes == 4
    assert held.sizes.tolist() == [9, 9, 9]


def test_owners_are_devices_and_a_partition_overrules_them() -> None:
    held = Arrays(IMAGES, LABELS, OWNERS).federation(3, 0)
    for device in range(3):
        assert set(OWNERS[held.shard(device).rows]) == {device}
    mixed = Arrays(IMAGES, LABELS, OWNERS, partition=Dirichlet(0.5)).federation(2, 0)
    assert mixed.sizes.sum() == held.sizes.sum() == 27


def test_a_test_set_of_ones_own() -> None:
    colour = np.zeros((4, 8, 8, 3), np.uint8)
    arrays = Arrays(colour, [0, 1, 0, 1], test_images=colour[:2] + np.uint8(1), test_labels=[4, 0])
    held = arrays.federation(4, 0)
    assert held.classes == 5
    assert held.image_shape == (8, 8, 3)
    assert held.test_labels.tolist() == [4, 0]
    assert held.test_images.max() == 1
    assert Arrays(colour, [0, 1, 0, 1], classes=7).pool().classes == 7


def test_configurations_cannot_name_it() -> None:
    assert Arrays not in DATASETS.values()


SHAPE = "it must be (samples, height, width) or (samples, height, width, channels), with at least one sample"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"images": IMAGES / 255}, "images are float64; they must be uint8, 0 to 255"),
        ({"images": IMAGES[0]}, f"images have shape (6, 5); {SHAPE}"),
        ({"images": IMAGES[:0], "labels": []}, f"images have shape (0, 6, 5, 1); {SHAPE}"),
        ({"labels": LABELS[1:]}, "labels have shape (29,); there must be one for each of 30 images"),
        ({"labels": LABELS / 1}, "labels are float64; they must be whole numbers from 0"),
        ({"labels": LABELS - 1}, "labels have -1 for sample 0; it must be a whole number from 0"),
        ({"labels": LABELS + 2**31}, "labels have 2147483648 for sample 0; it must be a whole number from 0"),
        ({"owners": ["me"] * 30}, "owners are <U2; they must be whole numbers from 0"),
        ({"test_images": IMAGES}, "test_labels is missing; test_images must come with it"),
        ({"test_labels": LABELS}, "test_images is missing; test_labels must come with it"),
        (
            {"test_images": IMAGES[:, 1:], "test_labels": LABELS},
            "test_images are of shape (5, 5, 1); they must be as images, (6, 5, 1)",
        ),
        ({"classes": 0}, "classes is 0; it must be a whole number at least 1"),
    ],
)
def test_what_cannot_be_used(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(fw.FadewiseError) as raised:
        Arrays(**{"images": IMAGES, "labels": LABELS, **arguments})
    assert str(raised.value) == said


def test_fewer_classes_than_labels() -> None:
    with pytest.raises(fw.FadewiseError) as raised:
        Arrays(IMAGES, LABELS, classes=3).federation(3, 0)
    assert str(raised.value) == "arrays: sample 3 has the label 3; it must be a class from 0 to 2"
