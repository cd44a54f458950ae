from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import fadewise as fw
from fadewise.learning.models import CNN, MLP, Logistic, Model
from fadewise.learning.networks import PaperCNN

CIFAR, FEMNIST = (32, 32, 3), (28, 28, 1)


def parameters(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize(
    ("model", "shape", "classes", "count"),
    [
        (CNN(), CIFAR, 10, 555_178),
        (CNN(), FEMNIST, 62, 444_062),
        (CNN(normalisation=True, initialisation="original"), CIFAR, 10, 555_178),
        (CNN(second_maps=64, hidden=512), FEMNIST, 10, 1_663_370),  # McMahan's, as its paper counts it
        (CNN(second_maps=64, hidden=2048), FEMNIST, 62, 6_603_710),  # LEAF's
        (MLP(hidden=7), FEMNIST, 62, 784 * 7 + 7 + 7 * 62 + 62),
        (Logistic(), CIFAR, 10, 3072 * 10 + 10),
    ],
)
def test_models_have_as_many_parameters_as_their_papers_say(
    model: Model, shape: tuple[int, int, int], classes: int, count: int
) -> None:
    network = model.build(shape, classes)
    assert parameters(network) == count
    assert network(torch.zeros(2, shape[2], *shape[:2])).shape == (2, classes)


def as_printed(network: PaperCNN, images: torch.Tensor, normalise: bool) -> torch.Tensor:
    """The network in the order of its paper: ReLU before pooling, and normalisation written out."""

    def normalised(x: torch.Tensor) -> torch.Tensor:
        squares = functional.pad(x**2, (0, 0, 0, 0, 4, 4))
        windows = torch.stack([squares[:, i : i + x.shape[1]] for i in range(9)]).sum(0)
        return x / (1 + 0.001 / 9 * windows) ** 0.75 if normalise else x

    x = normalised(functional.max_pool2d(functional.relu(network.conv1(images)), 2))
    x = functional.max_pool2d(normalised(functional.relu(network.conv2(x))), 2)
    out: torch.Tensor = network.dense2(functional.relu(network.dense1(x.flatten(1))))
    return out


@pytest.mark.parametrize("normalise", [False, True])
def test_the_network_is_the_papers_whatever_order_pooling_and_relu_are_taken_in(normalise: bool) -> None:
    torch.manual_seed(0)
    network = CNN(normalisation=normalise).build(CIFAR, 10)
    assert isinstance(network, PaperCNN)
    images = 3 * torch.randn(4, 3, 32, 32)
    torch.testing.assert_close(network(images), as_printed(network, images, normalise))
    assert (network(images) - as_printed(network, images, not normalise)).abs().max() > 1e-6


def test_the_original_initialisation_is_truncated_normal_with_biases_of_a_tenth() -> None:
    torch.manual_seed(0)
    network = CNN(initialisation="original").build(CIFAR, 10)
    assert isinstance(network, PaperCNN)
    for layer in (network.conv1, network.conv2, network.dense1, network.dense2):
        weights = layer.weight.detach().numpy().ravel()
        assert abs(weights).max() <= 0.2
        # Cut at two deviations, a normal's deviation is 0.8796 of what it was.
        assert weights.std() == pytest.approx(0.08796, abs=4 * 0.088 / np.sqrt(2 * len(weights)))
        np.testing.assert_array_equal(layer.get_parameter("bias").detach().numpy(), np.float32(0.1))


def test_wrong_models_are_refused() -> None:
    with pytest.raises(fw.FadewiseError, match="images are 30 by 28, sides must be divisible by 4"):
        CNN().build((30, 28, 1), 10)
    with pytest.raises(fw.FadewiseError, match="hidden is 0; it must be a whole number at least 1"):
        CNN(hidden=0)
    with pytest.raises(fw.FadewiseError, match="initialisation is 'xavier'; it must be one of pytorch, original"):
        CNN(initialisation="xavier")  # type: ignore[arg-type]
