"""Local SGD by PyTorch: any model, in float32 or bfloat16, on CPUs or GPUs."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fadewise.data.base import Federation, Images, Labels, Shard
from fadewise.learning.backends import Backend
from fadewise.learning.training import Training
from fadewise.learning.vector import FlatModule


class PyTorch(Backend):
    """A working copy of the network. Images have their channels last in memory, which is faster on CPUs."""

    name: ClassVar[str] = "pytorch"

    def __init__(self, training: Training, federation: Federation, module: FlatModule) -> None:
        self._module = module
        self._device = training.device
        self._step_size = training.step_size
        self._bfloat16 = training.precision == "bfloat16"
        self._mean = torch.from_numpy(federation.mean).to(self._device)
        self._scale = torch.from_numpy(1 / federation.deviation).to(self._device)

    def train(
        self, model: NDArray[np.float32], shard: Shard, batches: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        self._module.load(torch.from_numpy(model))
        self._module.network.train()
        losses = [self._step(self._images(shard.images[rows]), self._labels(shard.labels[rows])) for rows in batches]
        return self._module.vector.numpy(force=True), torch.stack(losses).numpy(force=True)

    def _step(self, images: Tensor, labels: Tensor) -> Tensor:
        parameters = self._module.parameters
        loss = functional.cross_entropy(self._logits(images), labels)
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            torch._foreach_add_(parameters, gradients, alpha=-self._step_size)
        return loss.detach()

    def evaluate(self, model: NDArray[np.float32], images: Images, labels: Labels) -> tuple[int, float]:
        self._module.load(torch.from_numpy(model))
        self._module.network.eval()
        truth = self._labels(labels)
        with torch.inference_mode():
            logits = self._logits(self._images(images))
            correct = int((logits.argmax(1) == truth).sum())
            return correct, float(functional.cross_entropy(logits, truth, reduction="sum"))

    def _logits(self, images: Tensor) -> Tensor:
        with torch.autocast(self._device, torch.bfloat16, enabled=self._bfloat16):
            logits: Tensor = self._module.network(images)
        return logits.float()

    def _images(self, images: Images) -> Tensor:
        """Normalised, as (samples, channels, height, width) whose channels lie last in memory."""
        pixels = torch.from_numpy(np.array(images)).to(self._device)  # a copy: memory maps are read-only
        return (pixels.float() - self._mean).mul_(self._scale).permute(0, 3, 1, 2)

    def _labels(self, labels: Labels) -> Tensor:
        return torch.from_numpy(labels.astype(np.int64)).to(self._device)
