"""FedLab: its FedAvg in processes, a server and two with a serial trainer of half the devices each.

That is its way to use several cores. Each process has one intra-op thread in both manners, and as many participants
are drawn from one trainer's devices as from the other's, so that they finish together; FedLab's own draw is over
all devices, and one trainer would wait for the other.

Tuned, its inputs are channels-last but not the network: FedLab flattens parameters by `view`, which PyTorch refuses
for parameters laid out so. PyTorch's convolutions then follow the inputs.
"""

from __future__ import annotations

import os

from protocol import Pacer, options

OPTIONS = options(__doc__, workers=2, environment={"OMP_NUM_THREADS": "1"})
RANK, PORT = (int(os.environ.get(name, "0")) for name in ("FEDLAB_RANK", "FEDLAB_PORT"))

import logging  # noqa: E402
import random  # noqa: E402
import socket  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from unittest import mock  # noqa: E402

import torch  # noqa: E402
from common import BATCH, LEARNING_RATE, SEED, Loader, network, samples  # noqa: E402

# FedLab imports torchvision for data sets that are not used here; its build would have to be of PyTorch's kind.
sys.modules["torchvision"] = mock.MagicMock()

from fedlab.contrib.algorithm.fedavg import FedAvgSerialClientTrainer, FedAvgServerHandler  # noqa: E402
from fedlab.core.client import PassiveClientManager  # noqa: E402
from fedlab.core.network import DistNetwork  # noqa: E402
from fedlab.core.server import SynchronousServerManager  # noqa: E402

SHAPE = OPTIONS.shape


def devices_of(worker: int) -> range:
    """The devices whose trainer is in that process."""
    return range(SHAPE.devices * worker // OPTIONS.workers, SHAPE.devices * (worker + 1) // OPTIONS.workers)


class Federation:
    """What FedLab asks for samples; devices are known by their place among those of a trainer."""

    def __init__(self, devices: range) -> None:
        self._devices = devices
        self._samples = samples(SHAPE, tuned=OPTIONS.tuned)

    def get_dataloader(self, device: int, batch_size: int) -> Loader:  # noqa: ARG002
        return Loader(self._samples[self._devices[device]])


class Handler(FedAvgServerHandler):
    """FedAvg's, held back until another round is asked for."""

    pacer: Pacer

    @property
    def num_clients_per_round(self) -> int:
        return SHAPE.participants

    def sample_clients(self) -> list[int]:
        each = SHAPE.participants // OPTIONS.workers
        return [device for n in range(OPTIONS.workers) for device in random.sample(devices_of(n), each)]

    def global_update(self, buffer: list[list[torch.Tensor]]) -> None:
        super().global_update(buffer)
        if not self.pacer.another():
            self.global_round = self.round + 1  # this one is the last


class Manager(SynchronousServerManager):
    """Says when the first round starts."""

    def main_loop(self) -> None:
        self._handler.pacer.start()
        super().main_loop()


def serve() -> None:
    pacer = Pacer(OPTIONS.rounds)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for rank in range(1, OPTIONS.workers + 1):
        environment = os.environ | {"FEDLAB_RANK": str(rank), "FEDLAB_PORT": str(port)}
        subprocess.Popen([sys.executable, *sys.argv], stdin=subprocess.DEVNULL, env=environment)
    torch.manual_seed(SEED)
    handler = Handler(network(SHAPE, tuned=False), global_round=OPTIONS.rounds, sample_ratio=1.0)
    handler.pacer = pacer
    server = Manager(DistNetwork(("127.0.0.1", str(port)), OPTIONS.workers + 1, 0), handler)
    logging.disable(logging.INFO)
    server.run()


def work() -> None:
    torch.manual_seed(SEED + RANK)
    devices = devices_of(RANK - 1)
    trainer = FedAvgSerialClientTrainer(network(SHAPE, tuned=False), len(devices))
    trainer.setup_dataset(Federation(devices))
    trainer.setup_optim(epochs=1, batch_size=BATCH, lr=LEARNING_RATE)
    client = PassiveClientManager(DistNetwork(("127.0.0.1", str(PORT)), OPTIONS.workers + 1, RANK), trainer)
    logging.disable(logging.INFO)
    client.run()


if __name__ == "__main__":
    work() if RANK else serve()
