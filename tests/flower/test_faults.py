"""What goes wrong on devices and networks, done to real processes; each time the federation trains on.

The books are right if they are, byte for byte, what a replay without a network writes for the same absences.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadewise as fw
from tests.flower.federation import Federation
from tests.flower.replay import Replay, agents_of

pytestmark = pytest.mark.slow

LOST, RESTARTED, SILENT = 3, 4, 5
"""The devices to which something happens."""
ROUNDS = 10


class Eventful:
    """What a federation has left behind to which everything has happened that happens to devices."""

    def __init__(self, folder: Path, replay_in: Path) -> None:
        self.lines = (folder / "books" / "rounds.jsonl").read_text().splitlines()
        self.records = [json.loads(line) for line in self.lines]
        experiment = fw.load(str(folder / "fleet.toml"))
        self.replay = Replay(experiment, replay_in)
        self.replayed = self.replay.all(self.records)
        self.agents = agents_of(experiment, folder / "state")
        with np.load(folder / "books" / "checkpoint.npz") as arrays:
            self.model = arrays["memory.model"]
            self.lost_times = arrays["memory.books.lost"]


@pytest.fixture(scope="module")
def eventful(tmp_path_factory: pytest.TempPathFactory) -> Eventful:
    """The federation is one for all of its tests, in whichever process they are: the first to come plays it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "eventful"
    with (shared / "eventful.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            folder.mkdir()
            play_eventful(folder)
    return Eventful(folder, tmp_path_factory.mktemp("replay"))


def play_eventful(folder: Path) -> None:
    with Federation(folder) as federation:
        federation.hold("decide", SILENT)
        federation.hold("train", LOST)
        federation.superlink()
        federation.devices("others", "0-2")
        for device in (LOST, RESTARTED, SILENT):
            federation.devices(f"device {device}", str(device))
        federation.run(rounds=ROUNDS, nodes=6, decide_s=4.0, train_s=12.0)

        federation.until_held("train", LOST)
        federation.killed(f"device {LOST}")
        federation.let_go("train", LOST)
        federation.devices(f"device {LOST}", str(LOST))
        federation.until_round(2)

        federation.hold("decide", RESTARTED)
        federation.until_held("decide", RESTARTED)
        federation.killed(f"device {RESTARTED}")
        federation.let_go("decide", RESTARTED)
        federation.devices(f"device {RESTARTED}", str(RESTARTED))

        federation.killed(f"device {SILENT}")
        federation.let_go("decide", SILENT)
        federation.devices(f"device {SILENT}", str(SILENT))
        federation.until_round(ROUNDS)


def rounds_in(records: list[dict[str, Any]], what: str, device: int) -> list[int]:
    return [record["round"] for record in records if device in record[what]]


def test_a_device_killed_between_decision_and_upload_is_lost_once(eventful: Eventful) -> None:
    """It had announced its update, so the round waits until its deadline and ends without."""
    lost = rounds_in(eventful.records, "lost", LOST)
    assert len(lost) == 1
    assert eventful.lost_times.tolist() == [1 if n == LOST else 0 for n in range(6)]
    record = eventful.records[lost[0]]
    assert LOST in record["participants"]
    assert LOST not in record["delivered"]
    later = [r for r in eventful.records[lost[0] + 1 :] if LOST not in r["silent"]]
    assert later, "it answers again once it is restarted"


def test_a_device_killed_and_restarted_goes_on_with_its_backlog(eventful: Eventful) -> None:
    silent = rounds_in(eventful.records, "silent", RESTARTED)
    assert silent, "it is killed before it decides, and that round is without it"
    assert silent[-1] < ROUNDS - 1
    ours, theirs = eventful.agents[RESTARTED], eventful.replay.agents[RESTARTED]
    assert ours.state.backlog[0] == theirs.state.backlog[0] > 0
    assert ours.decide(ROUNDS - 1) == theirs.decide(ROUNDS - 1)


def test_a_device_that_never_answers_holds_up_no_more_than_its_deadline(eventful: Eventful) -> None:
    silent = rounds_in(eventful.records, "silent", SILENT)
    assert silent[:2] == [0, 1]
    assert silent[-1] < ROUNDS - 1, "replaced, it takes part"
    for number in silent:
        record = eventful.records[number]
        assert SILENT not in record["participants"]
        assert record["excluded_share"] == pytest.approx(len(record["silent"]) / 6)


def test_after_all_that_books_and_backlogs_are_right(eventful: Eventful) -> None:
    assert eventful.lines == eventful.replayed
    assert eventful.model.tobytes() == eventful.replay.model.tobytes()
    for ours, theirs in zip(eventful.agents, eventful.replay.agents, strict=True):
        assert ours.state.backlog[0] == theirs.state.backlog[0]


def test_a_server_killed_in_a_round_goes_on_with_it(tmp_path: Path) -> None:
    """The records are those of a run that nobody has killed: the devices give the same answers again."""
    rounds = 6
    with Federation(tmp_path) as federation:
        experiment = fw.load(str(federation.experiment))
        (tmp_path / "replay").mkdir()
        replay = Replay(experiment, tmp_path / "replay")
        expected = [replay.round(number) for number in range(rounds)]
        # Killed while somebody trains, after two rounds at the least.
        device = next(record.participants[0] for record in expected[2:])
        before = next(r.round for r in expected if device in r.participants)
        database = ("--database", str(tmp_path / "superlink.db"))
        federation.superlink(*database)
        federation.devices("devices", "0-5")
        federation.hold("train", device)
        federation.run(rounds=rounds, nodes=6)
        federation.until_held("train", device)
        assert [record["round"] for record in federation.records()] == list(range(before))
        federation.killed("superlink")
        federation.superlink(*database)
        federation.let_go("train", device)
        federation.run(rounds=rounds, nodes=6)
        federation.until_round(rounds)
        lines = (federation.books / "rounds.jsonl").read_text().splitlines()
        backlogs = [agent.state.backlog[0] for agent in agents_of(experiment, federation.state)]
    assert lines == [record.line() for record in expected]
    assert backlogs == [agent.state.backlog[0] for agent in replay.agents]


OFF = """
import datetime, sys
from flwr.supercore import date

clock = date.now
off = lambda: clock() + datetime.timedelta(minutes={minutes})
date.now = off
for module in list(sys.modules.values()):
    if getattr(module, "now", None) is clock:
        module.now = off
"""


def test_a_device_with_another_configuration_or_clock_is_named_and_left_out(tmp_path: Path) -> None:
    rounds = 3
    with Federation(tmp_path) as federation:
        other = tmp_path / "other.toml"
        other.write_text(federation.experiment.read_text().replace("airtime_weight = 100.0", "airtime_weight = 10.0"))
        federation.superlink()
        federation.devices("others", "0-1")
        federation.devices("device 2", "2", before=OFF.format(minutes=-2))
        federation.devices("device 3", "3", f'experiment="{other}"')
        federation.devices("device 4", "4")
        federation.devices("device 4 again", "4", state=tmp_path / "elsewhere")
        federation.devices("device 5", "5", before=OFF.format(minutes=1))
        federation.devices("device 17", "17")
        federation.run(rounds=rounds, nodes=7)
        records = federation.until_round(rounds)
        federation.until_ended("device 5")
        assert 'register-node HTTP/1.1" 401' in federation.log("superlink")
        timing = [json.loads(line) for line in (federation.books / "timing.jsonl").read_text().splitlines()]
        replay = Replay(fw.load(str(federation.experiment)), tmp_path)
    for record in records:
        assert record["refused"] == {
            "3": "decides by other settings: policy.airtime_weight is 10.0 there and 100.0 here",
            "4": "answered from more than one node",
        }
        assert record["silent"] == [5], "whose clock is a minute ahead the SuperLink does not let in"
        assert record["answered"] == 3, "device 2, two minutes behind, is one of them"
    for number in range(rounds):
        (reason,) = timing[number]["errors"].values()
        assert "device is 17; start it with" in reason
    replayed = [replay.round(number, absent=[3, 4, 5]) for number in range(rounds)]
    assert [record["weights"] for record in records] == [record.weights for record in replayed]
    assert [record["delivered"] for record in records] == [record.participants for record in replayed]


def test_a_device_with_a_wrong_key_is_not_let_in(tmp_path: Path) -> None:
    """Flower's own SuperNodes, over TLS: one whose key is registered, and one whose key is not."""
    rounds = 2
    with Federation(tmp_path, secured=True) as federation:
        federation.superlink()
        federation.flwr("supernode", "register", str(federation.keys / "node-0.pub"), "here")
        federation.supernode("registered", 0, "node-0")
        federation.supernode("stranger", 1, "node-1")
        federation.until_ended("stranger")
        assert 'activate-node HTTP/1.1" 412' in federation.log("superlink")
        federation.run(rounds=rounds, exchanges=1, nodes=1)
        records = federation.until_round(rounds)
        replay = Replay(fw.load(str(federation.experiment)), tmp_path)
        expected = [replay.round(number, absent=range(1, 6)) for number in range(rounds)]
        lines = (federation.books / "rounds.jsonl").read_text().splitlines()
    assert all(record["silent"] == [1, 2, 3, 4, 5] for record in records)
    assert lines == [record.line() for record in expected]
    assert replay.model.any(), "the one that is let in trains"
