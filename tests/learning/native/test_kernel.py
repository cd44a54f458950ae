"""The native kernel against PyTorch in float32 and float64, on every instruction set of this machine."""

from __future__ import annotations

import ctypes
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from fadewise.errors import FadewiseError
from fadewise.learning.native import library
from fadewise.learning.native.library import Kernel, Samples, Shape
from tests.learning.native.members import Member, logits, member, random_shape, samples, tensors, trained

TARGETS = library.targets()
pytestmark = pytest.mark.skipif(not TARGETS, reason="this installation has no native kernel")

PAPERS = {
    "CIFAR-10": Shape(32, 32, 3, 5, 32, 32, 256, 10, 32),
    "FEMNIST": Shape(28, 28, 1, 5, 32, 32, 256, 62, 32),
    "McMahan": Shape(28, 28, 1, 5, 32, 64, 512, 10, 32),
    "LEAF": Shape(28, 28, 1, 5, 32, 64, 2048, 62, 32),
}


def by_kernel(member: Member, step_size: float, target: str) -> tuple[np.ndarray, np.ndarray]:
    """Parameters after the member's steps, and the losses."""
    parameters = member.parameters.copy()
    losses = Kernel(member.shape, target).train(parameters, member.samples, member.rows, step_size)
    return parameters, losses


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.sqrt(np.square(one - other).mean()))


@pytest.mark.parametrize("target", TARGETS)
def test_ten_steps_are_as_close_to_float64_as_pytorch_is(target: str) -> None:
    # Where two numbers of a pooling window, or a number and ReLU's 0, differ by less than rounding errors, either
    # arithmetic may take the other branch, and that sample's gradient goes another way: with PyTorch in one member
    # of forty, with the kernel in one of eighty (benchmarks/rounding.py). The others must be as close as PyTorch's.
    rng = np.random.default_rng(1)
    ratios = []
    for _ in range(60):
        one = member(random_shape(rng), rng)
        exact, exact_losses = trained(one, 0.05, torch.float64)
        single, _ = trained(one, 0.05, torch.float32)
        ours, losses = by_kernel(one, 0.05, target)
        ratios.append((1e-10 + distance(ours, exact)) / (1e-10 + distance(single, exact)))
        np.testing.assert_allclose(ours, exact, atol=5e-3)
        np.testing.assert_allclose(losses, exact_losses, rtol=1e-3)
    assert np.median(ratios) < 1.05
    assert np.mean(np.array(ratios) < 1.5) > 0.95


@pytest.mark.parametrize("name", PAPERS)
def test_published_networks(name: str) -> None:
    one = member(PAPERS[name], np.random.default_rng(2), steps=3)
    exact, exact_losses = trained(one, 0.05, torch.float64)
    ours, losses = by_kernel(one, 0.05, TARGETS[0])
    np.testing.assert_allclose(losses, exact_losses, rtol=1e-5)
    assert distance(ours, exact) < 1e-4 * distance(ours, one.parameters)


@pytest.mark.parametrize("target", TARGETS)
def test_gradients_are_pytorchs(target: str) -> None:
    # A step of size 1 from parameters is the gradient. Part by part: no part's error may hide behind another's size.
    rng = np.random.default_rng(3)
    for _ in range(30):
        one = member(random_shape(rng), rng, steps=1)
        exact, _ = trained(one, 1.0, torch.float64)
        ours, _ = by_kernel(one, 1.0, target)
        for mine, theirs, before in zip(
            *(tensors(one.shape, x.astype(np.float32), torch.float64) for x in (ours, exact, one.parameters)),
            strict=True,
        ):
            gradient = float((before - theirs).detach().norm())
            assert float((mine - theirs).detach().norm()) < 2e-3 * gradient + 1e-6 * math.sqrt(mine.numel())


def test_every_target_and_batch_size_is_alike() -> None:
    rng = np.random.default_rng(4)
    for batch in (1, 2, 15, 16, 17, 31, 33, 64, 65):
        one = member(Shape(12, 8, 3, 5, 17, 33, 40, 11, batch), rng, steps=2)
        exact, _ = trained(one, 0.05, torch.float64)
        for target in TARGETS:
            np.testing.assert_allclose(by_kernel(one, 0.05, target)[0], exact, atol=2e-5)


def test_a_batch_smaller_than_the_room_for_it() -> None:
    one = member(Shape(8, 8, 1, 3, 5, 6, 7, 4, 32), np.random.default_rng(5))
    last = one.rows[:, :5].copy()
    kernel = Kernel(one.shape, TARGETS[0])
    kernel.train(one.parameters.copy(), one.samples, one.rows, 0.05)  # leaves 32 samples' traces behind
    parameters = one.parameters.copy()
    kernel.train(parameters, one.samples, last, 0.05)
    exact, _ = trained(one._replace(rows=last), 0.05, torch.float64)
    np.testing.assert_allclose(parameters, exact, atol=2e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_ties_of_pooling_go_to_the_first(target: str) -> None:
    # Large flat areas, as in scanned handwriting: whole windows are equal, in float64, in PyTorch and here.
    rng = np.random.default_rng(6)
    blocks = rng.integers(0, 2, (60, 4, 4, 1), np.uint8) * 255
    images = blocks.repeat(7, axis=1).repeat(7, axis=2)
    labels = rng.integers(0, 10, 60).astype(np.int32)
    one = member(Shape(28, 28, 1, 5, 32, 32, 64, 10, 32), rng, steps=3)._replace(samples=samples(images, labels))
    exact, _ = trained(one, 0.05, torch.float64)
    assert distance(by_kernel(one, 0.05, target)[0], exact) < 2e-3 * distance(exact, one.parameters)


@pytest.mark.parametrize("target", TARGETS)
def test_ties_between_different_patches_go_to_the_first(target: str) -> None:
    # Filters of zeros give windows of equal numbers over patches that differ: who wins decides on the gradient.
    shape = Shape(8, 8, 3, 5, 4, 6, 9, 5, 8)
    one = member(shape, np.random.default_rng(14), steps=1)
    parts = tensors(shape, one.parameters, torch.float32)
    with torch.no_grad():
        for weight, bias in (parts[:2], parts[2:4]):
            weight[:2] = 0
            bias[:2] = 0.5
    start = torch.cat([part.detach().reshape(-1) for part in parts]).numpy()
    exact, _ = trained(one._replace(parameters=start), 0.5, torch.float64)
    np.testing.assert_allclose(by_kernel(one._replace(parameters=start), 0.5, target)[0], exact, atol=2e-6)


def test_dead_units_stay_where_they_are() -> None:
    shape = Shape(8, 8, 3, 5, 4, 6, 9, 5, 8)
    one = member(shape, np.random.default_rng(7), steps=4)
    parts = tensors(shape, one.parameters, torch.float32)
    with torch.no_grad():
        parts[1].fill_(-1e6)  # the first layer gives nothing but zeros
    start = torch.cat([part.detach().reshape(-1) for part in parts]).numpy()
    ours, _ = by_kernel(one._replace(parameters=start), 0.1, TARGETS[0])
    exact, _ = trained(one._replace(parameters=start), 0.1, torch.float64)
    first = parts[0].numel() + parts[1].numel()
    assert (ours[:first] == start[:first]).all()
    np.testing.assert_allclose(ours, exact, atol=1e-6)


def test_one_class_has_nothing_to_learn() -> None:
    one = member(Shape(8, 4, 1, 3, 3, 3, 5, 1, 4), np.random.default_rng(8))
    ours, losses = by_kernel(one, 0.5, TARGETS[0])
    assert (losses == 0).all()
    assert (ours == one.parameters).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_number_arrives_as_none(target: str, bad: float) -> None:
    one = member(Shape(8, 8, 3, 5, 4, 6, 9, 5, 8), np.random.default_rng(9), steps=1)
    for at in (0, 310, len(one.parameters) - 1):  # in the first layer, in the second, in the last bias
        start = one.parameters.copy()
        start[at] = bad
        parameters, losses = by_kernel(one._replace(parameters=start), 0.1, target)
        assert not np.isfinite(losses[0])
        assert np.isnan(parameters).any()
    samples = one.samples._replace(mean=np.full(3, bad, np.float32))
    assert not np.isfinite(by_kernel(one._replace(samples=samples), 0.1, target)[1][0])


@pytest.mark.parametrize("target", TARGETS)
def test_evaluation(target: str) -> None:
    rng = np.random.default_rng(10)
    for _ in range(10):
        one = member(random_shape(rng), rng)
        rows = np.arange(60)
        correct, losses = Kernel(one.shape, target).evaluate(one.parameters, one.samples, rows)
        exact = logits(tensors(one.shape, one.parameters, torch.float64), one.samples, rows).detach()
        labels = torch.from_numpy(one.samples.labels.astype(np.int64))
        np.testing.assert_allclose(
            losses, torch.nn.functional.cross_entropy(exact, labels, reduction="none"), rtol=1e-4
        )
        assert correct == int((exact.argmax(1) == labels).sum())


def test_the_same_bits_whatever_was_trained_before() -> None:
    rng = np.random.default_rng(11)
    one, other = (member(Shape(16, 12, 3, 5, 20, 18, 30, 7, 9), rng) for _ in range(2))
    for target in TARGETS:
        alone = by_kernel(one, 0.05, target)[0]
        kernel = Kernel(one.shape, target)
        kernel.train(other.parameters.copy(), other.samples, other.rows, 0.05)
        kernel.evaluate(other.parameters, other.samples, np.arange(60))
        again = one.parameters.copy()
        kernel.train(again, one.samples, one.rows, 0.05)
        assert alone.tobytes() == again.tobytes()


def test_nothing_stays_of_what_was_no_number() -> None:
    # A participant that diverges must not spoil the next: maps and features that pad a vector are never read anew.
    rng = np.random.default_rng(14)
    for kernel_size in (3, 5):
        one = member(Shape(12, 8, 3, kernel_size, 17, 18, 30, 7, 9), rng, steps=3)
        for target in TARGETS:
            alone = by_kernel(one, 0.05, target)[0]
            kernel = Kernel(one.shape, target)
            kernel.train(np.full_like(one.parameters, np.nan), one.samples, one.rows, 0.05)
            kernel.train(one.parameters.copy(), one.samples._replace(mean=np.full(3, np.inf, np.float32)), one.rows, 1)
            again = one.parameters.copy()
            kernel.train(again, one.samples, one.rows, 0.05)
            assert alone.tobytes() == again.tobytes()


def test_threads_with_a_kernel_each_do_not_meet() -> None:
    one = member(Shape(28, 28, 1, 5, 20, 18, 30, 7, 9), np.random.default_rng(15), steps=20)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: by_kernel(one, 0.05, TARGETS[0])[0].tobytes(), range(8)))
    assert set(results) == {by_kernel(one, 0.05, TARGETS[0])[0].tobytes()}


@pytest.mark.parametrize("at_width", [4, 1024])
def test_the_narrowest_and_the_widest_images(at_width: int) -> None:
    rng = np.random.default_rng(16)
    for target in TARGETS:
        for kernel_size, channels in ((3, 1), (3, 3), (5, 1), (5, 3)):
            for height, width in ((at_width, 4), (4, at_width)):
                one = member(Shape(height, width, channels, kernel_size, 3, 5, 4, 3, 1), rng, steps=2, count=4)
                exact, _ = trained(one, 0.05, torch.float64)
                np.testing.assert_allclose(by_kernel(one, 0.05, target)[0], exact, atol=1e-4)


def test_arrays_of_other_sizes_are_refused() -> None:
    one = member(Shape(8, 8, 3, 3, 2, 2, 3, 4, 5), np.random.default_rng(17), steps=1)
    kernel, good = Kernel(one.shape, TARGETS[0]), one.samples
    for parameters, bad in (
        (one.parameters[:-1], good),
        (one.parameters, good._replace(images=good.images[:-1])),
        (one.parameters, good._replace(images=np.ascontiguousarray(good.images[:, :4]))),
        (one.parameters, good._replace(mean=good.mean[:1])),
        (one.parameters, good._replace(scale=good.scale[:1])),
    ):
        with pytest.raises(FadewiseError, match="shapes"):
            kernel.train(parameters.copy(), bad, one.rows, 0.1)
        with pytest.raises(FadewiseError, match="shapes"):
            kernel.evaluate(parameters, bad, np.arange(5))


def test_rows_and_labels_out_of_range_are_refused() -> None:
    one = member(Shape(4, 4, 1, 3, 2, 2, 3, 4, 5), np.random.default_rng(12), steps=1)
    kernel = Kernel(one.shape, TARGETS[0])
    for row in (-1, 60):
        with pytest.raises(FadewiseError, match="out of range"):
            kernel.train(one.parameters.copy(), one.samples, np.full((1, 5), row), 0.1)
    labels = one.samples.labels.copy()
    labels[one.rows[0, 0]] = 4
    with pytest.raises(FadewiseError, match="out of range"):
        kernel.train(one.parameters.copy(), one.samples._replace(labels=labels), one.rows, 0.1)
    with pytest.raises(FadewiseError, match="out of range"):
        kernel.train(one.parameters.copy(), one.samples, np.zeros((1, 6), np.int64), 0.1)


@pytest.mark.parametrize(
    "shape",
    [
        Shape(10, 8, 1, 3, 2, 2, 3, 4, 5),
        Shape(8, 8, 2, 3, 2, 2, 3, 4, 5),
        Shape(8, 8, 1, 4, 2, 2, 3, 4, 5),
        Shape(8, 8, 1, 3, 0, 2, 3, 4, 5),
        Shape(8, 8, 1, 3, 2, 2, 3, 4, 10**6),
    ],
)
def test_what_is_not_of_the_family_is_not_made(shape: Shape) -> None:
    with pytest.raises(FadewiseError, match="beyond its family"):
        Kernel(shape, TARGETS[0])


def test_an_unknown_instruction_set_is_not_made() -> None:
    with pytest.raises(FadewiseError, match="beyond its family"):
        Kernel(Shape(8, 8, 1, 3, 2, 2, 3, 4, 5), "abacus")


def test_arrays_of_other_types_are_refused() -> None:
    one = member(Shape(4, 4, 1, 3, 2, 2, 3, 4, 5), np.random.default_rng(13), steps=1)
    wrong = Samples(one.samples.images.astype(np.float32), *one.samples[1:])
    with pytest.raises(ctypes.ArgumentError):
        Kernel(one.shape, TARGETS[0]).train(one.parameters.copy(), wrong, one.rows, 0.1)


@pytest.mark.parametrize("target", TARGETS)
def test_the_peaks_multiply_adds_are_counted(target: str) -> None:
    count = library.multiply_adds(target, 1)
    assert count > 0
    assert library.multiply_adds(target, 1000) == 1000 * count
