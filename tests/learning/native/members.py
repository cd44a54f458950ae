"""Random members of the CNN family, with samples, and the same steps in plain PyTorch of any precision."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fadewise.learning.native.library import Samples, Shape


class Member(NamedTuple):
    """A network, its first parameters, and the minibatches (rows of the samples) of some steps."""

    shape: Shape
    parameters: NDArray[np.float32]
    samples: Samples
    rows: NDArray[np.int64]


def member(shape: Shape, rng: np.random.Generator, steps: int = 10, count: int = 60) -> Member:
    """PyTorch's default initialisation, and uniformly random images."""
    parts = [
        rng.uniform(-1, 1, math.prod(size)) / math.sqrt(math.prod(weight[1:]))
        for weight, bias in zip(sizes(shape)[::2], sizes(shape)[1::2], strict=True)
        for size in (weight, bias)
    ]
    images = rng.integers(0, 256, (count, shape.height, shape.width, shape.channels), np.uint8)
    labels = rng.integers(0, shape.classes, count).astype(np.int32)
    rows = rng.integers(0, count, (steps, shape.batch))
    return Member(shape, np.concatenate(parts).astype(np.float32), samples(images, labels), rows)


def samples(images: NDArray[np.uint8], labels: NDArray[np.int32]) -> Samples:
    """Normalised by their own moments."""
    deviation = np.maximum(images.std((0, 1, 2)), 1.0)
    return Samples(images, labels, images.mean((0, 1, 2)).astype(np.float32), (1 / deviation).astype(np.float32))


def random_shape(rng: np.random.Generator) -> Shape:
    """Any member that is quickly trained."""
    height, width = (4 * rng.integers(1, 9, 2)).tolist()
    maps1, maps2 = rng.integers(1, 50, 2).tolist()
    hidden, classes, batch = (int(rng.integers(1, most)) for most in (120, 70, 40))
    return Shape(height, width, int(rng.choice([1, 3])), int(rng.choice([3, 5])), maps1, maps2, hidden, classes, batch)


def sizes(shape: Shape) -> list[tuple[int, ...]]:
    """Of the parameters, in PyTorch's order and layout."""
    features = shape.maps2 * (shape.height // 4) * (shape.width // 4)
    return [
        (shape.maps1, shape.channels, shape.kernel, shape.kernel),
        (shape.maps1,),
        (shape.maps2, shape.maps1, shape.kernel, shape.kernel),
        (shape.maps2,),
        (shape.hidden, features),
        (shape.hidden,),
        (shape.classes, shape.hidden),
        (shape.classes,),
    ]


def logits(parameters: list[torch.Tensor], samples: Samples, rows: NDArray[np.int64]) -> torch.Tensor:
    """The network as its definition has it."""
    weight1, bias1, weight2, bias2, dense1, bias3, dense2, bias4 = parameters
    pixels = torch.from_numpy(samples.images[rows]).float()
    x = ((pixels - torch.from_numpy(samples.mean)) * torch.from_numpy(samples.scale)).permute(0, 3, 1, 2)
    x = functional.max_pool2d(functional.relu(functional.conv2d(x.to(weight1), weight1, bias1, padding="same")), 2)
    x = functional.max_pool2d(functional.relu(functional.conv2d(x, weight2, bias2, padding="same")), 2)
    return functional.linear(functional.relu(functional.linear(x.flatten(1), dense1, bias3)), dense2, bias4)


def tensors(shape: Shape, parameters: NDArray[np.float32], dtype: torch.dtype) -> list[torch.Tensor]:
    """The parameters one by one."""
    flat = torch.from_numpy(parameters).to(dtype)
    parts = torch.split(flat, [math.prod(size) for size in sizes(shape)])
    return [part.reshape(size).clone().requires_grad_() for part, size in zip(parts, sizes(shape), strict=True)]


def trained(member: Member, step_size: float, dtype: torch.dtype) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Parameters after the steps, and each step's loss."""
    parameters = tensors(member.shape, member.parameters, dtype)
    losses = []
    for rows in member.rows:
        labels = torch.from_numpy(member.samples.labels[rows].astype(np.int64))
        loss = functional.cross_entropy(logits(parameters, member.samples, rows), labels)
        losses.append(float(loss.detach()))
        with torch.no_grad():
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter -= step_size * gradient
    return torch.cat([p.detach().reshape(-1) for p in parameters]).double().numpy(), np.array(losses)
