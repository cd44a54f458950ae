from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fadewise.data.base import Federation
from fadewise.errors import FadewiseError
from fadewise.learning.local import EVALUATED_AT_ONCE, Learner
from fadewise.learning.models import CNN, MLP, Logistic, Model
from fadewise.learning.training import Training
from fadewise.randomness import Stream
from tests.learning.federations import arrays

STREAM = Stream(5, 17)


def learner(model: Model | Callable[[], nn.Module], **settings: object) -> tuple[Learner, Federation, Training]:
    training = Training(arrays(), model, **settings)  # type: ignore[arg-type]
    federation = training.data.federation(12, 5)
    return Learner(training, federation, seed=5), federation, training


def plain_loop(model: Model, federation: Federation, device: int, steps: int, step_size: float) -> np.ndarray:
    """The same as people write it: an optimiser, images as PyTorch lays them out, float32."""
    torch.manual_seed(5)
    network = model.build(federation.image_shape, federation.classes)
    optimiser = torch.optim.SGD(network.parameters(), lr=step_size)
    start = nn.utils.parameters_to_vector(network.parameters()).detach().clone()
    shard = federation.shard(device)
    words = STREAM.uniforms_of(device, "minibatches", steps * 32).reshape(steps, 32)
    for row in words:
        rows = shard.rows[np.floor(row * len(shard.rows)).astype(int)]
        pixels = torch.tensor(shard.images[rows]).permute(0, 3, 1, 2).contiguous().float()
        images = (pixels - torch.tensor(federation.mean)) / torch.tensor(federation.deviation)
        optimiser.zero_grad()
        functional.cross_entropy(network(images), torch.tensor(shard.labels[rows]).long()).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return (nn.utils.parameters_to_vector(network.parameters()).detach() - start).numpy()


@pytest.mark.parametrize("model", [CNN(first_maps=8, second_maps=8, hidden=16), MLP(), Logistic()], ids=str)
@pytest.mark.parametrize("steps", [1, 10])
def test_local_steps_are_those_of_a_plain_loop(model: Model, steps: int) -> None:
    trained, federation, _ = learner(model, steps=steps, step_size=0.05)
    outcome = trained.train(trained.initial_model(), 3, STREAM)
    expected = plain_loop(model, federation, 3, steps, 0.05)
    scale = np.abs(expected).max()
    assert scale > 1e-4
    # An update is the difference of two float32 vectors of size 1 or less: an ulp of those is 6e-8 or so.
    np.testing.assert_allclose(outcome.update, expected, atol=steps * 2e-7 + 1e-5 * scale)
    assert outcome.update_norm == pytest.approx(float(np.linalg.norm(expected)), rel=1e-3)


def test_a_device_trains_to_the_same_bits_whoever_trained_before_it() -> None:
    alone, _, _ = learner(CNN(first_maps=8, second_maps=8, hidden=16))
    among, _, _ = learner(CNN(first_maps=8, second_maps=8, hidden=16))
    model = alone.initial_model()
    assert model.tobytes() == among.initial_model().tobytes()
    first = alone.train(model, 7, STREAM)
    for device in (0, 3, 11):
        among.train(model, device, STREAM)
    for _ in range(2):
        again = among.train(model, 7, STREAM)
        assert first.update.tobytes() == again.update.tobytes()
        assert (first.loss, first.update_norm) == (again.loss, again.update_norm)
        among.evaluate(model, 0, 1)


def test_minibatches_differ_between_seeds_rounds_and_devices() -> None:
    trained, _, _ = learner(Logistic(), steps=1)
    model = trained.initial_model()
    updates = [
        trained.train(model, device, stream).update.tobytes()
        for device, stream in [(3, Stream(5, 17)), (3, Stream(5, 18)), (3, Stream(6, 17)), (4, Stream(5, 17))]
    ]
    assert len(set(updates)) == 4


def test_the_minibatch_gradient_is_unbiased() -> None:
    """Over many rounds the mean one-step update is the step along the device's whole gradient."""
    trained, federation, _ = learner(Logistic(), steps=1, batch_size=4, step_size=1.0)
    model = trained.initial_model()
    updates = np.array([trained.train(model, 2, Stream(5, t)).update.copy() for t in range(3000)], np.float64)
    shard = federation.shard(2)
    pixels = torch.tensor(shard.images[shard.rows]).permute(0, 3, 1, 2).float()
    images = (pixels - torch.tensor(federation.mean)) / torch.tensor(federation.deviation)
    network = Logistic().build(federation.image_shape, federation.classes)
    functional.cross_entropy(network(images), torch.tensor(shard.labels[shard.rows]).long()).backward()  # type: ignore[no-untyped-call]
    gradient = torch.cat([p.grad.ravel() for p in network.parameters() if p.grad is not None]).numpy()
    # The samples span few directions; along each the mean's error is a standard normal, their squares a χ².
    errors = updates + gradient
    variances, directions = np.linalg.eigh(np.cov(errors.T) / len(errors))
    spanned = variances > 1e-6 * variances.max()
    squares = np.square(directions.T[spanned] @ errors.mean(axis=0)) / variances[spanned]
    freedom = len(squares)
    assert freedom > 10
    assert abs(squares.sum() - freedom) < 4 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_ranks_evaluate_the_whole_test_set_between_them(ranks: int) -> None:
    trained, federation, _ = learner(MLP())
    assert len(federation.test_labels) > 2 * EVALUATED_AT_ONCE
    model = trained.initial_model()
    (whole,) = [trained.evaluate(model, 0, 1)]
    parts = [trained.evaluate(model, rank, ranks) for rank in range(ranks)]
    assert sum(part.correct for part in parts) == whole.correct
    assert sum(part.loss_fixed for part in parts) == whole.loss_fixed
    assert whole.loss_fixed / 2**40 == pytest.approx(whole.loss, rel=1e-12)
    network = MLP().build(federation.image_shape, federation.classes)
    nn.utils.vector_to_parameters(torch.tensor(model), network.parameters())
    pixels = torch.tensor(federation.test_images).permute(0, 3, 1, 2).float()
    logits = network((pixels - torch.tensor(federation.mean)) / torch.tensor(federation.deviation))
    labels = torch.tensor(federation.test_labels).long()
    assert whole.correct == int((logits.argmax(1) == labels).sum())
    assert whole.loss == pytest.approx(float(functional.cross_entropy(logits, labels, reduction="sum").detach()), 1e-5)


def test_bfloat16_is_near_float32_and_its_updates_are_float32() -> None:
    exact, _, _ = learner(CNN(first_maps=8, second_maps=8, hidden=16))
    rough, _, _ = learner(CNN(first_maps=8, second_maps=8, hidden=16), precision="bfloat16")
    model = exact.initial_model()
    a, b = exact.train(model, 1, STREAM).update, rough.train(model, 1, STREAM).update
    assert b.dtype == np.float32
    assert 0 < np.linalg.norm(a - b) < 0.05 * np.linalg.norm(a)


class Own(nn.Module):
    """With dropout, batch normalisation and a frozen parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(64, 8)
        self.norm = nn.BatchNorm1d(8)
        self.out = nn.Linear(8, 4)
        self.scale = nn.Parameter(torch.tensor(2.0), requires_grad=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = functional.dropout(functional.relu(self.norm(self.dense(images.flatten(1)))), 0.5, self.training)
        out: torch.Tensor = self.out(hidden) * self.scale
        return out


def test_modules_with_dropout_and_batch_normalisation_train_to_the_same_bits() -> None:
    one, _, _ = learner(Own)
    two, _, _ = learner(Own)
    model = one.initial_model()
    held = 64 * 8 + 8 + 2 * 8 + 8 * 4 + 4
    assert one.parameters == held
    assert len(model) == held + 2 * 8, "running means and variances are averaged with the rest"
    a = one.train(model, 4, STREAM)
    two.train(model, 5, STREAM)
    torch.manual_seed(99)  # whatever else draws numbers in between
    before = torch.random.get_rng_state()
    b = two.train(model, 4, STREAM)
    assert a.update.tobytes() == b.update.tobytes()
    assert np.abs(a.update[held:]).min() > 0
    assert torch.equal(before, torch.random.get_rng_state()), "the program's own random numbers are left alone"


def test_wrong_models_of_ones_own_are_refused() -> None:
    with pytest.raises(FadewiseError, match=r"returned a str; it must return a torch\.nn\.Module"):
        learner(lambda: "network")  # type: ignore[arg-type,return-value]
    with pytest.raises(FadewiseError, match="no parameters to train"):
        learner(nn.Flatten)
    with pytest.raises(FadewiseError, match=r"parameters of torch\.float64; they must be torch\.float32"):
        learner(lambda: nn.Linear(3, 3).double())


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"steps": 0}, "steps is 0; it must be a whole number at least 1"),
        ({"batch_size": 1.5}, "batch_size is 1.5; it must be a whole number"),
        ({"step_size": 0.0}, "step_size is 0.0; it must be a number above 0"),
        ({"server_step_size": float("inf")}, "server_step_size is inf; it must be a finite number above 0"),
        ({"precision": "float16"}, "precision is 'float16'; it must be one of float32, bfloat16"),
        ({"device": "tpu"}, "device is 'tpu'; it must be one of cpu, cuda"),
    ],
)
def test_wrong_settings_are_refused(setting: dict[str, object], sentence: str) -> None:
    with pytest.raises(FadewiseError, match=sentence):
        Training(arrays(), **setting)  # type: ignore[arg-type]
