"""Flower's simulation engine: FedAvg of its message API, the participants on Ray actors of one CPU each.

The apps are those of Flower's PyTorch quickstart; telemetry is off. Ray itself gives an actor of one CPU one
intra-op thread. Between rounds Flower goes on looking for messages to each of its nodes, which takes a good part
of a core where they are thousands: while a round is held back, so is that.
"""

from __future__ import annotations

from protocol import Pacer, options

OPTIONS = options(__doc__, workers=2)

import contextlib  # noqa: E402
import os  # noqa: E402
from collections.abc import Iterable  # noqa: E402

# Ray would end actors when memory runs short, for which contestants that wait for their turn are to blame.
os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_memory_monitor_refresh_ms": "0"}

import common  # noqa: E402
import torch  # noqa: E402
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.serverapp import Grid, ServerApp  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402

participant = ClientApp()
server = ServerApp()


class NoMoreRounds(Exception):
    """None is asked for."""


class Complete(FedAvg):
    """Flower goes on without participants that fail: a round without them would not be the work."""

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        came = list(replies)
        failed = [reply.error for reply in came if reply.has_error()]
        if failed or len(came) != OPTIONS.shape.participants:
            raise RuntimeError(f"{len(came)} of {OPTIONS.shape.participants} replied, with {failed[:1]}")
        return super().aggregate_train(server_round, came)


@participant.train()
def train(message: Message, context: Context) -> Message:
    model = common.network(OPTIONS.shape, tuned=OPTIONS.tuned)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    samples = common.samples(OPTIONS.shape, tuned=OPTIONS.tuned)
    common.train(model, common.Loader(samples[context.node_config["partition-id"]]))
    arrays = ArrayRecord(model.state_dict())
    metrics = MetricRecord({"num-examples": common.STEPS * common.BATCH})
    return Message(content=RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@server.main()
def serve(grid: Grid, context: Context) -> None:  # noqa: ARG001
    shape = OPTIONS.shape
    torch.manual_seed(common.SEED)
    model = common.network(shape, tuned=OPTIONS.tuned)
    pacer = Pacer(OPTIONS.rounds)

    def after_round(completed: int, arrays: ArrayRecord) -> None:  # noqa: ARG001
        if completed == 0:
            pacer.start()
            return
        with grid.state.lock:
            if not pacer.another():
                raise NoMoreRounds

    strategy = Complete(
        fraction_train=shape.participants / shape.devices,
        fraction_evaluate=0.0,
        min_train_nodes=shape.participants,
        min_available_nodes=shape.devices,
    )
    arrays = ArrayRecord(model.state_dict())
    strategy.start(grid, arrays, num_rounds=OPTIONS.rounds, timeout=3600, evaluate_fn=after_round)


def main() -> None:
    resources = {
        "init_args": {"num_cpus": OPTIONS.workers, "num_gpus": 0},
        "client_resources": {"num_cpus": 1, "num_gpus": 0},
    }
    with contextlib.suppress(NoMoreRounds):
        run_simulation(server, participant, OPTIONS.shape.devices, backend_config=resources)


if __name__ == "__main__":
    main()
