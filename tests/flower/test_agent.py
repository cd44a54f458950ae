"""The device's side alone: one decision a round, on disk before it is told, the same as among all."""

from __future__ import annotations

import dataclasses
import math
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadewise as fw
from fadewise.flower import Answer, DeviceAgent, UploadTimes, gain_of_rate, gains_of_channel, gains_of_trace

DEVICES = 8
LINK = fw.Link(22e6, 1.7e6, peak_power=np.linspace(20.0, 100.0, DEVICES), mean_power=np.linspace(0.5, 2.0, DEVICES))
SHARES = np.arange(1, DEVICES + 1) / (DEVICES * (DEVICES + 1) / 2)
POLICY = fw.Lyapunov(LINK, DEVICES, airtime_weight=100.0, data_shares=SHARES)
SEED = 7


def agent(
    folder: Path, device: int = 2, policy: fw.LocalPolicy[Any] = POLICY, channel: fw.Channel[Any] | None = None
) -> DeviceAgent:
    gain = gains_of_channel(channel or fw.Rayleigh(2.0), device, SEED)
    return DeviceAgent(policy, device, SEED, gain, folder / f"{device}.npz")


@pytest.mark.parametrize(
    "channel", [fw.Rayleigh(2.0), fw.Switched(fw.Rayleigh(2.0), 5.0, 2.0), fw.Bounded(LINK, fw.Rayleigh(2.0))]
)
def test_alone_it_decides_what_the_simulator_decides(channel: fw.Channel[Any], tmp_path: Path) -> None:
    """With limits and shares of its own, through fallbacks; a new process for every round."""
    experiment = fw.Experiment(DEVICES, channel, POLICY, seed=SEED)
    states = fw.begin(experiment)
    asked_in_all = 0
    for number in range(60):
        played, states = fw.play(experiment, states, number)
        for device in range(DEVICES):
            alone = agent(tmp_path, device, channel=channel)
            answer = alone.decide(number)
            assert answer.probability == played.decision.probability[device]
            assert answer.power == played.decision.power[device]
            if device in played.draw.devices:
                asked = device in played.draw.asked
                assert answer.takes_part != asked
                assert alone.join(number, asked) == answer.power
                asked_in_all += asked
            else:
                assert not answer.takes_part
            assert alone.state.backlog[0] == states.policy.backlog[device]
    assert asked_in_all


def test_asked_again_it_gives_the_same_answer_and_counts_once(tmp_path: Path) -> None:
    first = agent(tmp_path)
    answer = first.decide(0, audited=True)
    backlog = first.state.backlog[0]
    restarted = agent(tmp_path, channel=fw.Rayleigh(1e-3))  # what it would measure now is something else
    for again in (first, restarted):
        assert again.decide(0, audited=True) == answer
        assert again.state.backlog[0] == backlog
    assert answer.state == (0.0,)
    for _ in range(3):
        agent(tmp_path).join(0, asked=True)
    assert agent(tmp_path).state.backlog[0] == backlog + answer.power


def test_a_decision_is_on_disk_before_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = agent(tmp_path)
    one.decide(0)
    before = (tmp_path / "2.npz").read_bytes()
    monkeypatch.setattr("numpy.savez", lambda *_, **__: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(fw.FadewiseError, match="no space left"):
        one.decide(1)
    assert (tmp_path / "2.npz").read_bytes() == before
    monkeypatch.undo()
    assert one.decide(1) == agent(tmp_path).decide(1)


def test_a_decision_outlives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is synced before it is renamed, and then the folder that has its name."""
    synced: list[Path] = []
    monkeypatch.setattr("os.fsync", lambda number: synced.append(Path(os.readlink(f"/proc/self/fd/{number}"))))
    one = agent(tmp_path)
    one.decide(0)
    one.join(0, asked=True)
    assert synced == [tmp_path / "2.npz.part", tmp_path] * 2


def test_rounds_that_are_over_are_refused(tmp_path: Path) -> None:
    one = agent(tmp_path)
    one.decide(5)
    with pytest.raises(
        fw.FadewiseError, match="device 2 has decided round 5 of this run; round 4 is over, and another"
    ):
        one.decide(4)
    with pytest.raises(fw.FadewiseError, match="is to send in round 6; the last that it has decided is 5"):
        one.join(6, asked=False)


def test_it_tells_how_often_it_has_volunteered(tmp_path: Path) -> None:
    volunteered = 0
    for number in range(40):
        answer = agent(tmp_path).decide(number)
        assert answer.volunteered == volunteered
        assert agent(tmp_path).decide(number).volunteered == volunteered
        volunteered += answer.takes_part
    assert volunteered > 3


def test_a_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    agent(tmp_path).decide(0)
    file = tmp_path / "2.npz"
    whole = file.read_bytes()
    file.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    with pytest.raises(fw.FadewiseError, match=r"device 2 cannot read its backlog .*remove the file"):
        agent(tmp_path)
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(fw.FadewiseError, match="device 2 cannot read its backlog"):
        agent(tmp_path)


def test_what_cannot_be_on_a_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fw.FadewiseError, match=r"warm_start_rounds is 5; .* it must be 0"):
        agent(tmp_path, policy=dataclasses.replace(POLICY, warm_start_rounds=5))
    with pytest.raises(fw.FadewiseError, match="device is 8; it must be a whole number at least 0 and at most 7"):
        agent(tmp_path, device=8)
    with pytest.raises(fw.FadewiseError, match=r"gain is 2\.0; it must be a function of the round"):
        DeviceAgent(POLICY, 0, SEED, 2.0, tmp_path / "bad.npz")  # type: ignore[arg-type]
    with pytest.raises(fw.FadewiseError, match="round is -1; it must be a whole number at least 0"):
        agent(tmp_path).decide(-1)
    for gain in (math.nan, math.inf, -1.0, None, "high"):
        bad = DeviceAgent(POLICY, 3, SEED, lambda round, gain=gain: gain, tmp_path / "bad.npz")  # type: ignore[misc]
        with pytest.raises(fw.FadewiseError, match=r"the channel gain of device 3 in round 7 is .* a (finite )?number"):
            bad.decide(7)
    assert not (tmp_path / "bad.npz").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(fw.FadewiseError, match=r"device 2 cannot keep its backlog in .*file.*may write"):
        agent(tmp_path / "file").decide(0)


def test_agents_of_one_device_at_once_decide_once(tmp_path: Path) -> None:
    """A node that has been started twice: each measures something else, and both give the first one's answer."""
    waiting, nodes, rounds = threading.Barrier(4, timeout=60), 4, 12

    def node(number: int) -> list[Answer]:
        channel, told = fw.Rayleigh(1.0 + number), []
        for round in range(rounds):
            one = agent(tmp_path, channel=channel)
            waiting.wait()
            told.append(one.decide(round))
            one.join(round, asked=True)
            waiting.wait()
        return told

    with ThreadPoolExecutor(nodes) as pool:
        told = list(pool.map(node, range(nodes)))
    assert all(of_one == told[0] for of_one in told)
    backlog = 0.0
    for answer in told[0]:  # P·q once a round, and the power that the device was asked for, once
        backlog = max(backlog + answer.power * answer.probability - 0.5 - 1.5 * 2 / 7, 0.0) + answer.power
    assert agent(tmp_path).state.backlog[0] == pytest.approx(backlog)


def test_a_trace_gives_a_device_its_column(tmp_path: Path) -> None:
    gains = np.array([[1.0, 2.0], [0.0, 3.0]])
    np.savez(tmp_path / "trace.npz", gains=gains)
    gain = gains_of_trace(tmp_path / "trace.npz", column=1)
    assert [gain(0), gain(1)] == [2.0, 3.0]
    with pytest.raises(fw.FadewiseError, match="ends after round 1"):
        gain(2)
    assert gains_of_trace(tmp_path / "trace.npz", repeat=True)(3) == 0.0
    with pytest.raises(fw.FadewiseError, match="column is -1; it must be a whole number at least 0"):
        gains_of_trace(tmp_path / "trace.npz", column=-1)
    with pytest.raises(fw.FadewiseError, match="has gains for 2 devices, not for 3"):
        gains_of_trace(tmp_path / "trace.npz", column=2)(0)


def test_out_of_reach_it_stays_out(tmp_path: Path) -> None:
    answer = DeviceAgent(POLICY, 1, SEED, lambda round: 0.0, tmp_path / "1.npz").decide(0)
    assert answer[:5] == (1, 0, 0.0, 0.0, False)
    assert answer.airtime_s == math.inf


def test_a_rate_becomes_the_gain_that_explains_it() -> None:
    link = LINK.of_device(3)
    for gain in (1e-4, 0.3, 50.0):
        rate = float(link.rate(np.array([gain]), 7.0)[0])
        assert gain_of_rate(link, rate, 7.0) == pytest.approx(gain, rel=1e-12)
    assert gain_of_rate(link, 0.0, 7.0) == 0.0
    with pytest.raises(fw.FadewiseError, match="rate_bits_per_s is -1"):
        gain_of_rate(link, -1, 7.0)


def test_upload_times_become_a_running_estimate(tmp_path: Path) -> None:
    link = LINK.of_device(3)
    true = np.array([0.2, 0.4, 0.9, 1.5])
    times = UploadTimes(link, tmp_path / "uploads.npz", initial=5.0, uploads=3)
    one = DeviceAgent(POLICY, 3, SEED, times, tmp_path / "3.npz")
    assert one.decide(0, audited=True).gain == 5.0
    power = one.join(0, asked=False)
    for gain in true:
        one.uploaded(0, float(link.airtime_s(np.array([gain]), power)[0]))
    one.uploaded(7, 1e-9)  # of a round that is not the last decided: at which power is not known
    kept = UploadTimes(link, tmp_path / "uploads.npz", initial=5.0, uploads=3)
    assert kept(1) == pytest.approx(true[-3:].mean(), rel=1e-9)
    assert DeviceAgent(POLICY, 3, SEED, kept, tmp_path / "3.npz").decide(1, audited=True).gain == kept(1)


def test_uploads_that_seem_to_take_no_time_leave_the_device_in(tmp_path: Path) -> None:
    """On a narrow link its rate would be beyond any gain; the decision that brings the news is made all the same."""
    link = fw.Link(1e4, 1e7)
    times = UploadTimes(link, tmp_path / "new" / "uploads.npz", initial=1.0)
    times.uploaded(1e-3, 1.0)
    one = DeviceAgent(fw.Lyapunov(link, 2, airtime_weight=1.0), 0, SEED, times, tmp_path / "0.npz")
    assert 0 < one.decide(0).probability <= 1


def test_a_record_of_uploads_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "uploads.npz"
    UploadTimes(LINK, path, initial=1.0, uploads=3).uploaded(0.1, 1.0)
    with pytest.raises(fw.FadewiseError, match=r"uploads\.npz does not hold the last 4 uploads .*remove it"):
        UploadTimes(LINK, path, initial=1.0, uploads=4)
    path.write_bytes(b"damaged")
    with pytest.raises(fw.FadewiseError, match=r"uploads\.npz does not hold the last 3 uploads .*remove it"):
        UploadTimes(LINK, path, initial=1.0, uploads=3)


def test_an_answer_reveals_the_channel_only_to_an_audit(tmp_path: Path) -> None:
    answer = agent(tmp_path).decide(0)
    assert isinstance(answer, Answer)
    assert answer.gain is None
    assert answer.state is None
