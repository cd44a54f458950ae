"""The devices of the tests. A file in a device's state folder makes it stop at a point until it is removed."""

import functools
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

import fadewise as fw
from fadewise.flower import DeviceAgent
from fadewise.flower.client import Participation, agent_of, device_of, state_of
from fadewise.flower.messages import order_of

if TYPE_CHECKING:
    from fadewise.learning.local import Learner


@functools.cache
def experiment_in(path: str) -> fw.Experiment:
    return fw.load(path)


def experiment_of(context: Context) -> fw.Experiment:
    # A node's own configuration goes first, so that one can be off.
    return experiment_in(str(context.node_config.get("experiment", context.run_config["experiment"])))


def agent(context: Context, run: str) -> DeviceAgent:
    held_at("decide", context)
    return agent_of(context, run, experiment_of(context))


def held_at(point: str, context: Context) -> None:
    """Stops while there is a file for this device and point; another says that it has come there."""
    hold = state_of(context) / f"hold-{point}-{context.node_config['device']}"
    while hold.exists():
        hold.with_name(f"held-{hold.name}").touch()
        time.sleep(0.02)


app = ClientApp()
participation = Participation(app, agent)


def held_after_joining(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    held_at("train", context)
    return call_next(message, context)


@app.train(mods=[participation.mod, held_after_joining])
def train(message: Message, context: Context) -> Message:
    model = message.content.array_records["arrays"]["model"].numpy()
    device = device_of(context, experiment_of(context).devices)
    number = order_of(message).round
    if experiment_of(context).training is not None:
        update, loss = learned(str(context.run_config["experiment"]), model, device, number)
    else:
        update, loss = told(len(model), device, number), 1.0
    arrays = ArrayRecord({"model": Array((model + update).astype(np.float32))})
    return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"train_loss": loss})}), reply_to=message)


def told(numbers: int, device: int, number: int) -> np.ndarray:
    """What a device adds in a round, told beforehand."""
    return np.sin(np.arange(numbers) * (device + 1) + number).astype(np.float32)


@functools.cache
def learner_in(path: str) -> "Learner":
    from fadewise.learning.local import Learner

    experiment = experiment_in(path)
    training = experiment.training
    assert training is not None
    return Learner(training, training.data.federation(experiment.devices, experiment.seed), experiment.seed)


one_at_a_time = threading.Lock()
"""The nodes of a process share its one Learner."""


def learned(path: str, model: np.ndarray, device: int, number: int) -> tuple[np.ndarray, float]:
    with one_at_a_time:
        outcome = learner_in(path).train(model, device, fw.Stream(experiment_in(path).seed, number))
        return outcome.update.copy(), outcome.loss
