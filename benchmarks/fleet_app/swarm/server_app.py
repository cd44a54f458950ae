"""The server of the fleet, under one strategy or the other."""

import json
import resource
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fadewise.flower import Rules
from fadewise.flower.strategy import Scheduled
from swarm import PARTICIPANTS, experiment

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    nodes, rounds, numbers = int(config["nodes"]), int(config["rounds"]), int(config["numbers"])
    arrays = ArrayRecord({"model": Array(np.zeros(numbers, np.float32))})
    while len(list(grid.get_node_ids())) < nodes:
        time.sleep(0.5)
    if config["strategy"] == "scheduled":
        report = scheduled(grid, arrays, nodes, rounds, int(config["exchanges"]))
    else:
        sampled = nodes if config["strategy"] == "fedavg-all" else min(int(PARTICIPANTS), nodes)
        report = fedavg(grid, arrays, nodes, rounds, sampled)
    report["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    fresh = Path(str(config["report"]) + ".fresh")
    fresh.write_text(json.dumps(report))
    fresh.replace(str(config["report"]))


def scheduled(grid: Grid, arrays: ArrayRecord, nodes: int, rounds: int, exchanges: int) -> dict[str, Any]:
    numbers = arrays["model"].numpy().size
    with tempfile.TemporaryDirectory() as folder:
        strategy = Scheduled(Rules.of(experiment(nodes, numbers)), folder, "fleet", exchanges=exchanges, decide_s=600.0)
        strategy.start(grid, arrays, rounds)
        timing, records = (
            [json.loads(line) for line in (Path(folder) / name).read_text().splitlines()]
            for name in ("timing.jsonl", "rounds.jsonl")
        )
    report = {name: [line[name] for line in timing] for name in ("wall_s", "decide_s", "train_s")}
    return report | {"participants": [len(record["delivered"]) for record in records]}


def fedavg(grid: Grid, arrays: ArrayRecord, nodes: int, rounds: int, sampled: int) -> dict[str, Any]:
    strategy = FedAvg(
        fraction_train=sampled / nodes, fraction_evaluate=0.0, min_train_nodes=sampled, min_available_nodes=nodes
    )
    began = [time.monotonic()]
    patient = Patient(grid)
    strategy.start(
        patient,
        arrays,
        rounds,
        evaluate_fn=lambda *_: began.append(time.monotonic()),
    )
    walls = np.diff(began[1:]).tolist()
    return {"wall_s": walls, "decide_s": [0.0] * rounds, "train_s": walls, "participants": [sampled] * rounds}


class Patient(Grid):
    """A grid that looks for replies as often as `Scheduled` does: Flower's own wait looks every three seconds."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def set_run(self, run: Any) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        return self._grid.run

    def create_message(self, *words: Any, **more: Any) -> Message:
        return self._grid.create_message(*words, **more)

    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:  # noqa: ARG002
        sent = list(messages)
        waiting = set(self._grid.push_messages(sent)) if sent else set()
        replies: list[Message] = []
        while waiting:
            for reply in self._grid.pull_messages(waiting):
                waiting.discard(reply.metadata.reply_to_message_id)
                replies.append(reply)
            if waiting:
                time.sleep(0.2)
        return replies
