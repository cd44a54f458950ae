"""Local SGD, one participant after the other, and evaluation: all that a rank computes with the model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fadewise.data.base import Federation, Images
from fadewise.learning.aggregation import LARGEST, fixed
from fadewise.learning.models import Model
from fadewise.learning.training import Training
from fadewise.learning.vector import FlatModule, built
from fadewise.randomness import Stream

EVALUATED_AT_ONCE = 250
"""Test samples in a forward pass. Which rank evaluates which does not change a pass, so not a bit either."""


class Outcome(NamedTuple):
    """What a participant sends: its update Δ (valid until the next participant trains), and how it went.

    loss: the mean training loss over its steps.
    """

    update: NDArray[np.float32]
    update_norm: float
    loss: float


class Score(NamedTuple):
    """Of some test samples: how many are right, and the sum of their losses, in fixed point and as it is."""

    correct: int
    loss_fixed: int
    loss: float


class Learner:
    """A rank's working copy of the network."""

    def __init__(self, training: Training, federation: Federation, seed: int) -> None:
        self._training = training
        self._federation = federation
        self._device = training.device
        model = training.model
        shape, classes = federation.image_shape, federation.classes
        network = built((lambda: model.build(shape, classes)) if isinstance(model, Model) else model, seed)
        self._module = FlatModule(network, training.device)
        self._start = torch.empty_like(self._module.vector)
        self._mean = torch.from_numpy(federation.mean).to(self._device)
        self._scale = torch.from_numpy(1 / federation.deviation).to(self._device)
        self._bfloat16 = training.precision == "bfloat16"

    @property
    def parameters(self) -> int:
        """How many numbers the model's parameters are: what a device sends."""
        return self._module.payload_parameters

    def initial_model(self) -> NDArray[np.float32]:
        """The model before the first round, for whoever calls this before training."""
        return self._module.vector.numpy(force=True).copy()

    def train(self, model: NDArray[np.float32], device: int, stream: Stream) -> Outcome:
        """Algorithm 1, lines 5 to 9: x ← x - γ·g(x) for I minibatches, and what came of it."""
        training = self._training
        shard = self._federation.shard(device)
        words = stream.uniforms_of(device, "minibatches", training.steps * training.batch_size)
        batches = shard.rows[(words * len(shard.rows)).astype(np.int64)].reshape(training.steps, -1)
        self._start.copy_(torch.from_numpy(model))
        self._module.load(self._start)
        self._module.network.train()
        losses = []
        with torch.random.fork_rng(devices=[]):
            # For networks that draw numbers themselves, as dropout does.
            torch.manual_seed(int(stream.uniforms_of(device, "network", 1)[0] * 2**53))
            for rows in batches:
                labels = torch.from_numpy(shard.labels[rows].astype(np.int64)).to(self._device)
                losses.append(self._step(self._images(shard.images[rows]), labels))
        update = torch.sub(self._module.vector, self._start, out=self._start)
        norm = float(torch.linalg.vector_norm(update, dtype=torch.float64))
        return Outcome(update.numpy(force=True), norm, float(torch.stack(losses).double().mean()))

    def _step(self, images: Tensor, labels: Tensor) -> Tensor:
        parameters = self._module.parameters
        loss = functional.cross_entropy(self._logits(images), labels)
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            torch._foreach_add_(parameters, gradients, alpha=-self._training.step_size)
        return loss.detach()

    def evaluate(self, model: NDArray[np.float32], rank: int, ranks: int) -> Score:
        """This rank's part of the test set."""
        self._module.load(torch.from_numpy(model))
        self._module.network.eval()
        federation = self._federation
        correct, loss_fixed, loss = 0, 0, 0.0
        for first in range(rank * EVALUATED_AT_ONCE, len(federation.test_labels), ranks * EVALUATED_AT_ONCE):
            part = slice(first, first + EVALUATED_AT_ONCE)
            labels = torch.from_numpy(federation.test_labels[part].astype(np.int64)).to(self._device)
            with torch.inference_mode():
                logits = self._logits(self._images(federation.test_images[part]))
                correct += int((logits.argmax(1) == labels).sum())
                loss_here = float(functional.cross_entropy(logits, labels, reduction="sum"))
            loss += loss_here
            loss_fixed += fixed(loss_here) if abs(loss_here) < LARGEST else 0
        return Score(correct, loss_fixed, loss)

    def _logits(self, images: Tensor) -> Tensor:
        with torch.autocast(self._device, torch.bfloat16, enabled=self._bfloat16):
            logits: Tensor = self._module.network(images)
        return logits.float()

    def _images(self, images: Images) -> Tensor:
        """Normalised, as (samples, channels, height, width) whose channels lie last in memory."""
        pixels = torch.from_numpy(np.array(images)).to(self._device)  # a copy: memory maps are read-only
        return (pixels.float() - self._mean).mul_(self._scale).permute(0, 3, 1, 2)
