"""Pooling and ReLU where rounding would decide: the kernel decides as exact arithmetic does.

All but where its sums come out equal to the last bit: it takes these for what an image's flat areas give, and the
first of them wins.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fadewise.learning.native import library
from fadewise.learning.native.library import Kernel, Samples, Shape
from tests.learning.native.members import Member, member, tensors, trained

TARGETS = library.targets()
pytestmark = pytest.mark.skipif(not TARGETS, reason="this installation has no native kernel")

Patches = NDArray[np.float64]  # (position, input)


def patches(x: NDArray[np.float64], kernel: int) -> Patches:
    """What each output of a convolution of (channel, row, column) sees, row by row."""
    found = functional.unfold(torch.from_numpy(x)[None], kernel, padding=kernel // 2)
    return np.asarray(found[0].T)


def close_filters(of: Patches, width: int, maps: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Filters for which the two largest outputs of a pooling window differ by no more than the filters' rounding,
    each in a window of its own."""
    filters: list[NDArray[np.float32]] = []
    height = len(of) // width
    while len(filters) < maps:
        y, x = 2 * rng.integers(height // 2), 2 * rng.integers(width // 2)
        window = [y * width + x, y * width + x + 1, (y + 1) * width + x, (y + 1) * width + x + 1]
        one, other, *rest = rng.permutation(window)
        filter_ = rng.uniform(-1, 1, of.shape[1])
        difference = of[one] - of[other]
        if not difference.any():
            continue
        filter_ -= filter_ @ difference / (difference @ difference) * difference
        rounded = filter_.astype(np.float32)
        outputs = of[[one, other, *rest]] @ rounded.astype(np.float64)
        gap = abs(outputs[0] - outputs[1])
        if outputs[:2].min() > max(0, *outputs[2:]) + 0.1 and 0 < gap < 1e-7 * np.abs(of[one]) @ np.abs(filter_):
            filters.append(rounded)
    return np.array(filters)


def with_parts(one: Member, parts: list[torch.Tensor]) -> Member:
    return one._replace(parameters=torch.cat([part.detach().reshape(-1) for part in parts]).numpy())


def well_decided(one: Member, target: str, layer: int) -> float:
    """For which share of a layer's maps a step on one image goes where it should: who wins decides about that."""
    ours = one.parameters.copy()
    Kernel(one.shape, target).train(ours, one.samples, one.rows, 1.0)
    exact, _ = trained(one, 1.0, torch.float64)
    mine, theirs, before = (
        tensors(one.shape, x.astype(np.float32), torch.float64)[2 * layer].detach().flatten(1)
        for x in (ours, exact, one.parameters)
    )
    gradients = (theirs - before).norm(dim=1)
    right = (mine - theirs).norm(dim=1) < 1e-3 * gradients + 1e-5 * gradients.max()
    return float(right.double().mean())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel_size", [3, 5])
@pytest.mark.parametrize("channels", [1, 3])
def test_pooling_of_the_first_layer(target: str, kernel_size: int, channels: int) -> None:
    rng = np.random.default_rng(18)
    one = member(Shape(16, 12, channels, kernel_size, 40, 6, 9, 5, 1), rng, steps=1, count=1)
    image = one.samples.images[0].transpose(2, 0, 1) - one.samples.mean[:, None, None]
    seen = patches((image * one.samples.scale[:, None, None]).astype(np.float64), kernel_size)
    parts = tensors(one.shape, one.parameters, torch.float32)
    with torch.no_grad():
        parts[0].copy_(torch.from_numpy(close_filters(seen, 12, 40, rng)).reshape(parts[0].shape))
        parts[1].zero_()
    assert well_decided(with_parts(one, parts), target, 0) > 0.9


@pytest.mark.parametrize("target", TARGETS)
def test_pooling_of_the_second_layer(target: str) -> None:
    # The first layer's outputs are whole numbers, so that only the second one's arithmetic rounds.
    rng = np.random.default_rng(19)
    one = member(Shape(16, 16, 1, 3, 20, 40, 9, 5, 1), rng, steps=1, count=1)
    images = rng.integers(0, 8, one.samples.images.shape, np.uint8)
    plain = Samples(images, one.samples.labels[:1], np.zeros(1, np.float32), np.ones(1, np.float32))
    parts = tensors(one.shape, one.parameters, torch.float32)
    with torch.no_grad():
        parts[0].copy_(torch.from_numpy(2.0 * rng.integers(-2, 3, tuple(parts[0].shape))))
        parts[1].fill_(1.0)
        image = torch.from_numpy(images[0].transpose(2, 0, 1).astype(np.float64))
        first = functional.conv2d(image[None], parts[0].double(), parts[1].double(), padding="same")
        seen = patches(functional.max_pool2d(functional.relu(first), 2)[0].numpy(), 3)
        parts[2].copy_(torch.from_numpy(close_filters(seen, 8, 40, rng)).reshape(parts[2].shape))
        parts[3].zero_()
    assert well_decided(with_parts(one._replace(samples=plain), parts), target, 1) > 0.8


@pytest.mark.parametrize("target", TARGETS)
def test_relu_of_the_first_layer(target: str) -> None:
    # Biases cancel a window's largest output up to their own rounding.
    rng = np.random.default_rng(20)
    one = member(Shape(16, 12, 3, 5, 40, 6, 9, 5, 1), rng, steps=1, count=1)
    image = one.samples.images[0].transpose(2, 0, 1) - one.samples.mean[:, None, None]
    seen = patches((image * one.samples.scale[:, None, None]).astype(np.float64), 5)
    parts = tensors(one.shape, one.parameters, torch.float32)
    outputs = seen @ parts[0].detach().double().reshape(40, -1).numpy().T
    windows = outputs.reshape(8, 2, 6, 2, 40).max(axis=(1, 3)).reshape(-1, 40)
    chosen = windows[rng.integers(len(windows), size=40), np.arange(40)]
    with torch.no_grad():
        parts[1].copy_(torch.from_numpy(-chosen))
    assert well_decided(with_parts(one, parts), target, 0) == 1
