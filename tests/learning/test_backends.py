"""Which backend computes, and that it makes no difference beyond rounding."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import fadewise as fw
from fadewise.data import Arrays
from fadewise.errors import FadewiseError
from fadewise.learning import backends
from fadewise.learning.models import CNN, Logistic
from fadewise.learning.native import library
from fadewise.learning.training import Training
from fadewise.simulation.engine import Simulation
from fadewise.simulation.ranks import Ranks
from tests.learning.federations import arrays

needs_native = pytest.mark.skipif(not library.targets(), reason="this installation has no native kernel")


def training(model: Any = None, shape: tuple[int, int, int] = (8, 8, 3), **settings: Any) -> Training:
    small = CNN(first_maps=5, second_maps=7, hidden=12)
    return Training(arrays(shape=shape), small if model is None else model, steps=3, batch_size=6, **settings)


def choice(training: Training) -> backends.Choice:
    return backends.choose(training, training.data.federation(12, 0))


@needs_native
def test_auto_is_the_native_kernel_with_the_fastest_instructions() -> None:
    chosen = choice(training())
    assert chosen.target == library.targets()[0]
    assert chosen.sentence == f"computing with the native kernel ({chosen.target})"
    assert choice(training(backend="native")) == chosen


def test_pytorch_where_it_is_asked_for() -> None:
    assert choice(training(backend="pytorch")).target is None


def own_network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 4))


WHY_NOT: dict[str, dict[str, Any]] = {
    "the model is not a cnn": {"model": Logistic()},
    "the model is not a cnn ": {"model": own_network},
    "model.normalisation is true": {"model": CNN(normalisation=True)},
    "model.kernel is 7, it does 3 and 5": {"model": CNN(kernel=7)},
    "images have 2 channels, it does 1 and 3": {"shape": (8, 8, 2)},
    "training.precision is 'bfloat16'": {"precision": "bfloat16"},
    "training.device is 'cuda'": {"device": "cuda"},
    "first_maps is 1025, it goes up to 1024": {"model": CNN(first_maps=1025)},
}


@pytest.mark.parametrize("why", WHY_NOT)
def test_pytorch_where_the_kernel_cannot(why: str) -> None:
    chosen = choice(training(**WHY_NOT[why]))
    assert chosen.target is None
    assert chosen.sentence.startswith(f"computing with PyTorch, not with the native kernel: {why.strip()}")
    with pytest.raises(FadewiseError, match=rf"^training.backend is 'native', but .* be used: {why.strip()}"):
        choice(training(backend="native", **WHY_NOT[why]))


def test_pytorch_beyond_the_largest_number_of_classes() -> None:
    many = dataclasses.replace(arrays(), classes=65537)
    chosen = choice(Training(many, CNN(first_maps=1, second_maps=1, hidden=1)))
    assert "classes is 65537, it goes up to 65536" in chosen.sentence


@needs_native
@pytest.mark.parametrize("name", backends._LARGEST)
def test_the_largest_sizes_are_the_kernels_own(name: str) -> None:
    field = {"first_maps": "maps1", "second_maps": "maps2", "batch_size": "batch"}.get(name, name)
    largest, step = backends._LARGEST[name], 4 if name in ("height", "width") else 1
    shape = library.Shape(4, 4, 1, 3, 1, 1, 1, 1, 1)
    library.Kernel(shape._replace(**{field: largest}), library.targets()[0])
    with pytest.raises(FadewiseError, match="beyond its family"):
        library.Kernel(shape._replace(**{field: largest + step}), library.targets()[0])


@needs_native
def test_images_may_be_views() -> None:
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 12, 3)).astype(np.uint8)
    trained = []
    for given in (images[:, :, ::-1], images[:, :, ::-1].copy()):
        data = Arrays(given, np.arange(60) % 4, owners=np.arange(60) % 5)
        train = Training(data, CNN(first_maps=5, second_maps=7, hidden=12), steps=3, batch_size=6, backend="native")
        policy = fw.Lyapunov(fw.Link(22e6, 1e5), 5, airtime_weight=100.0)
        simulation = Simulation(fw.Experiment(5, fw.Rayleigh(2.0), policy, rounds=2, training=train), Ranks())
        trained.append([(record.loss, record.accuracy) for record in simulation.rounds()])
    assert trained[0] == trained[1]


def test_no_library_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "kernel.so")
    library.library.cache_clear()
    try:
        assert "this installation has none" in choice(training()).sentence
        with pytest.raises(FadewiseError, match="this installation has none"):
            choice(training(backend="native"))
    finally:
        library.library.cache_clear()


@needs_native
@pytest.mark.parametrize("shape", [(8, 8, 3), (12, 4, 1)])
def test_both_backends_learn_the_same(shape: tuple[int, int, int]) -> None:
    curves = []
    for backend in ("native", "pytorch"):
        policy = fw.Lyapunov(fw.Link(22e6, 1e5), 12, airtime_weight=100.0)
        train = training(shape=shape, backend=backend, evaluate_every=1, step_size=0.05)
        experiment = fw.Experiment(12, fw.Rayleigh(2.0), policy, rounds=8, training=train)
        simulation = Simulation(experiment, Ranks())
        curves.append([(r.participants, r.loss, *r.update_norms, *r.losses) for r in simulation.rounds()])
    for native, pytorch in zip(*curves, strict=True):
        assert native[0] == pytorch[0]
        np.testing.assert_allclose(native[1:], pytorch[1:], rtol=1e-3)
