"""The server's side alone: what is believed, what each update counts, what is written down."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadewise as fw
from fadewise.flower import Answer, Books, Delivery, DeviceAgent, Round, Rules, gains_of_channel
from fadewise.flower.answers import settings_of
from fadewise.flower.delivery import Deliveries

DEVICES, SEED, NUMBERS = 6, 3, 4
POLICY = fw.Lyapunov(fw.Link(22e6, 1.7e6), DEVICES, airtime_weight=100.0)
RULES = Rules(POLICY, SEED)


@pytest.fixture
def agents(tmp_path: Path) -> list[DeviceAgent]:
    return [
        DeviceAgent(POLICY, n, SEED, gains_of_channel(fw.Rayleigh(2.0), n, SEED), tmp_path / f"{n}.npz")
        for n in range(DEVICES)
    ]


def answers(agents: list[DeviceAgent], number: int = 0) -> list[Answer]:
    return [agent.decide(number, audited=True) for agent in agents]


def silent_until(number: int, books: Books) -> Books:
    """Books of a server that has heard of nobody for so many rounds, and believes that they volunteered."""
    return books._replace(unheard_rounds=np.full(DEVICES, number))


def update(device: int, scale: float = 1.0) -> Delivery:
    return Delivery((scale * np.sin(np.arange(NUMBERS) + device)).astype(np.float32), 0.5)


def all_of(round: Round) -> dict[int, Delivery]:
    return {n: update(n) for n in round.draw.devices.tolist()}


def test_a_round_is_the_simulators(agents: list[DeviceAgent]) -> None:
    experiment = fw.Experiment(DEVICES, fw.Rayleigh(2.0), POLICY, seed=SEED)
    states, books, spent, airtime_s, fallbacks = fw.begin(experiment), Books.opened(RULES), 0.0, 0.0, 0
    for number in range(60):
        played, states = fw.play(experiment, states, number)
        round = Round(RULES, books, number, answers(agents, number))
        assert not round.refused
        assert round.draw.devices.tolist() == played.draw.devices.tolist()
        assert round.weights.tolist() == played.draw.weights.tolist()
        for device in round.draw.devices.tolist():
            agents[device].join(number, device in round.draw.asked)
        closed = round.close(NUMBERS, all_of(round))
        books, fallbacks = closed.books, fallbacks + round.draw.fallback
        assert played.draw.population_inclusion is not None
        spent += float((played.decision.power * played.draw.population_inclusion).mean())
        assert closed.record.mean_power == pytest.approx(spent / (number + 1))
        assert closed.record.airtime_s == played.times.airtime_s
        airtime_s += played.times.airtime_s
        assert closed.record.total_airtime_s == pytest.approx(airtime_s)
        exact = sum(w * update(n).update.astype(float) for n, w in zip(round.draw.devices, round.weights, strict=True))
        np.testing.assert_allclose(closed.change, exact, rtol=1e-6, atol=1e-6)
    assert fallbacks > 3


def test_nothing_depends_on_the_order_in_which_messages_come(agents: list[DeviceAgent]) -> None:
    # A round in which several take part.
    number = next(k for k in range(50) if sum(a.takes_part for a in answers(agents, k)) >= 3)
    heard, books = answers(agents, number), silent_until(number, Books.opened(RULES))
    one, other = (Round(RULES, books, number, order) for order in (heard, heard[::-1]))
    assert not one.refused
    closed = [one.close(NUMBERS, all_of(one)), other.close(NUMBERS, dict(reversed(all_of(other).items())))]
    assert closed[0].record.line() == closed[1].record.line()
    assert closed[0].change.tobytes() == closed[1].change.tobytes()


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "probability above 1": ({"probability": 1.5}, "probability is 1.5; it must be from 0 to 1"),
    "probability below 0": ({"probability": -0.1}, "probability is -0.1; it must be from 0 to 1"),
    "probability not a number": ({"probability": math.nan}, "probability is nan"),
    "so small a probability": ({"probability": 1e-9, "takes_part": False}, "its weight would swamp the rest"),
    "more power than it may": ({"power": 100.1}, "power is 100.1; its limit is 100"),
    "power not a number": ({"power": math.nan}, "power is nan"),
    "no power": ({"power": 0.0}, "would send at power 0"),
    "no airtime": ({"airtime_s": 0.0}, "for 0 s"),
    "endless airtime": ({"airtime_s": math.inf}, "for inf s"),
    "airtimes beyond a float's sum": ({"airtime_s": 1.7e308}, "for 1.7e+308 s"),
    "another round": ({"round": 3}, "answered for round 3 in round 0"),
    "too many rounds": ({"volunteered": 4}, "it had volunteered 4 times; it can have been 0 at most"),
    "other settings": ({"settings": "{}"}, "decides by other settings: seed is None there and 3 here"),
    "settings that are none": ({"settings": "\x00"}, "its settings cannot be read"),
    "settings without an end": ({"settings": "[" * 100_000}, "its settings cannot be read"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_device_that_lies_is_refused_by_name_and_counted(lie: str, agents: list[DeviceAgent]) -> None:
    changes, complaint = LIES[lie]
    heard = answers(agents)
    heard[2] = heard[2]._replace(**changes)
    round = Round(RULES, Books.opened(RULES), 0, heard)
    assert list(round.refused) == [2]
    assert complaint in round.refused[2]
    assert round.decision.probability[2] == 0
    closed = round.close(NUMBERS, all_of(round))
    assert closed.record.refused == {"2": round.refused[2]}
    assert closed.books.refused.tolist() == [0, 0, 1, 0, 0, 0]
    assert closed.record.excluded_share == pytest.approx(1 / DEVICES)
    # As if it had not answered at all.
    without = Round(RULES, Books.opened(RULES), 0, [answer for answer in heard if answer.device != 2])
    assert without.weights.tolist() == round.weights.tolist()


def test_weights_are_over_all_enrolled_whoever_answers(agents: list[DeviceAgent]) -> None:
    """Not over those who replied, as FedAvg's; π is among those, and the step size is the server's."""
    rules = dataclasses.replace(RULES, server_step_size=0.5)
    heard = [answer for answer in answers(agents) if answer.device in (1, 2, 4)]
    round = Round(rules, Books.opened(rules), 0, heard)
    q = np.array([answer.probability for answer in heard])
    inclusion = np.where(q == q.max(), q + np.prod(1 - q), q)
    there = [[1, 2, 4].index(n) for n in round.draw.devices]
    assert there
    assert round.weights.tolist() == pytest.approx((1 / DEVICES / inclusion[there]).tolist(), rel=1e-12)
    closed = round.close(NUMBERS, all_of(round))
    exact = sum(w * update(n).update.astype(float) for n, w in zip(round.draw.devices, round.weights, strict=True))
    np.testing.assert_allclose(closed.change, 0.5 * exact, rtol=1e-6, atol=1e-9)


def test_the_limit_on_power_is_each_devices_own(tmp_path: Path) -> None:
    peaks = np.array([100.0, 50.0, 100.0, 100.0, 100.0, 100.0])
    policy = fw.Lyapunov(fw.Link(22e6, 1.7e6, peak_power=peaks), DEVICES, airtime_weight=100.0)
    agent = DeviceAgent(policy, 1, SEED, gains_of_channel(fw.Rayleigh(2.0), 1, SEED), tmp_path / "own.npz")
    answer, rules = agent.decide(0), Rules(policy, SEED)
    assert not Round(rules, Books.opened(rules), 0, [answer]).refused
    refused = Round(rules, Books.opened(rules), 0, [answer._replace(power=50.1)]).refused
    assert refused == {1: "says that its power is 50.1; its limit is 50"}


def test_what_is_usual_is_of_the_last_updates_that_were_believed(agents: list[DeviceAgent]) -> None:
    books, believed = Books.opened(RULES), list[float]()
    for number in range(60):
        round = Round(RULES, books, number, answers(agents, number))
        size = 1e6 if number % 10 == 9 else 1.0 + number
        sent = {n: Delivery(np.array([size, 0, 0, 0], np.float32)) for n in round.draw.devices.tolist()}
        closed = round.close(NUMBERS, sent)
        assert bool(closed.record.refused) == (size == 1e6)
        believed += [size] * len(closed.record.delivered)
        books = closed.books
    assert len(believed) > len(books.norms)
    assert sorted(books.norms.tolist()) == sorted(believed[-len(books.norms) :])


def test_a_coin_that_fell_otherwise_is_refused(agents: list[DeviceAgent]) -> None:
    heard = answers(agents)
    heard = [answer._replace(takes_part=not answer.takes_part) for answer in heard]
    refused = Round(RULES, Books.opened(RULES), 0, heard).refused
    assert list(refused) == list(range(DEVICES))
    assert all("its coin says otherwise" in why for why in refused.values())


def test_two_nodes_that_say_to_be_one_device_are_both_refused(agents: list[DeviceAgent]) -> None:
    heard = answers(agents)
    round = Round(RULES, Books.opened(RULES), 0, [*heard, heard[1], heard[1]])
    assert round.refused == {1: "answered from more than one node"}
    stranger = heard[1]._replace(device=17)
    assert Round(RULES, Books.opened(RULES), 0, [*heard, stranger]).refused == {
        17: "is not enrolled: devices are numbered 0 to 5"
    }


def test_an_audit_makes_the_decision_again(agents: list[DeviceAgent]) -> None:
    rules = dataclasses.replace(RULES, audit=True)
    for number in range(5):
        heard = answers(agents, number)
        books = silent_until(number, Books.opened(rules))
        assert not Round(rules, books, number, heard).refused
    last = heard[0]
    assert last.gain is not None
    assert last.state is not None
    changed = {
        "a last bit": (last._replace(power=np.nextafter(last.power, 0)), None),
        "what rounding may be": (last._replace(power=last.power * (1 - 5e-10)), None),
        "a little less": (last._replace(power=last.power * (1 - 2e-9)), "from what it tells follow"),
        "a better gain": (last._replace(gain=last.gain * 1.01), "from what it tells follow"),
        "a longer airtime": (last._replace(airtime_s=last.airtime_s * 2), "from what it tells follow"),
        "a lower backlog": (last._replace(state=(last.state[0] * 0.9,)), "from what it tells follow"),
        "nothing": (last._replace(gain=None, state=None), "does not tell what it decided from"),
        "half of it": (last._replace(state=()), "does not tell what it decided from"),
        "no number": (last._replace(gain=math.nan), "does not tell what it decided from"),
    }
    for what, (answer, complaint) in changed.items():
        refused = Round(rules, books, number, [answer, *heard[1:]]).refused
        assert list(refused) == ([] if complaint is None else [0]), what
        assert complaint is None or complaint in refused[0]


def usual_books(norm: float = 1.0) -> Books:
    books = Books.opened(RULES)
    return books._replace(norms=np.full_like(books.norms, norm), updates=len(books.norms))


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        (Delivery(np.full(NUMBERS, np.nan, np.float32)), "not finite"),
        (Delivery(np.full(NUMBERS, np.inf, np.float32)), "not finite"),
        (Delivery(np.full(NUMBERS, 1e3, np.float32)), "of norm 2e\\+03, 2000 times what is usual"),
        (Delivery(np.ones(NUMBERS + 1, np.float32)), "of shape \\(5,\\); the model has 4 numbers"),
        (Delivery(np.empty(0, np.float32)), "no update with the model's names and shapes"),
        (Delivery(np.ones(NUMBERS, np.float32), math.inf), "its loss is inf"),
    ],
)
def test_an_update_out_of_all_proportion_is_refused(sent: Delivery, complaint: str, agents: list[DeviceAgent]) -> None:
    round = Round(RULES, usual_books(), 0, answers(agents))
    device = int(round.draw.devices[0])
    closed = round.close(NUMBERS, all_of(round) | {device: sent})
    assert np.isfinite(closed.change).all()
    assert list(closed.record.refused) == [str(device)]
    assert re.search(complaint, closed.record.refused[str(device)])
    assert closed.books.refused[device] == 1
    assert device not in closed.record.delivered
    assert device not in closed.record.lost
    json.loads(closed.record.line())


def test_what_nobody_asked_for_is_refused(agents: list[DeviceAgent]) -> None:
    round = Round(RULES, Books.opened(RULES), 0, answers(agents))
    uninvited = next(n for n in range(DEVICES) if n not in round.draw.devices)
    closed = round.close(NUMBERS, all_of(round) | {uninvited: update(uninvited, 1e3)})
    assert closed.record.refused == {str(uninvited): "sent an update that nobody asked for"}
    assert closed.change.tobytes() == round.close(NUMBERS, all_of(round)).change.tobytes()


def test_the_first_updates_are_not_judged_by_too_few(agents: list[DeviceAgent]) -> None:
    round = Round(RULES, Books.opened(RULES)._replace(updates=2), 0, answers(agents))
    device = int(round.draw.devices[0])
    assert not round.close(NUMBERS, {device: update(device, 1e4)}).record.refused


def test_where_updates_are_usually_zero_nothing_is_out_of_proportion(agents: list[DeviceAgent]) -> None:
    round = Round(RULES, usual_books(norm=0.0), 0, answers(agents))
    device = int(round.draw.devices[0])
    record = round.close(NUMBERS, {device: update(device)}).record
    assert record.delivered == [device]
    assert not record.refused


def test_a_sum_that_cannot_be_held_is_refused(agents: list[DeviceAgent]) -> None:
    round = Round(RULES, Books.opened(RULES), 0, answers(agents))
    device = int(round.draw.devices[0])
    why = round.close(NUMBERS, {device: update(device, 1e9)}).record.refused[str(device)]
    assert "beyond what a sum can hold" in why


def test_the_floor_bounds_weights_and_its_cut_is_the_bias() -> None:
    """Of an update of ones, the expected change is short of 1 by what is recorded, exactly."""
    floor = 0.3
    rules = Rules(fw.UniformPoisson(fw.Link(1e6, 1e6), DEVICES, participants=1.2), SEED, floor=floor, fallback="none")
    q = np.array([0.9, 0.5, 0.29, 0.1, 0.02, 0.0])
    assert isinstance(rules.policy, fw.UniformPoisson)
    expected = np.sum(np.minimum(1.0, q / floor)) / DEVICES
    decision = fw.Decision(q, np.ones(DEVICES), 1 / DEVICES)
    cut, total, rounds = [], [], 4000
    for number in range(rounds):
        takes_part = fw.Poisson.volunteers(decision, fw.Stream(SEED, number))
        round = Round(rules, Books.opened(rules), number, given(rules, number, q, takes_part))
        assert not round.refused
        assert (round.weights <= 1 / DEVICES / floor).all()
        closed = round.close(1, {int(n): Delivery(np.ones(1, np.float32)) for n in round.draw.devices})
        cut.append(closed.record.cut_share)
        total.append(closed.change[0])
    reachable = 5 / DEVICES
    assert cut == pytest.approx([reachable - expected] * rounds)
    error = np.std(total) / math.sqrt(rounds)
    assert abs(np.mean(total) - expected) < 4 * error
    assert expected < reachable - 20 * error


def test_what_the_floor_cuts_off_is_of_what_arrives(agents: list[DeviceAgent]) -> None:
    """A device whose updates come every second time is below a floor that its π alone is not."""
    rules, heard = dataclasses.replace(RULES, floor=0.3), answers(agents)
    books = Books.opened(rules)
    books.deliveries.intervals[2, 0], books.deliveries.known[2] = 2, 1
    books.deliveries.intervals[3, 0], books.deliveries.known[3] = 1, 1
    round = Round(rules, books, 0, heard)
    assert round.draw.population_inclusion is not None
    arriving = round.draw.population_inclusion / np.where(np.arange(DEVICES) == 2, 2.0, 1.0)
    expected = np.sum(np.maximum(1 - arriving / 0.3, 0)) / DEVICES
    assert arriving[2] < 0.3 < 2 * arriving[2]
    assert round.close(NUMBERS, {}).record.cut_share == pytest.approx(expected, rel=1e-12)


def given(rules: Rules, number: int, q: np.ndarray, takes_part: np.ndarray) -> list[Answer]:
    """Answers with these probabilities."""
    settings = settings_of(rules.policy, rules.seed)
    return [
        Answer(n, number, float(q[n]), float(q[n] > 0), bool(takes_part[n]), 0, 1.0, settings) for n in range(len(q))
    ]


def test_lost_updates_are_counted_and_delivery_learns(agents: list[DeviceAgent]) -> None:
    books = Books.opened(RULES)
    attempts = np.zeros(DEVICES, int)
    for number in range(60):
        round = Round(RULES, books, number, answers(agents, number))
        participants = round.draw.devices.tolist()
        for device in participants:
            agents[device].join(number, device in round.draw.asked)
            attempts[device] += 1
        # Device 0 comes through every third time, the others always.
        there = {n: update(n) for n in participants if n != 0 or attempts[0] % 3 == 0}
        closed = round.close(NUMBERS, there)
        assert closed.record.lost == [n for n in participants if n not in there]
        books = closed.books
    assert books.lost.tolist() == [attempts[0] - attempts[0] // 3, 0, 0, 0, 0, 0]
    assert books.delivered.tolist() == [attempts[0] // 3, *attempts[1:]]
    # A round in which the lossy device takes part: what comes counts for what did not.
    number = next(n for n in range(60, 200) if answers(agents, n)[0].takes_part)
    heard = answers(agents, number)
    later, loss_free = (Round(RULES, silent_until(number, b), number, heard) for b in (books, Books.opened(RULES)))
    assert later.delivery.tolist() == [3.0 if n == 0 else 1.0 for n in later.draw.devices]
    assert later.weights.tolist() == pytest.approx((loss_free.weights * later.delivery).tolist(), rel=1e-12)


def test_a_device_that_begins_anew_is_believed(tmp_path: Path, agents: list[DeviceAgent]) -> None:
    """Its file was lost, and with it how often it had volunteered; nobody takes that for lost updates."""
    books = Books.opened(RULES)
    for number in range(30):
        round = Round(RULES, books, number, answers(agents, number))
        books = round.close(NUMBERS, all_of(round)).books
    assert books.heard[2] > 2
    (tmp_path / "2.npz").unlink()
    agents[2] = DeviceAgent(POLICY, 2, SEED, gains_of_channel(fw.Rayleigh(2.0), 2, SEED), tmp_path / "2.npz")
    for number in range(30, 60):
        round = Round(RULES, books, number, answers(agents, number))
        assert not round.refused
        books = round.close(NUMBERS, all_of(round)).books
    assert books.deliveries.intervals.max() == 1


def test_attempts_that_a_device_makes_up_do_not_raise_its_weight(agents: list[DeviceAgent]) -> None:
    """One that has answered every round has none of which the server has not heard."""
    books, liar = Books.opened(RULES), 2
    for number in range(40):
        heard = answers(agents, number)
        heard[liar] = heard[liar]._replace(volunteered=number)
        round = Round(RULES, books, number, heard)
        believed = int(books.heard[liar])
        assert (liar in round.refused) == (0 <= believed < number)
        books = round.close(NUMBERS, all_of(round)).books
    assert books.refused[liar] > 10
    assert books.deliveries.intervals.max() == 1


def test_what_a_device_does_while_it_is_refused_is_not_lost(agents: list[DeviceAgent]) -> None:
    """Once its configuration is put right, it does not weigh more for the rounds in which it was off."""
    books = Books.opened(RULES)
    for number in range(60):
        heard = answers(agents, number)
        if 5 <= number < 45:
            heard[2] = heard[2]._replace(settings="{}")
        round = Round(RULES, books, number, heard)
        assert list(round.refused) == ([2] if 5 <= number < 45 else [])
        books = round.close(NUMBERS, all_of(round)).books
    assert books.heard[2] > books.delivered[2] + 5
    assert books.deliveries.intervals.max() == 1


def test_attempts_in_rounds_that_went_unheard_are_believed(agents: list[DeviceAgent]) -> None:
    books, missed = Books.opened(RULES), 0
    for number in range(60):
        heard = answers(agents, number)
        if 5 <= number < 45:
            missed += heard[2].takes_part
            del heard[2]
        round = Round(RULES, books, number, heard)
        assert not round.refused
        books = round.close(NUMBERS, all_of(round)).books
    assert missed > 5
    assert books.deliveries.intervals[2].max() == missed + 1


def test_rules_that_cannot_be_are_refused() -> None:
    settings: list[dict[str, Any]] = [
        {"floor": 2.0},
        {"least_probability": -1.0},
        {"largest_norm_ratio": 0.5},
        {"delivery_intervals": -1},
        {"server_step_size": 0.0},
        {"fallback": "perhaps"},
        {"seed": -1},
        {"audit": "yes"},
    ]
    for setting in settings:
        with pytest.raises(fw.FadewiseError, match=next(iter(setting))):
            dataclasses.replace(RULES, **setting)
    with pytest.raises(fw.FadewiseError, match=r"warm_start_rounds is 5; a device has seen no rounds .* it must be 0"):
        Rules(dataclasses.replace(POLICY, warm_start_rounds=5))
    experiment = fw.Experiment(6, fw.Rayleigh(2.0), fw.Uniform(fw.Link(1e6, 1e6), 6, participants=2.0))
    with pytest.raises(fw.FadewiseError, match="policy uniform sees every device's channel"):
        Rules.of(experiment)
    experiment = fw.Experiment(6, fw.Rayleigh(2.0), POLICY, sampling=fw.Systematic())
    with pytest.raises(fw.FadewiseError, match="sampling systematic draws for all devices at once"):
        Rules.of(experiment)
    experiment = fw.Experiment(6, fw.Rayleigh(2.0), POLICY, access=fw.FDMA())
    with pytest.raises(fw.FadewiseError, match=r"access fdma shares the band .* on devices it is tdma"):
        Rules.of(experiment)


def test_rules_are_the_experiments() -> None:
    experiment = fw.load("handwriting/het", {"policy.warm_start_rounds": 0, "training.server_step_size": 0.5})
    experiment = dataclasses.replace(experiment, sampling=fw.Poisson(fallback="published"), seed=4)
    rules = Rules.of(experiment)
    assert (rules.devices, rules.seed, rules.fallback, rules.server_step_size) == (100, 4, "published", 0.5)


def test_books_are_saved_and_loaded(tmp_path: Path, agents: list[DeviceAgent]) -> None:
    round = Round(RULES, Books.opened(RULES), 0, answers(agents))
    books = round.close(NUMBERS, all_of(round)).books
    fw.save_state(tmp_path / "books.npz", books)
    loaded = fw.load_state(tmp_path / "books.npz", Books.opened(RULES))
    assert isinstance(loaded.deliveries, Deliveries)
    assert loaded.deliveries.known.tolist() == books.deliveries.known.tolist()
    assert loaded.spent.tolist() == books.spent.tolist()
