"""The strategy and the ClientApp's side of it, messages handed over in memory: no network, no processes."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import math
import time
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.exit import ExitCode
from flwr.supercore.run import Run

import fadewise as fw
from fadewise.flower import DeviceAgent, Rules, UploadTimes
from fadewise.flower.client import Participation, agent_of, device_of
from fadewise.flower.messages import KEY, order_of
from fadewise.flower.strategy import Scheduled, plainly
from tests.flower.app.rehearsal.client_app import told
from tests.flower.replay import NUMBERS, Replay

EXPERIMENT = fw.Experiment(6, fw.Rayleigh(2.0), fw.Lyapunov(fw.Link(22e6, 1.7e6), 6, airtime_weight=100.0), seed=3)


def device_app(agent: Callable[[Context, str], DeviceAgent]) -> ClientApp:
    app = ClientApp()
    participation = Participation(app, agent)

    @app.train(mods=[participation.mod])
    def train(message: Message, context: Context) -> Message:
        model = message.content.array_records["arrays"]["model"].numpy()
        update = told(len(model), device_of(context, 6), order_of(message).round)
        arrays = ArrayRecord({"model": Array((model + update).astype(np.float32))})
        return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"train_loss": 1.0})}), reply_to=message)

    return app


class Handed(Grid):
    """A grid whose nodes answer when they are looked for. Node ids are none of the devices' numbers."""

    def __init__(self, state: Path, experiment: fw.Experiment = EXPERIMENT) -> None:
        self.app = device_app(lambda context, run: agent_of(context, run, experiment))
        self.state = state
        self.nodes = {100 + 7 * device: device for device in range(experiment.devices)}
        self.sent: list[Message] = []
        self.waiting: dict[str, Message] = {}
        self.changed: Callable[[int, Message], Message | None] = lambda device, reply: reply

    def set_run(self, run: Run) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        raise NotImplementedError

    def create_message(self, *_: Any, **__: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, *_: Any, **__: Any) -> Iterable[Message]:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            name = f"message {len(self.sent)}"
            message.metadata.__dict__["_message_id"] = name
            self.sent.append(message)
            self.waiting[name] = message
            ids.append(name)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = []
        for name in message_ids:
            message = self.waiting.pop(name, None)
            if message is None:
                continue
            device = self.nodes[message.metadata.dst_node_id]
            context = Context(
                1, message.metadata.dst_node_id, {"device": device, "state": str(self.state)}, RecordDict(), {}
            )
            reply = self.changed(device, self.app(message, context))
            if reply is not None:
                replies.append(reply)
        return replies

    def types(self) -> list[str]:
        return [message.metadata.message_type for message in self.sent]


def zeros() -> ArrayRecord:
    return ArrayRecord({"model": Array(np.zeros(NUMBERS, np.float32))})


def strategy(folder: Path, rules: Rules | None = None, **settings: Any) -> Scheduled:
    return Scheduled(rules or Rules.of(EXPERIMENT), folder / "books", "rehearsal", **settings)


def lines(folder: Path) -> list[str]:
    return (folder / "books" / "rounds.jsonl").read_text().splitlines()


@pytest.mark.parametrize("exchanges", [1, 2])
def test_either_way_of_exchanging_gives_the_same_books(exchanges: int, tmp_path: Path) -> None:
    rounds, grid = 20, Handed(tmp_path / "state")
    result = strategy(tmp_path, exchanges=exchanges).start(grid, zeros(), rounds)
    (tmp_path / "replay").mkdir()
    replay = Replay(EXPERIMENT, tmp_path / "replay")
    expected = [replay.round(number) for number in range(rounds)]
    assert lines(tmp_path) == [record.line() for record in expected]
    assert result.arrays["model"].numpy().tobytes() == replay.model.tobytes()
    participants = sum(len(record.participants) for record in expected)
    asked = sum(record.fallback for record in expected)
    assert asked > 2
    # One broadcast a round, and another message to whoever has to be asked; or a question to all and then the model.
    assert len(grid.sent) == 6 * rounds + (asked if exchanges == 1 else participants)
    assert grid.types().count("query.decide") == (0 if exchanges == 1 else 6 * rounds)


def test_stopped_and_started_again_it_goes_on(tmp_path: Path) -> None:
    for folder in ("whole", "parts", "replay"):
        (tmp_path / folder).mkdir()
    strategy(tmp_path / "whole").start(Handed(tmp_path / "whole" / "state"), zeros(), 9)
    grid = Handed(tmp_path / "parts" / "state")
    strategy(tmp_path / "parts").start(grid, zeros(), 4)
    # In round 5 the server goes down, once decisions have been made and somebody has trained.
    seen: list[int] = []

    def power_cut(device: int, reply: Message) -> Message:
        seen.append(device)
        if len(seen) == 6 + 6 + 1:
            raise KeyboardInterrupt
        return reply

    grid.changed = power_cut
    with pytest.raises(KeyboardInterrupt):
        strategy(tmp_path / "parts").start(grid, zeros(), 9)
    assert 4 <= len(lines(tmp_path / "parts")) < 9
    grid.changed = lambda device, reply: reply
    result = strategy(tmp_path / "parts").start(grid, zeros(), 9)
    assert lines(tmp_path / "parts") == lines(tmp_path / "whole")
    with np.load(tmp_path / "whole" / "books" / "checkpoint.npz") as arrays:
        assert result.arrays["model"].numpy().tobytes() == arrays["memory.model"].tobytes()


def test_another_training_in_the_same_books_is_refused(tmp_path: Path) -> None:
    grid = Handed(tmp_path / "state")
    strategy(tmp_path).start(grid, zeros(), 1)
    with pytest.raises(fw.FadewiseError, match=r"another configuration: rules\.floor is 0\.0 there and 0\.1 here"):
        strategy(tmp_path, Rules.of(EXPERIMENT, floor=0.1)).start(grid, zeros(), 2)
    with pytest.raises(fw.FadewiseError, match=r"the run's name is '\.\./x'"):
        Scheduled(Rules.of(EXPERIMENT), tmp_path, "../x")


def test_a_restart_with_another_model_or_other_shares_leaves_the_books_alone(tmp_path: Path) -> None:
    grid, numbers = Handed(tmp_path / "state"), np.arange(1, 7) / 21
    strategy(tmp_path).start(grid, zeros(), 3)
    before = lines(tmp_path)
    another = ArrayRecord({"model": Array(np.zeros(NUMBERS + 1, np.float32))})
    with pytest.raises(fw.FadewiseError, match=r"model\.model is 'float32 \(5,\)' there and 'float32 \(6,\)' here"):
        strategy(tmp_path).start(grid, another, 4)
    policy = dataclasses.replace(EXPERIMENT.policy, data_shares=numbers)  # type: ignore[type-var]
    with pytest.raises(fw.FadewiseError, match=r"rules\.shares is .* there and .* here; use another folder"):
        strategy(tmp_path, Rules.of(dataclasses.replace(EXPERIMENT, policy=policy))).start(grid, zeros(), 4)
    assert lines(tmp_path) == before


def test_without_a_checkpoint_that_can_be_read_nothing_begins_anew(tmp_path: Path) -> None:
    """The devices are past round 0: to each of them all rounds up to where they are would be over."""
    grid = Handed(tmp_path / "state")
    strategy(tmp_path).start(grid, zeros(), 3)
    before = lines(tmp_path)
    for name in ("checkpoint.npz", "checkpoint-previous.npz"):
        (tmp_path / "books" / name).write_bytes(b"damaged")
    with pytest.raises(
        fw.FadewiseError, match=r"no checkpoint in .*books can be read .*restore one, or begin another run elsewhere"
    ):
        strategy(tmp_path).start(grid, zeros(), 4)
    assert lines(tmp_path) == before


def test_with_the_last_checkpoint_but_one_it_goes_on(tmp_path: Path) -> None:
    """The devices remember the round that is played again: nothing of it is different."""
    grid = Handed(tmp_path / "state")
    strategy(tmp_path).start(grid, zeros(), 3)
    before = lines(tmp_path)
    (tmp_path / "books" / "checkpoint.npz").write_bytes(b"damaged")
    strategy(tmp_path).start(grid, zeros(), 5)
    assert lines(tmp_path)[:3] == before
    assert len(lines(tmp_path)) == 5


def test_another_run_has_a_backlog_of_its_own(tmp_path: Path) -> None:
    grid = Handed(tmp_path / "state")
    strategy(tmp_path).start(grid, zeros(), 5)
    Scheduled(Rules.of(EXPERIMENT), tmp_path / "other", "another").start(grid, zeros(), 5)
    assert (tmp_path / "other" / "rounds.jsonl").read_text().splitlines() == lines(tmp_path)


def test_who_comes_late_is_lost_and_later_counts_more(tmp_path: Path) -> None:
    grid, clumsy = Handed(tmp_path / "state"), 1
    losing = {"attempt": 0}

    def every_second(device: int, reply: Message) -> Message | None:
        if device != clumsy or "arrays" not in reply.content:
            return reply
        losing["attempt"] += 1
        return reply if losing["attempt"] % 2 == 0 else None

    grid.changed = every_second
    strategy(tmp_path).start(grid, zeros(), 25, timeout=0.3)
    records = [json.loads(line) for line in lines(tmp_path)]
    lost = [record for record in records if record["lost"]]
    assert lost
    assert all(record["lost"] == [clumsy] for record in lost)
    for record in records[lost[1]["round"] :]:
        for device, delivery in zip(record["participants"], record["delivery"], strict=True):
            assert delivery == (2.0 if device == clumsy else 1.0)


def test_devices_that_lie_are_named_and_the_others_train(tmp_path: Path) -> None:
    grid = Handed(tmp_path / "state")

    def lie(device: int, reply: Message) -> Message:
        record = reply.content.config_records.get(KEY)
        if device == 2 and record is not None and "power" in record:
            record["power"] = 1e6
        if device == 3 and record is not None and "power" in record:
            record["probability"] = "high"
        if device == 4 and "arrays" in reply.content:
            reply.content["arrays"] = ArrayRecord({"model": Array(np.full(NUMBERS, np.nan, np.float32))})
        if device == 5 and "arrays" in reply.content:
            reply.content["arrays"] = ArrayRecord({"mode": Array(np.ones(2, np.float32))})
        return reply

    grid.changed = lie
    rounds = 15
    result = strategy(tmp_path).start(grid, zeros(), rounds)
    assert np.isfinite(result.arrays["model"].numpy()).all()
    records = [json.loads(line) for line in lines(tmp_path)]
    for record in records:
        assert "power is 1e+06; its limit is 100" in record["refused"]["2"]
        assert 3 in record["silent"]
        assert not {2, 3, 4, 5} & set(record["delivered"])
        for device, complaint in ((4, "not finite"), (5, "no update with the model's names and shapes")):
            assert (device in record["participants"]) == (complaint in record["refused"].get(str(device), ""))
    with np.load(tmp_path / "books" / "checkpoint.npz") as arrays:
        refused, delivered = arrays["memory.books.refused"], arrays["memory.books.delivered"]
    assert refused[2] == rounds
    assert refused[4] > 0 < refused[5]
    assert delivered[[0, 1]].min() > 0 == delivered[2:].max()
    timing = [json.loads(line) for line in (tmp_path / "books" / "timing.jsonl").read_text().splitlines()]
    assert "probability in a message of fadewise is 'high'" in timing[0]["errors"]["121"]


def made_up(data: bytes) -> Array:
    """An array that says it is the model's."""
    return Array(dtype="float32", shape=(NUMBERS,), stype="numpy.ndarray", data=data)


def saved(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        made_up(b"\x00" * 40),
        made_up(b""),
        made_up(b"PK\x03\x04" + b"\x00" * 40),
        made_up(saved(np.array(["a"] * NUMBERS))),
        made_up(saved(np.ones(NUMBERS, complex))),
        made_up(saved(np.ones(NUMBERS, np.float32))[:-4]),
        made_up(saved(np.full(NUMBERS, 1e300))),
        None,
    ],
    ids=["zeros", "nothing", "zip", "words", "complex", "cut off", "beyond float32", "no arrays"],
)
def test_bytes_that_are_no_update_are_refused(array: Array | None, tmp_path: Path) -> None:
    grid = Handed(tmp_path / "state")

    def lie(device: int, reply: Message) -> Message:
        if "arrays" in reply.content and device == 1:
            if array is None:
                del reply.content["arrays"]
            else:
                reply.content["arrays"] = ArrayRecord({"model": array})
        return reply

    grid.changed = lie
    rounds = 8
    result = strategy(tmp_path).start(grid, zeros(), rounds)
    assert np.isfinite(result.arrays["model"].numpy()).all()
    records = [json.loads(line) for line in lines(tmp_path)]
    assert any(1 in record["participants"] for record in records)
    for record in records:
        assert ("1" in record["refused"]) == (1 in record["participants"])
        assert not record["lost"]


def test_a_device_that_lies_about_its_time_at_work_is_not_timed(tmp_path: Path) -> None:
    grid = Handed(tmp_path / "state")

    def lie(device: int, reply: Message) -> Message:
        if "arrays" in reply.content:
            reply.content.config_records[KEY]["busy_s"] = (math.inf, -1.0, math.nan)[device % 3]
        return reply

    grid.changed = lie
    strategy(tmp_path).start(grid, zeros(), 4)
    timing = [json.loads(line) for line in (tmp_path / "books" / "timing.jsonl").read_text().splitlines()]
    assert all(line["busy_s"] == 0.0 for line in timing)


def test_evaluation_is_written_beside_the_round(tmp_path: Path) -> None:
    seen: list[int] = []

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        seen.append(server_round)
        return MetricRecord({"accuracy": server_round / 10}) if server_round % 2 else None

    result = strategy(tmp_path).start(Handed(tmp_path / "state"), zeros(), 4, evaluate_fn=evaluate)
    assert seen == [0, 1, 2, 3, 4]
    assert [json.loads(line)["metrics"] for line in lines(tmp_path)] == [{"accuracy": 0.1}, {}, {"accuracy": 0.3}, {}]
    assert sorted(result.evaluate_metrics_serverapp) == [1, 3]
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3, 4]
    assert result.train_metrics_clientapp[1]["train_loss"] == 1.0


def test_nodes_that_are_not_told_who_they_are_say_so(tmp_path: Path) -> None:
    grid = Handed(tmp_path / "state")
    grid.nodes[999] = -1
    strategy(tmp_path).start(grid, zeros(), 1)
    (timing,) = [json.loads(line) for line in (tmp_path / "books" / "timing.jsonl").read_text().splitlines()]
    assert "the node's device is -1; start it with --node-config 'device=…'" in timing["errors"]["999"]
    context = Context(1, 1, {"device": 1}, RecordDict(), {})
    with pytest.raises(fw.FadewiseError, match="the node has no folder for its backlog"):
        agent_of(context, "run", EXPERIMENT)


def test_a_device_learns_how_long_its_uploads_took(tmp_path: Path) -> None:
    """From the server, which sees when an update has come; one exchange later."""
    grid, link = Handed(tmp_path / "state"), EXPERIMENT.policy.link

    def agent(context: Context, run: str) -> DeviceAgent:
        device = device_of(context, 6)
        times = UploadTimes(link, tmp_path / f"uploads-{device}.npz", initial=2.0)
        return agent_of(context, run, EXPERIMENT, times)

    grid.app = device_app(agent)

    def slow(device: int, reply: Message) -> Message:
        if "arrays" in reply.content:
            time.sleep(0.02)
        return reply

    grid.changed = slow
    strategy(tmp_path).start(grid, zeros(), 6)
    delivered = {device for line in lines(tmp_path)[:-1] for device in json.loads(line)["delivered"]}
    assert delivered
    for device in range(6):
        gain = UploadTimes(link, tmp_path / f"uploads-{device}.npz", initial=2.0)(0)
        assert (gain != 2.0) == (device in delivered)
        assert gain <= 2.0 or device not in delivered


def test_the_time_that_a_device_was_at_work_is_no_part_of_its_upload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that goes on by ten seconds whenever somebody looks; and a device is told of an upload once."""
    ticks = itertools.count(0.0, 10.0)
    clock = types.SimpleNamespace(monotonic=lambda: next(ticks), sleep=lambda seconds: None)
    monkeypatch.setattr("fadewise.flower.strategy.time", clock)
    grid = Handed(tmp_path / "state")

    def busy(device: int, reply: Message) -> Message:
        if "arrays" in reply.content:
            reply.content.config_records[KEY]["busy_s"] = 4.0
        return reply

    grid.changed = busy
    strategy(tmp_path, decide_s=1e6).start(grid, zeros(), 8, timeout=1e6)
    orders = [(m.metadata.dst_node_id, order_of(m)) for m in grid.sent if m.metadata.message_type == "query.decide"]
    told = [(node, order.upload_round) for node, order in orders if order.upload_round >= 0]
    assert all(order.upload_s % 10 == 6.0 for _, order in orders if order.upload_round >= 0)
    delivered = [(n, json.loads(line)["round"]) for line in lines(tmp_path)[:-1] for n in json.loads(line)["delivered"]]
    assert sorted(told) == sorted((100 + 7 * device, number) for device, number in delivered)


@pytest.mark.parametrize("exchanges", [1, 2])
def test_an_audit_asks_for_what_was_decided_from(exchanges: int, tmp_path: Path) -> None:
    grid = Handed(tmp_path / "state")

    def lie(device: int, reply: Message) -> Message:
        record = reply.content.config_records.get(KEY)
        if device == 2 and record is not None and "gain" in record:
            record["gain"] = 2 * float(record["gain"])  # type: ignore[arg-type]
        return reply

    grid.changed = lie
    strategy(tmp_path, Rules.of(EXPERIMENT, audit=True), exchanges=exchanges).start(grid, zeros(), 4)
    records = [json.loads(line) for line in lines(tmp_path)]
    assert all(list(record["refused"]) == ["2"] for record in records)
    assert all("from what it tells follow" in record["refused"]["2"] for record in records)


def test_settings_that_cannot_be_are_refused(tmp_path: Path) -> None:
    settings: list[dict[str, Any]] = [
        {"exchanges": 3},
        {"decide_s": 0.0},
        {"min_available_nodes": "all"},
        {"fraction_evaluate": 2.0},
    ]
    for setting in settings:
        with pytest.raises(fw.FadewiseError, match=next(iter(setting))):
            strategy(tmp_path, **setting)
    config = ConfigRecord({"lr": 0.1})
    grid = Handed(tmp_path / "state")
    strategy(tmp_path).start(grid, zeros(), 1, train_config=config)
    assert all(m.content["config"]["lr"] == 0.1 for m in grid.sent if m.metadata.message_type == "train")


def test_wrong_settings_end_a_server_app_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(code: int, message: str) -> None:
        """As Flower's, which would end the process of the tests as well."""
        assert code == ExitCode.SERVERAPP_EXCEPTION
        raise SystemExit(message)

    monkeypatch.setattr("fadewise.flower.strategy.flwr_exit", ended)
    with (
        pytest.raises(SystemExit, match="exchanges is 3; it must be a whole number at least 1 and at most 2"),
        plainly(),
    ):
        strategy(tmp_path, exchanges=3)


def test_messages_that_the_superlink_does_not_take_are_no_silence(tmp_path: Path) -> None:
    grid = Handed(tmp_path / "state")
    grid.push_messages = lambda messages: []  # type: ignore[method-assign]
    with pytest.raises(fw.FadewiseError, match="the SuperLink does not take 6 messages at once"):
        strategy(tmp_path).start(grid, zeros(), 1)


def test_a_node_that_leaves_holds_up_nothing(tmp_path: Path) -> None:
    """Six must be there for the training to begin, and later rounds begin with whoever is."""
    grid = Handed(tmp_path / "state")
    there, gone = dict(grid.nodes), list(grid.nodes)[-1]
    grid.nodes = {}
    looked: list[int] = []

    def connected() -> Iterable[int]:
        looked.append(len(grid.nodes))
        grid.nodes = there if len(looked) > 2 else {}
        if len(lines_so_far()) == 2:
            grid.nodes = {node: device for node, device in there.items() if node != gone}
        return list(grid.nodes)

    def lines_so_far() -> list[str]:
        return lines(tmp_path) if (tmp_path / "books" / "rounds.jsonl").exists() else []

    grid.get_node_ids = connected  # type: ignore[method-assign]
    strategy(tmp_path, min_available_nodes=6).start(grid, zeros(), 4)
    silent = [json.loads(line)["silent"] for line in lines(tmp_path)]
    assert silent == [[], [], [5], []]
