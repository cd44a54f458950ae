"""BlazeFL: its FedAvg on a pool of threads, on a Python without a global lock, as it recommends.

As its own examples have it: the server draws, trainer and server exchange packages, and the trainer makes a network
for each participant. As many threads as cores; as is, PyTorch's operations in each of them use all cores.

PYTHON_GIL=0 is set in both manners, as in BlazeFL's own benchmark: the first optimizer that PyTorch makes imports
triton, of no use here, which comes with the build with CUDA and brings the lock back otherwise.

Tuned, its inputs are channels-last but not the network: BlazeFL flattens parameters by `view`, which PyTorch
refuses for parameters laid out so. PyTorch's convolutions then follow the inputs.
"""

from __future__ import annotations

from protocol import Pacer, options

OPTIONS = options(__doc__, workers=2, environment={"PYTHON_GIL": "0"})

import sys  # noqa: E402
from collections.abc import Iterable  # noqa: E402
from concurrent.futures import Future  # noqa: E402

import torch  # noqa: E402
from blazefl.contrib import (  # noqa: E402
    FedAvgBaseServerHandler,
    FedAvgPartitionType,
    FedAvgThreadPoolClientTrainer,
    FedAvgUplinkPackage,
)
from blazefl.reproducibility import setup_reproducibility  # noqa: E402
from common import BATCH, LEARNING_RATE, SEED, Device, Loader, network, samples  # noqa: E402
from torch import nn  # noqa: E402

Packages = list[Future[FedAvgUplinkPackage]]


class Models:
    """What BlazeFL asks for a network."""

    def select_model(self, model_name: str) -> nn.Module:  # noqa: ARG002
        return network(OPTIONS.shape, tuned=False)


class Federation:
    """What BlazeFL asks for samples."""

    def __init__(self) -> None:
        self._samples = samples(OPTIONS.shape, tuned=OPTIONS.tuned)

    def get_dataset(self, type_: FedAvgPartitionType, cid: int) -> Device:  # noqa: ARG002
        return self._samples[cid]

    def get_dataloader(
        self,
        type_: FedAvgPartitionType,  # noqa: ARG002
        cid: int,
        batch_size: int,  # noqa: ARG002
        generator: torch.Generator,
    ) -> Loader:
        return Loader(self._samples[cid], generator)


class Trainer(FedAvgThreadPoolClientTrainer):
    """Without its progress bar."""

    def progress_fn(self, it: Packages) -> Iterable[Future[FedAvgUplinkPackage]]:
        return it


def main() -> None:
    pacer = Pacer(OPTIONS.rounds)
    shape = OPTIONS.shape
    setup_reproducibility(SEED)
    torch.manual_seed(SEED)
    federation = Federation()
    server = FedAvgBaseServerHandler(
        model_selector=Models(),
        model_name="paper",
        dataset=federation,
        global_round=OPTIONS.rounds,
        num_clients=shape.devices,
        sample_ratio=(shape.participants + 0.5) / shape.devices,  # rounded down by BlazeFL
        device="cpu",
        batch_size=BATCH,
        seed=SEED,
    )
    trainer = Trainer(
        model_selector=Models(),
        model_name="paper",
        dataset=federation,
        device="cpu",
        num_clients=shape.devices,
        epochs=1,
        batch_size=BATCH,
        lr=LEARNING_RATE,
        seed=SEED,
        num_parallels=OPTIONS.workers,
    )

    assert not sys._is_gil_enabled()
    pacer.start()
    more = True
    while more:
        participants = server.sample_clients()
        assert len(participants) == shape.participants
        trainer.local_process(server.downlink_package(), participants)
        for package in trainer.uplink_package():
            server.load(package)
        more = pacer.another()


if __name__ == "__main__":
    main()
