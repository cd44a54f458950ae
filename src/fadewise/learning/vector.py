"""A torch module as one flat vector: what devices receive, train and send."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fadewise.errors import FadewiseError


class FlatModule:
    """A module whose parameters and floating-point buffers lie one after the other in one vector.

    Buffers (the running means of batch normalisation, say) are averaged over devices as parameters are.
    """

    def __init__(self, network: nn.Module, device: str) -> None:
        self.network = network.to(device)
        self.parameters: list[Tensor] = [p for p in network.parameters() if p.requires_grad]
        fixed = [p for p in network.parameters() if not p.requires_grad]
        buffers = [b for b in network.buffers() if b.is_floating_point()]
        held = [*self.parameters, *buffers]
        if not self.parameters:
            raise FadewiseError("the model has no parameters to train; it must have at least one")
        for tensor in [*held, *fixed]:
            if tensor.dtype != torch.float32:
                raise FadewiseError(f"the model has parameters of {tensor.dtype}; they must be torch.float32")
        self.vector = torch.cat([tensor.detach().reshape(-1) for tensor in held])
        first = 0
        for tensor in held:
            tensor.data = self.vector[first : first + tensor.numel()].view(tensor.shape)
            first += tensor.numel()
        self.payload_parameters = sum(p.numel() for p in self.parameters)

    def load(self, vector: Tensor) -> None:
        """Gives the module these values."""
        self.vector.copy_(vector)


def built(factory: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A module whose fresh parameters depend on the seed alone, whatever else has drawn numbers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = factory()
    if not isinstance(network, nn.Module):
        raise FadewiseError(f"the model factory returned a {type(network).__name__}; it must return a torch.nn.Module")
    return network
