"""The ClientApp's side: a decision in front of training. Needs flwr."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from logging import WARNING
from pathlib import Path

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.constant import ErrorCode
from flwr.supercore import log

from fadewise.errors import FadewiseError
from fadewise.flower.agent import DeviceAgent
from fadewise.flower.gains import Gain, gains_of_channel
from fadewise.flower.messages import KEY, Order, answered, order_of
from fadewise.policies import LocalPolicy
from fadewise.rounds import Experiment

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")

AgentOf = Callable[[Context, str], DeviceAgent]
"""The agent of the device that a context is of, for a run by its name."""


class Participation:
    """Lets a ClientApp's device decide whether it trains.

        app = ClientApp()
        participation = Participation(app, agent)

        @app.train(mods=[participation.mod])
        def train(message, context): ...        # as for FedAvg: the trained arrays go back

    It registers the query that asks for decisions; `mod` goes around the training. Training need not know
    of it: whoever does not take part is not called.
    """

    def __init__(self, app: ClientApp, agent: AgentOf) -> None:
        self._agent = agent
        app.query("decide")(self._decide)

    def _decide(self, message: Message, context: Context) -> Message:
        try:
            order = order_of(message)
            answer = self._agent_of(context, order).decide(order.round, order.audited)
        except FadewiseError as error:
            return _complaint(error, message)
        return Message(RecordDict({KEY: answered(answer)}), reply_to=message)

    def mod(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Trains where the device takes part or is asked, and answers without an update where it does not."""
        began = time.monotonic()
        record = ConfigRecord()
        try:
            order = order_of(message)
            agent = self._agent_of(context, order)
            if order.broadcast:
                answer = agent.decide(order.round, order.audited)
                record = answered(answer)
                if not answer.takes_part:
                    return Message(RecordDict({KEY: record}), reply_to=message)
            agent.join(order.round, order.asked)
        except FadewiseError as error:
            return _complaint(error, message)
        reply = call_next(message, context)
        record["busy_s"] = time.monotonic() - began
        if reply.has_content():
            reply.content[KEY] = record
        return reply

    def _agent_of(self, context: Context, order: Order) -> DeviceAgent:
        agent = self._agent(context, order.run)
        if order.upload_s > 0:
            agent.uploaded(order.upload_round, order.upload_s)
        return agent


def _complaint(error: FadewiseError, message: Message) -> Message:
    """What is wrong, as the answer: a sentence in the logs of node and server, where Flower would have a traceback."""
    log(WARNING, "%s", error)
    return Message(Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=str(error)), reply_to=message)


def agent_of(context: Context, run: str, experiment: Experiment, gain: Gain | None = None) -> DeviceAgent:
    """The agent of a node that was started with `--node-config 'device=3 state="/var/lib/fadewise"'`.

    gain: its channel; without one, that of the experiment's channel model, as the simulator has it.
    """
    policy = experiment.policy
    if not isinstance(policy, LocalPolicy):
        raise FadewiseError(f"policy {policy.kind} sees every device's channel; on devices it must be a local one")
    device = device_of(context, experiment.devices)
    return DeviceAgent(
        policy,
        device,
        experiment.seed,
        gain or gains_of_channel(experiment.channel, device, experiment.seed),
        state_of(context) / f"{run_name(run)}-{device}.npz",
    )


def device_of(context: Context, devices: int) -> int:
    """The number by which the population knows the device of a node, from the node's configuration."""
    device = context.node_config.get("device")
    if not isinstance(device, int) or isinstance(device, bool) or not 0 <= device < devices:
        raise FadewiseError(
            f"the node's device is {device!r}; start it with --node-config 'device=…', a whole number "
            f"from 0 to {devices - 1} that is this device's alone"
        )
    return device


def state_of(context: Context) -> Path:
    """The folder in which a node's device keeps its backlog."""
    folder = context.node_config.get("state")
    if not isinstance(folder, str) or not folder:
        raise FadewiseError("the node has no folder for its backlog; start it with --node-config 'state=\"…\"'")
    return Path(folder)


def run_name(run: str) -> str:
    """The name of a run, refused where it is none for a file."""
    if not _NAME.fullmatch(run):
        raise FadewiseError(f"the run's name is {run!r}; it must be letters, digits, dots and dashes, at most 64")
    return run
