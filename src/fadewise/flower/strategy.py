"""The ServerApp's side: Algorithm 1 as a Flower strategy. Needs flwr.

FedAvg cannot do it: it normalises the weights over those who replied, and refuses replies without arrays.
Here x ← x + Σ (w/(π·ρ))·Δ, with weights over all enrolled devices, whoever replies.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from logging import INFO, WARNING
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result
from flwr.supercore import log
from flwr.supercore.exit import ExitCode, flwr_exit
from numpy.typing import NDArray

from fadewise import checks
from fadewise.errors import FadewiseError
from fadewise.flower.answers import Answer
from fadewise.flower.client import run_name
from fadewise.flower.messages import DECIDE, KEY, Layout, Order, answer_of, ordered
from fadewise.flower.rounds import Books, Closed, Delivery, Record, Round
from fadewise.flower.rules import Rules
from fadewise.simulation.folder import RunFolder

_POLL_S = 0.2
"""How often to look for replies. Flower's own wait looks every three seconds."""
_LOSS = "train_loss"
"""What Flower's templates call a participant's training loss in its metrics."""


@contextmanager
def plainly() -> Iterator[None]:
    """Around a ServerApp's main function: settings that cannot be end it with a sentence, not with a traceback."""
    try:
        yield
    except FadewiseError as error:
        flwr_exit(ExitCode.SERVERAPP_EXCEPTION, str(error))


class _Memory(NamedTuple):
    """All that the server remembers from one round to the next; a checkpoint is these arrays."""

    round: Any
    model: NDArray[np.float32]
    books: Books


class _Underway(NamedTuple):
    """What the round that is being played needs at its end."""

    grid: Grid
    arrays: ArrayRecord
    config: ConfigRecord
    number: int


class _Clock:
    """Where a round's time on the wall goes."""

    def __init__(self) -> None:
        self.seconds = {"decide_s": 0.0, "train_s": 0.0, "busy_s": 0.0}
        self.errors: dict[str, str] = {}
        self.began = time.monotonic()

    def line(self, number: int) -> str:
        """The round's line of `timing.jsonl`."""
        seconds = {"wall_s": time.monotonic() - self.began} | self.seconds
        table = {name: round(value, 3) for name, value in seconds.items()}
        return json.dumps({"round": number, **table, "errors": self.errors}, separators=(",", ":"))


class Scheduled(FedAvg):
    """Federated averaging in which each device decides for itself whether it takes part.

    rules: see `Rules`.
    folder: where the server keeps its books, as a run folder (docs/training.md): the records of the rounds,
        their time on the wall, and checkpoints. Started again with the same folder it goes on with the
        round that it was in.
    run: the training's name. Devices keep a backlog for each; another training needs another name.
    exchanges: 2 asks all for their decisions and then the participants for updates; 1 sends the model to
        all, and whoever decides to take part trains at once and answers with its update.
    decide_s: how long to wait for decisions, of which a round needs none in particular. How long to wait
        for updates is `timeout` of `start`. Whoever comes later is lost for the round.
    min_available_nodes: how many nodes must be connected for the training to begin, or to go on when it is
        started again. From then on a round begins with whoever is there.
    fraction_evaluate, and what else is given: as in FedAvg.
    """

    def __init__(
        self,
        rules: Rules,
        folder: str | Path,
        run: str,
        *,
        exchanges: int = 2,
        decide_s: float = 60.0,
        min_available_nodes: int = 1,
        fraction_evaluate: float = 0.0,
        **fedavg: Any,
    ) -> None:
        checks.whole("min_available_nodes", min_available_nodes, least=1)
        checks.number("fraction_evaluate", fraction_evaluate, least=0, most=1)
        super().__init__(min_available_nodes=min_available_nodes, fraction_evaluate=fraction_evaluate, **fedavg)
        self.rules = rules
        self.folder = Path(folder).absolute()
        self.run = run_name(run)
        self.exchanges = checks.whole("exchanges", exchanges, least=1, most=2)
        self.decide_s = checks.number("decide_s", decide_s, above=0)
        self._timeout_s = 3600.0
        self._awaited = 1
        self._books = Books.opened(rules)
        self._layout: Layout | None = None
        self._round: Round | None = None
        self._underway: _Underway | None = None
        self._closed: Closed | None = None
        self._nodes: dict[int, int] = {}
        self._uploads: dict[int, tuple[int, float]] = {}
        self._clock = _Clock()

    def summary(self) -> None:
        """Logs the settings."""
        log(INFO, "\t├──> Scheduled by %s: %d devices enrolled", self.rules.policy.kind, self.rules.devices)
        log(INFO, "\t├──> %d exchange%s a round", self.exchanges, "s" if self.exchanges > 1 else "")
        log(INFO, "\t└──> Books in %s", self.folder)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """As FedAvg's, from the round on that the folder has come to; `timeout` is for the updates of a round."""
        self._timeout_s = checks.number("timeout", timeout, above=0)
        self._awaited = self.min_available_nodes
        self._layout = layout = Layout(initial_arrays)
        result = Result()
        folder = RunFolder(self.folder)
        try:
            memory = self._begun(folder, layout, layout.vector(initial_arrays), num_rounds)
            self.summary()
            self._books = memory.books
            arrays = layout.arrays(memory.model)
            if evaluate_fn and not int(memory.round):
                _note(result.evaluate_metrics_serverapp, 0, evaluate_fn(0, arrays))
            for number in range(int(memory.round), num_rounds):
                self._clock = _Clock()
                messages = self.configure_train(number + 1, arrays, train_config or ConfigRecord(), grid)
                replies = self._exchange(grid, messages, self._timeout_s, "train_s")
                trained, metrics = self.aggregate_train(number + 1, replies)
                assert trained is not None
                assert self._closed is not None
                arrays, self._books = trained, self._closed.books
                _note(result.train_metrics_clientapp, number + 1, metrics)
                self._evaluated(grid, number + 1, arrays, evaluate_config or ConfigRecord(), evaluate_fn, result)
                record = self._closed.record._replace(metrics=_numbers(result, number + 1))
                folder.write_round(record.line(), self._clock.line(number))
                folder.save(_Memory(number + 1, layout.vector(arrays), self._books))  # type: ignore[arg-type]
            result.arrays = arrays
            return result
        finally:
            folder.close()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Asks for decisions, and says to whom the model goes; with one exchange it goes to all."""
        number = server_round - 1
        config["server-round"] = server_round
        self._underway = _Underway(grid, arrays, config, number)
        nodes = self._connected(grid)
        if self.exchanges == 1:
            self._round = None
            return [self._training(node, self._decision(node, number), arrays, config) for node in nodes]
        messages = [
            Message(RecordDict({KEY: ordered(self._decision(node, number))}), node, DECIDE, ttl=self.decide_s)
            for node in nodes
        ]
        answers = self._answers(self._exchange(grid, messages, self.decide_s, "decide_s"))
        self._round = self._drawn(number, answers)
        return self._to_participants(self._round)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """x ← x + Σ (w/(π·ρ))·Δ over those whose update has come."""
        underway, layout = self._underway, self._layout
        if underway is None or layout is None:
            raise FadewiseError("a round is aggregated before it was configured")
        replies = list(replies)
        if self._round is None:
            answers = self._answers(replies)
            self._round = self._drawn(underway.number, answers)
            if self._round.draw.fallback:
                asked = self._to_participants(self._round)
                replies = list(self._exchange(underway.grid, asked, self._timeout_s, "train_s"))
        model = layout.vector(underway.arrays)
        self._closed = self._round.close(len(model), self._deliveries(replies, model, layout))
        self._tell(self._closed.record)
        trained = (model + self._closed.change).astype(np.float32)
        return layout.arrays(trained), _metrics(self._closed.record)

    def _begun(self, folder: RunFolder, layout: Layout, model: NDArray[np.float32], rounds: int) -> _Memory:
        """The memory to go on from."""
        fresh = _Memory(0, model, Books.opened(self.rules))
        settings = {"run": self.run, "exchanges": self.exchanges, "rounds": rounds, "rules": self.rules.table()}
        settings["model"] = layout.table()
        folder.claim(settings)
        checkpoint, said = folder.last_checkpoint(fresh)  # type: ignore[arg-type]
        if checkpoint is None and said:
            # A simulation begins anew. Devices are further on by now: to all of them its rounds would be over.
            why = said[0].removesuffix("; falling back")
            raise FadewiseError(
                f"no checkpoint in {self.folder} can be read ({why}); restore one, or begin another run elsewhere"
            )
        said += folder.describe(settings, {"fadewise": _version(), "numpy": np.__version__})
        for sentence in said:
            log(WARNING, sentence)
        folder.go_on_from(checkpoint)
        if checkpoint is None:
            return fresh
        memory: _Memory = checkpoint.memory  # type: ignore[assignment]
        log(INFO, "Going on with round %d of %s", int(memory.round), self.run)
        return memory

    def _connected(self, grid: Grid) -> list[int]:
        """The nodes that are there, once there are enough of them."""
        said = -1
        while len(nodes := sorted(grid.get_node_ids())) < self._awaited:
            if len(nodes) != said:
                said = len(nodes)
                log(INFO, "waiting for nodes: %d connected, %d needed to begin", said, self._awaited)
            time.sleep(_POLL_S)
        self._awaited = 1
        return nodes

    def _decision(self, node: int, number: int) -> Order:
        """What tells a node to decide: and, where the model comes with it, to train if it takes part."""
        upload_round, upload_s = self._uploads.pop(node, (-1, -1.0))
        return Order(
            self.run,
            number,
            broadcast=self.exchanges == 1,
            audited=self.rules.audit,
            upload_round=upload_round,
            upload_s=upload_s,
        )

    def _training(self, node: int, order: Order, arrays: ArrayRecord, config: ConfigRecord) -> Message:
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config, KEY: ordered(order)})
        return Message(content, node, MessageType.TRAIN, ttl=self._timeout_s)

    def _answers(self, replies: Iterable[Message]) -> dict[int, Answer]:
        """Each node's answer."""
        answers: dict[int, Answer] = {}
        for reply in replies:
            node = reply.metadata.src_node_id
            try:
                answers[node] = answer_of(reply.content)
            except FadewiseError as error:
                self._complain(node, str(error))
        return answers

    def _drawn(self, number: int, answers: Mapping[int, Answer]) -> Round:
        """The round, from the nodes' answers on; a device that is believed is at the node that answered for it."""
        drawn = Round(self.rules, self._books, number, list(answers.values()))
        self._nodes = {answer.device: node for node, answer in answers.items() if answer.device in drawn.answers}
        return drawn

    def _to_participants(self, drawn: Round) -> list[Message]:
        underway = self._underway
        assert underway is not None
        asked = set(drawn.draw.asked.tolist())
        return [
            self._training(
                self._nodes[device],
                Order(self.run, drawn.number, asked=device in asked),
                underway.arrays,
                underway.config,
            )
            for device in drawn.draw.devices.tolist()
        ]

    def _exchange(self, grid: Grid, messages: Iterable[Message], deadline_s: float, clock: str) -> list[Message]:
        """Sends messages and returns the replies that come in time."""
        began = time.monotonic()
        sent = list(messages)
        ids = list(grid.push_messages(sent)) if sent else []
        if len(ids) != len(sent):
            raise FadewiseError(f"the SuperLink does not take {len(sent)} messages at once; Flower's log says why")
        waiting = {name: message.metadata.dst_node_id for name, message in zip(ids, sent, strict=True) if name}
        replies: list[Message] = []
        while waiting and time.monotonic() - began < deadline_s:
            for reply in grid.pull_messages(list(waiting)):
                node = waiting.pop(reply.metadata.reply_to_message_id)
                if self._arrived(node, reply, time.monotonic() - began):
                    replies.append(reply)
            if waiting:
                time.sleep(_POLL_S)
        self._clock.seconds[clock] += time.monotonic() - began
        return replies

    def _arrived(self, node: int, reply: Message, after_s: float) -> bool:
        """Whether a reply is one; notes how long it took, or what went wrong."""
        if reply.has_error():
            # What the SuperLink says of a node comes in the SuperLink's name.
            self._complain(node, reply.error.reason or "failed without a reason")
            return False
        busy_s = reply.content.config_records.get(KEY, ConfigRecord()).get("busy_s")
        if isinstance(busy_s, float) and 0 <= busy_s <= after_s and self._underway is not None:
            self._clock.seconds["busy_s"] = max(self._clock.seconds["busy_s"], busy_s)
            self._uploads[node] = (self._underway.number, max(after_s - busy_s, 1e-3))
        return True

    def _complain(self, node: int, reason: str) -> None:
        """Writes down what is wrong with a node; its device, if it has one, is not known."""
        self._clock.errors[str(node)] = reason
        log(WARNING, "node %d: %s", node, reason)

    def _deliveries(
        self, replies: Iterable[Message], model: NDArray[np.float32], layout: Layout
    ) -> dict[int, Delivery]:
        """The updates that came, by device: what training made of the model, less the model."""
        assert self._round is not None
        devices = {node: device for device, node in self._nodes.items()}
        participants = self._round.draw.devices
        deliveries: dict[int, Delivery] = {}
        for reply in replies:
            device = devices.get(reply.metadata.src_node_id)
            arrays = reply.content.array_records.get(self.arrayrecord_key)
            if device is None or (arrays is None and device not in participants):
                continue
            trained = layout.vector(arrays or ArrayRecord())
            update = trained - model if len(trained) else trained
            deliveries[device] = Delivery(update, _loss_of(reply.content))
        return deliveries

    def _tell(self, record: Record) -> None:
        log(
            INFO,
            "round %d: %d answered, %s sent%s, %.3f s on the air",
            record.round,
            record.answered,
            record.delivered or "nobody",
            " (asked)" if record.fallback else "",
            record.airtime_s,
        )
        for lost in record.lost:
            log(WARNING, "round %d: the update of device %d was lost", record.round, lost)
        for device, why in record.refused.items():
            log(WARNING, "round %d: device %s %s", record.round, device, why)

    def _evaluated(
        self,
        grid: Grid,
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None,
        result: Result,
    ) -> None:
        """On devices and on the server, as FedAvg does it."""
        messages = self.configure_evaluate(server_round, arrays, config, grid)
        replies = grid.send_and_receive(messages=messages, timeout=self._timeout_s) if messages else []
        _note(result.evaluate_metrics_clientapp, server_round, self.aggregate_evaluate(server_round, replies))
        if evaluate_fn:
            _note(result.evaluate_metrics_serverapp, server_round, evaluate_fn(server_round, arrays))


def _note(metrics: dict[int, MetricRecord], server_round: int, of_round: MetricRecord | None) -> None:
    if of_round is not None:
        metrics[server_round] = of_round


def _loss_of(content: RecordDict) -> float:
    """A participant's loss, where its metrics have one."""
    for metrics in content.metric_records.values():
        loss = metrics.get(_LOSS)
        if isinstance(loss, int | float):
            return float(loss)
    return float("nan")


def _metrics(record: Record) -> MetricRecord:
    metrics: dict[str, int | float | list[int] | list[float]] = {
        "answered": record.answered,
        "participants": len(record.participants),
        "delivered": len(record.delivered),
        "airtime_s": record.airtime_s,
        "mean_power": record.mean_power,
    }
    losses = [loss for loss in record.losses if loss is not None]
    if losses:
        metrics[_LOSS] = float(np.mean(losses))
    return MetricRecord(metrics)


def _numbers(result: Result, server_round: int) -> dict[str, float]:
    """What a round's evaluation found, on devices and on the server."""
    found: dict[str, float] = {}
    for where in (result.evaluate_metrics_clientapp, result.evaluate_metrics_serverapp):
        for name, value in where.get(server_round, MetricRecord()).items():
            if isinstance(value, int | float) and math.isfinite(value):
                found[name] = float(value)
    return found


def _version() -> str:
    import fadewise

    return fadewise.__version__
