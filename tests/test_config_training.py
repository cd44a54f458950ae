"""The tables data, model and training: what they make, and the sentence where they cannot."""

from __future__ import annotations

from typing import Any

import pytest

from fadewise import config
from fadewise.data import CIFAR10, Dirichlet, Handwriting, Writers
from fadewise.errors import FadewiseError
from fadewise.learning.models import CNN, MLP
from tests.test_config import NETWORK, sentence, without

TRAINED: dict[str, Any] = NETWORK | {"data": {"kind": "handwriting"}, "training": {"steps": 3}}


def test_tables_become_what_they_name() -> None:
    settings = NETWORK | {
        "data": {"kind": "cifar10", "partition": {"kind": "dirichlet", "alpha": 0.1}},
        "model": {"kind": "mlp", "hidden": 9},
        "training": {"step_size": 0.5, "precision": "bfloat16"},
    }
    training = config.experiment(settings, "net.toml").training
    assert training is not None
    assert training.data == CIFAR10(Dirichlet(0.1))
    assert training.model == MLP(9)
    assert (training.step_size, training.precision, training.steps) == (0.5, "bfloat16", 10)


def test_only_data_are_needed_to_train_and_without_them_there_is_a_schedule() -> None:
    training = config.experiment(NETWORK | {"data": {"kind": "handwriting"}}, "net.toml").training
    assert training is not None
    assert (training.data, training.model) == (Handwriting(), CNN())
    assert config.experiment(NETWORK, "net.toml").training is None


def test_the_presets_train_the_papers_model_on_the_papers_data() -> None:
    for name in config.preset_names():
        if not name.startswith("paper/"):
            continue
        training = config.load(name).training
        assert training is not None
        assert training.model == CNN()
        assert (training.steps, training.batch_size, training.step_size) == (10, 32, 0.01)
        datasets = {"cifar10": CIFAR10(), "femnist": Writers(), "mnist-by-writer": Writers(dataset="mnist-by-writer")}
        assert (
            training.data
            == datasets[name.split("/")[1].rpartition("-het")[0] or name.split("/")[1].rpartition("-hom")[0]]
        )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"data.kind": "cifar"},
            "data.kind is 'cifar'; it must be one of cifar10, handwriting, leaf, writers",
        ),
        (
            {"data.sed": 1},
            "data.sed is not a setting of data handwriting; did you mean seed? allowed: ",
        ),
        ({"data.samples_per_writer": 2.0}, "data.samples_per_writer is 2.0; it must be a number at least 8"),
        (
            {"data.kind": "leaf", "data.partition": {"kind": "random"}},
            "data.partition.kind is 'random'; it must",
        ),
        ({"data.kind": "leaf", "data.partition": {"kind": "dirichlet", "alpha": 0}}, "data.partition.alpha is 0"),
        ({"model.kind": "resnet"}, "model.kind is 'resnet'; it must be one of cnn, logistic, mlp"),
        ({"model": {"kind": "cnn", "hidden": 1.5}}, "model.hidden is 1.5; it must be a whole number"),
        ({"training.batchsize": 3}, "training.batchsize is not a setting of training; did you mean batch_size?"),
        ({"training.steps": 0}, "training.steps is 0; it must be a whole number at least 1"),
        ({"training.step_size": "big"}, "training.step_size is 'big'; it must be a number"),
        ({"training.precision": "float16"}, "training.precision is 'float16'; it must be one of float32, bfloat16"),
    ],
)
def test_a_wrong_setting_gets_one_sentence(changes: dict[str, Any], said: str) -> None:
    assert sentence(changes, TRAINED).startswith(f"net.toml: {said}")


@pytest.mark.parametrize("table", ["model", "training"])
def test_a_model_without_data_is_refused(table: str) -> None:
    settings = without(TRAINED, "data")
    settings = without(settings, "training") | {table: {"kind": "cnn"} if table == "model" else {}}
    with pytest.raises(FadewiseError, match=f"{table} is given, but data is missing"):
        config.experiment(settings, "net.toml")
