"""Ranks: processes that hold the same state, train different participants and add up what came of it."""

from __future__ import annotations

import datetime
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed

from fadewise.errors import FadewiseError
from fadewise.simulation.launch import under_torchrun

_PATIENCE = datetime.timedelta(hours=1)
"""How long a rank waits for the others, which may be reading a data set or evaluating."""

_LOOK_AGAIN_S = 0.2


class LostRank(FadewiseError):
    """Another rank has gone; why, it says itself."""

    def __init__(self) -> None:
        super().__init__("another rank of this run has ended; the same command goes on from the checkpoint")


class Ranks:
    """The ranks of torch's process group; this process alone where there is none, or where it is to be `alone`."""

    def __init__(self, *, alone: bool = False) -> None:
        grouped = not alone and distributed.is_available() and distributed.is_initialized()
        self.rank: int = distributed.get_rank() if grouped else 0
        self.size: int = distributed.get_world_size() if grouped else 1

    @property
    def first(self) -> bool:
        """Whether this rank is the one that writes and shows."""
        return self.rank == 0

    def add(self, numbers: NDArray[np.int64]) -> None:
        """Replaces the numbers by their sums over all ranks."""
        if self.size > 1:
            try:
                distributed.all_reduce(torch.from_numpy(numbers))
            except RuntimeError as error:
                raise LostRank from error

    def from_first(self, value: Any) -> Any:
        """What the first rank has given, on every rank."""
        if self.size == 1:
            return value
        values = [value]
        try:
            distributed.broadcast_object_list(values, src=0)
        except RuntimeError as error:
            raise LostRank from error
        return values[0]


class Counter:
    """Counts over all ranks of a group."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._store = distributed.distributed_c10d._get_default_store()

    def next(self) -> int:
        """0, 1, 2, …: no two ranks get the same."""
        return int(self._store.add(self._name, 1)) - 1

    def wait_for(self, number: int) -> None:
        """Until it has been counted so far, however long that takes."""
        while self._store.add(self._name, 0) < number:
            time.sleep(_LOOK_AGAIN_S)


def join(store: str | None = None, rank: int = 0, size: int = 1) -> Ranks:
    """Joins a group: through a file that all ranks share, or as torchrun's environment says."""
    if store is not None and size > 1:
        distributed.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=_PATIENCE
        )
    elif store is None and under_torchrun() and not distributed.is_initialized():
        distributed.init_process_group("gloo", timeout=_PATIENCE)
    return Ranks()


def leave() -> None:
    """Leaves the group, if there is one."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
