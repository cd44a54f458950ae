"""Local SGD, one participant after the other, and evaluation: all that a rank computes with the model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fadewise.data.base import Federation
from fadewise.errors import FadewiseError
from fadewise.learning.aggregation import LARGEST, fixed
from fadewise.learning.backends import Backend, choose
from fadewise.learning.models import Model
from fadewise.learning.native.backend import Native
from fadewise.learning.pytorch import PyTorch
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
    """A rank's working copy of the network.

    choice: what computes, and why; parameters: how many numbers a device sends.
    """

    def __init__(self, training: Training, federation: Federation, seed: int) -> None:
        self._training = training
        self._federation = federation
        model = training.model
        shape, classes = federation.image_shape, federation.classes
        network = built((lambda: model.build(shape, classes)) if isinstance(model, Model) else model, seed)
        if training.device == "cuda" and not torch.cuda.is_available():
            raise FadewiseError("training.device is 'cuda', but PyTorch finds no GPU that it can use; it must be cpu")
        module = FlatModule(network, training.device)
        self.parameters = module.payload_parameters
        self._initial = module.vector.numpy(force=True).copy()
        self._update = torch.empty(len(self._initial))
        self.choice = choose(training, federation)
        self._backend: Backend = (
            PyTorch(training, federation, module)
            if self.choice.target is None
            else Native(training, federation, self.choice.target)
        )

    def initial_model(self) -> NDArray[np.float32]:
        """The model before the first round."""
        return self._initial.copy()

    def train(self, model: NDArray[np.float32], device: int, stream: Stream) -> Outcome:
        """Algorithm 1, lines 5 to 9: x ← x - γ·g(x) for I minibatches, and what came of it."""
        training = self._training
        shard = self._federation.shard(device)
        words = stream.uniforms_of(device, "minibatches", training.steps * training.batch_size)
        batches = shard.rows[(words * len(shard.rows)).astype(np.int64)].reshape(training.steps, -1)
        with torch.random.fork_rng(devices=[]):
            # For networks that draw numbers themselves, as dropout does.
            torch.manual_seed(int(stream.uniforms_of(device, "network", 1)[0] * 2**53))
            trained, losses = self._backend.train(model, shard, batches)
        update = torch.sub(torch.from_numpy(trained), torch.from_numpy(model), out=self._update)
        norm = float(torch.linalg.vector_norm(update, dtype=torch.float64))
        return Outcome(update.numpy(), norm, float(losses.mean(dtype=np.float64)))

    def evaluate(self, model: NDArray[np.float32], rank: int, ranks: int) -> Score:
        """This rank's part of the test set."""
        federation = self._federation
        correct, loss_fixed, loss = 0, 0, 0.0
        for first in range(rank * EVALUATED_AT_ONCE, len(federation.test_labels), ranks * EVALUATED_AT_ONCE):
            part = slice(first, first + EVALUATED_AT_ONCE)
            correct_here, loss_here = self._backend.evaluate(
                model, federation.test_images[part], federation.test_labels[part]
            )
            correct += correct_here
            loss += loss_here
            loss_fixed += fixed(loss_here) if abs(loss_here) < LARGEST else 0
        return Score(correct, loss_fixed, loss)
