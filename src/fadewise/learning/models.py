"""The models that a configuration can name; what they are made of is in `networks`, which needs torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from fadewise import checks
from fadewise.errors import FadewiseError
from fadewise.registry import exported

if TYPE_CHECKING:
    from torch import nn

Shape = tuple[int, int, int]
"""Height, width and channels of an image."""


@dataclass(frozen=True)
class Model(ABC):
    """A network by its settings: the fields are the keys of the `[model]` table."""

    kind: ClassVar[str]

    @abstractmethod
    def build(self, image_shape: Shape, classes: int) -> nn.Module:
        """The network with fresh parameters, drawn from torch's global generator; it maps images to logits."""


@dataclass(frozen=True)
class CNN(Model):
    """Two convolutions with max-pooling and two dense layers (Wang et al., JSAC 2019; McMahan; LEAF).

    The defaults are the paper's: 555,178 parameters for CIFAR-10, 444,062 for FEMNIST. McMahan's has
    64 maps in the second convolution and 512 units, LEAF's 2,048.

    normalisation: the original's local response normalisation, which is almost the identity.
    initialisation: PyTorch's default, or the original's (truncated normal weights of deviation 0.1 and
        biases of 0.1).
    """

    kind: ClassVar[str] = "cnn"
    first_maps: int = 32
    second_maps: int = 32
    kernel: int = 5
    hidden: int = 256
    normalisation: bool = False
    initialisation: Literal["pytorch", "original"] = "pytorch"

    def __post_init__(self) -> None:
        for name in ("first_maps", "second_maps", "kernel", "hidden"):
            checks.whole(name, getattr(self, name), least=1, most=65536)
        checks.choice("initialisation", self.initialisation, ("pytorch", "original"))

    def build(self, image_shape: Shape, classes: int) -> nn.Module:
        from fadewise.learning import networks

        height, width, _ = image_shape
        if height % 4 or width % 4:
            raise FadewiseError(
                f"the model cnn halves the image twice; images are {height} by {width}, sides must be divisible by 4"
            )
        return networks.PaperCNN(self, image_shape, classes)


@dataclass(frozen=True)
class MLP(Model):
    """One hidden layer. For quick tests."""

    kind: ClassVar[str] = "mlp"
    hidden: int = 64

    def __post_init__(self) -> None:
        checks.whole("hidden", self.hidden, least=1, most=10**6)

    def build(self, image_shape: Shape, classes: int) -> nn.Module:
        from fadewise.learning import networks

        return networks.mlp(self.hidden, image_shape, classes)


@dataclass(frozen=True)
class Logistic(Model):
    """Logistic regression on pixels: a convex problem. For quick tests and for what theory is about."""

    kind: ClassVar[str] = "logistic"

    def build(self, image_shape: Shape, classes: int) -> nn.Module:
        from fadewise.learning import networks

        return networks.logistic(image_shape, classes)


MODELS: dict[str, type[Model]] = exported(globals(), Model)
