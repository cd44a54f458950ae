"""What is trained, on whose data, and how: Algorithm 1's settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from fadewise import checks
from fadewise.data.base import Data
from fadewise.learning.models import CNN, Model

Precision = Literal["float32", "bfloat16"]
BackendName = Literal["auto", "native", "pytorch"]


@dataclass(frozen=True, eq=False)
class Training:
    """Local SGD on devices' data, in the paper's notation I steps of step size γ on minibatches.

    data: whose data is it.
    model: what is trained; a Model, or any function that returns a torch module from images to logits.
    steps: I, the local steps of a participant in a round.
    batch_size: of a minibatch, drawn with replacement from the device's samples, so that every
        stochastic gradient is unbiased given the past, as the theorem wants it.
    step_size: γ.
    server_step_size: what the aggregated update is multiplied with; 1 in the paper.
    evaluate_every: on the whole test set after every so many rounds, and after the last.
    precision: of convolutions and matrix products; parameters and their updates are always float32.
    backend: what computes. "auto" is the native kernel where it can train this model here, else PyTorch.
    device: where torch computes. The same bits are promised on CPUs only.
    """

    data: Data
    model: Model | Callable[[], Any] = CNN()  # noqa: RUF009  (it is frozen)
    steps: int = 10
    batch_size: int = 32
    step_size: float = 0.01
    server_step_size: float = 1.0
    evaluate_every: int = 25
    precision: Precision = "float32"
    backend: BackendName = "auto"
    device: Literal["cpu", "cuda"] = "cpu"

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "evaluate_every"):
            checks.whole(name, getattr(self, name), least=1, most=10**6)
        for name in ("step_size", "server_step_size"):
            checks.number(name, getattr(self, name), above=0)
        checks.choice("precision", self.precision, ("float32", "bfloat16"))
        checks.choice("backend", self.backend, ("auto", "native", "pytorch"))
        checks.choice("device", self.device, ("cpu", "cuda"))
