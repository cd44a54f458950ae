"""A device of the fleet: it adds a constant to the model."""

from functools import cache

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

import fadewise as fw
from fadewise.flower import DeviceAgent
from fadewise.flower.client import Participation, agent_of
from fadewise.flower.messages import KEY
from swarm import experiment

app = ClientApp()


@cache
def fleet_of(nodes: int, numbers: int) -> fw.Experiment:
    return experiment(nodes, numbers)


def agent(context: Context, run: str) -> DeviceAgent:
    config = context.run_config
    return agent_of(context, run, fleet_of(int(config["nodes"]), int(config["numbers"])))


participation = Participation(app, agent)


def scheduled_only(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """FedAvg's messages have no order: whoever gets one trains."""
    if KEY in message.content:
        return participation.mod(message, context, call_next)
    return call_next(message, context)


@app.train(mods=[scheduled_only])
def train(message: Message, context: Context) -> Message:  # noqa: ARG001
    model = message.content.array_records["arrays"]["model"].numpy()
    arrays = ArrayRecord({"model": Array((model + 1e-3).astype(np.float32))})
    metrics = MetricRecord({"num-examples": 1, "train_loss": 0.0})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
