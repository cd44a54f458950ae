"""pfl-research: its SimulatedBackend, FederatedAveraging and PyTorchModel, in one process or more.

The processes share a cohort between them and find one another by PFL_WORKER_ADDRESSES, as pfl documents it. Where
there are several, each has one intra-op thread in both manners: so starts them torchrun, the other documented way.
"""

from __future__ import annotations

import os

from protocol import Pacer, options

OPTIONS = options(__doc__, workers=2)
FIRST = int(os.environ.get("PFL_WORKER_RANK", "0")) == 0

import socket  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402


def start_others() -> None:
    """Starts the other processes, and has this one find them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["PFL_WORKER_ADDRESSES"] = ",".join(f"127.0.0.1:{port + rank}" for rank in range(OPTIONS.workers))
    for rank in range(1, OPTIONS.workers):
        environment = os.environ | {"PFL_WORKER_RANK": str(rank)}
        subprocess.Popen([sys.executable, *sys.argv], stdin=subprocess.DEVNULL, env=environment)
    os.environ["PFL_WORKER_RANK"] = "0"


if OPTIONS.workers > 1 and "PFL_WORKER_RANK" not in os.environ:
    start_others()  # before pfl is imported, which waits for them

import dataclasses  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from common import BATCH, LEARNING_RATE, SEED, STEPS, network, samples  # noqa: E402
from pfl.aggregate.simulate import SimulatedBackend  # noqa: E402
from pfl.algorithm.base import NNAlgorithmParams  # noqa: E402
from pfl.algorithm.federated_averaging import FederatedAveraging  # noqa: E402
from pfl.callback.base import TrainingProcessCallback  # noqa: E402
from pfl.data.dataset import Dataset  # noqa: E402
from pfl.data.federated_dataset import FederatedDataset  # noqa: E402
from pfl.data.sampling import get_user_sampler  # noqa: E402
from pfl.hyperparam import NNTrainHyperParams  # noqa: E402
from pfl.metrics import Metrics  # noqa: E402
from pfl.model.pytorch import PyTorchModel  # noqa: E402
from torch import Tensor, nn  # noqa: E402


class Classifier(nn.Module):
    """The network with what pfl wants of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = network(OPTIONS.shape, tuned=OPTIONS.tuned)
        self.criterion = nn.CrossEntropyLoss()

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        self.train()
        return self.criterion(self.layers(images), labels)

    def metrics(self, images: Tensor, labels: Tensor) -> dict[str, Any]:  # noqa: ARG002
        return {}


class WithoutEvaluation(FederatedAveraging):
    """pfl evaluates in the first round whatever the frequency asked for."""

    def get_next_central_contexts(self, *arguments: Any, **named: Any) -> Any:
        contexts, model, metrics = super().get_next_central_contexts(*arguments, **named)
        if contexts is not None:
            contexts = tuple(dataclasses.replace(context, do_evaluation=False) for context in contexts)
        return contexts, model, metrics


class Paced(TrainingProcessCallback):
    """Holds back every process until another round is asked of the first."""

    def __init__(self) -> None:
        self.pacer = Pacer(OPTIONS.rounds) if FIRST else None

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:  # noqa: ARG002
        if self.pacer:
            self.pacer.start()
        return Metrics()

    def after_central_iteration(
        self,
        aggregate_metrics: Metrics,  # noqa: ARG002
        model: PyTorchModel,  # noqa: ARG002
        *,
        central_iteration: int,  # noqa: ARG002
    ) -> tuple[bool, Metrics]:
        more = torch.tensor(self.pacer.another() if self.pacer else False)
        if OPTIONS.workers > 1:
            torch.distributed.broadcast(more, src=0)
        return not more, Metrics()


def main() -> None:
    shape = OPTIONS.shape
    np.random.seed(SEED)  # noqa: NPY002  pfl draws from it, and asks for the same seed in every process
    torch.manual_seed(SEED)
    paced = Paced()
    pool = samples(shape, tuned=OPTIONS.tuned)

    def drawn(device: int) -> Dataset:
        own = pool[device]
        return Dataset(own.take(torch.randint(len(own), (STEPS * BATCH,))), user_id=str(device))

    model = Classifier()
    devices = FederatedDataset(drawn, get_user_sampler("minimize_reuse", range(shape.devices)))
    WithoutEvaluation().run(
        NNAlgorithmParams(
            central_num_iterations=OPTIONS.rounds,
            evaluation_frequency=OPTIONS.rounds,
            train_cohort_size=shape.participants,
            val_cohort_size=None,
        ),
        SimulatedBackend(training_data=devices, val_data=None),
        PyTorchModel(model, torch.optim.SGD, torch.optim.SGD(model.parameters(), lr=1.0)),
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=LEARNING_RATE, local_batch_size=BATCH),
        callbacks=[paced],
        send_metrics_to_platform=False,
    )


if __name__ == "__main__":
    main()
