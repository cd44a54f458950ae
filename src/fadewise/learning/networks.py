"""The networks behind `models`, in torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from fadewise.learning.models import CNN, Shape


class PaperCNN(nn.Module):
    """conv k×k, ReLU, maxpool 2 [LRN], conv k×k, ReLU [LRN], maxpool 2, dense, ReLU, dense.

    Max-pooling and ReLU commute; pooling first leaves ReLU a quarter of the work.
    """

    def __init__(self, model: CNN, image_shape: Shape, classes: int) -> None:
        super().__init__()
        height, width, channels = image_shape
        self.conv1 = nn.Conv2d(channels, model.first_maps, model.kernel, padding="same")
        self.conv2 = nn.Conv2d(model.first_maps, model.second_maps, model.kernel, padding="same")
        self.dense1 = nn.Linear(model.second_maps * (height // 4) * (width // 4), model.hidden)
        self.dense2 = nn.Linear(model.hidden, classes)
        self.normalisation = model.normalisation
        if model.initialisation == "original":
            for layer in (self.conv1, self.conv2, self.dense1, self.dense2):
                # TensorFlow's truncated normal redraws beyond two deviations.
                nn.init.trunc_normal_(layer.weight, std=0.1, a=-0.2, b=0.2)
                assert layer.bias is not None
                nn.init.constant_(layer.bias, 0.1)

    def forward(self, images: Tensor) -> Tensor:
        x = functional.relu(functional.max_pool2d(self.conv1(images), 2))
        if self.normalisation:
            x = self.conv2(_normalised(x))
            x = functional.max_pool2d(_normalised(functional.relu(x)), 2)
        else:
            x = functional.relu(functional.max_pool2d(self.conv2(x), 2))
        hidden = functional.relu(self.dense1(x.flatten(1)))
        logits: Tensor = self.dense2(hidden)
        return logits


def _normalised(x: Tensor) -> Tensor:
    """Local response normalisation over 9 maps: α = 0.001/9 a map (torch divides by 9 itself), β = 0.75."""
    return functional.local_response_norm(x, size=9, alpha=0.001, beta=0.75, k=1.0)


def mlp(hidden: int, image_shape: Shape, classes: int) -> nn.Module:
    """Dense, ReLU, dense."""
    height, width, channels = image_shape
    return nn.Sequential(
        nn.Flatten(), nn.Linear(height * width * channels, hidden), nn.ReLU(), nn.Linear(hidden, classes)
    )


def logistic(image_shape: Shape, classes: int) -> nn.Module:
    """One dense layer, from zero: the problem is convex."""
    height, width, channels = image_shape
    layer = nn.Linear(height * width * channels, classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.Flatten(), layer)
