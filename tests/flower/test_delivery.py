"""Unbiased under loss: with the correction the mean update is full participation's, without it it is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import fadewise as fw
from fadewise.flower import Answer, Books, Delivery, Round, Rules
from fadewise.flower.answers import settings_of
from fadewise.flower.delivery import attempted, nothing_known, reciprocal

DEVICES = 8
LOSS = np.linspace(0.05, 0.55, DEVICES)
"""30% on average, and unequal."""
UPDATES = np.random.default_rng(1).normal(size=(DEVICES, 3)).astype(np.float32) + np.linspace(-1, 1, DEVICES)[:, None]
SETTLING, ROUNDS, BATCHES = 600, 8_000, 40


def test_the_mean_interval_is_one_over_the_probability() -> None:
    """And one over the mean delivery is not: that is why intervals are kept."""
    rng, k = np.random.default_rng(0), 5
    devices, probability = 4_000, 0.6
    deliveries, came = nothing_known(devices, k), np.zeros(devices)
    unheard = np.zeros(devices, np.int64)
    for attempt in range(60):
        arrives = rng.random(devices) < probability
        came += arrives * (attempt >= 60 - k)
        deliveries = attempted(deliveries, unheard, np.flatnonzero(~arrives).tolist(), np.flatnonzero(arrives).tolist())
    estimate = reciprocal(deliveries)
    error = estimate.std() / math.sqrt(devices)
    assert abs(estimate.mean() - 1 / probability) < 4 * error
    naive = k / np.maximum(came, 1)
    assert naive.mean() - 1 / probability > 10 * error


def test_attempts_of_which_the_server_learns_late_count() -> None:
    deliveries = nothing_known(2, 3)
    deliveries = attempted(deliveries, np.array([0, 0]), [0], [1])
    deliveries = attempted(deliveries, np.array([2, 0]), [], [0])
    assert reciprocal(deliveries).tolist() == [4.0, 1.0]
    assert deliveries.pending.tolist() == [0, 0]


def test_the_mean_is_of_the_last_intervals() -> None:
    deliveries, nothing = nothing_known(1, 3), np.zeros(1, np.int64)
    for interval in (9, 1, 2, 3, 4):
        for _ in range(interval - 1):
            deliveries = attempted(deliveries, nothing, [0], [])
        deliveries = attempted(deliveries, nothing, [], [0])
    assert reciprocal(deliveries).tolist() == [3.0]


class Lossy:
    """Devices whose updates get lost, or whose answers do with the updates in them."""

    def __init__(self, rules: Rules, answers_too: bool) -> None:
        self.rules = rules
        self.answers_too = answers_too
        self.channel = fw.Rayleigh(np.linspace(0.3, 3.0, DEVICES))

    def mean_change(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The mean update over the rounds and its standard error, by batches of rounds: estimates linger."""
        rules, policy = self.rules, self.rules.policy
        books, state = Books.opened(rules), policy.init(DEVICES)
        volunteered = np.zeros(DEVICES, int)
        settings, rng = settings_of(policy, rules.seed), np.random.default_rng(2)
        changes = np.empty((ROUNDS, UPDATES.shape[1]))
        for number in range(SETTLING + ROUNDS):
            stream = fw.Stream(rules.seed, number)
            gains, _ = self.channel.step(self.channel.init(DEVICES, stream), DEVICES, stream)
            decision, state = policy.decide(state, gains)
            takes_part = fw.Poisson.volunteers(decision, stream)
            arrives = rng.random(DEVICES) >= LOSS
            answers = [
                Answer(n, number, float(q), float(p), bool(t), int(v), 1.0, settings)
                for n, (q, p, t, v) in enumerate(zip(*decision[:2], takes_part, volunteered, strict=True))
                if arrives[n] or not self.answers_too
            ]
            round = Round(rules, books, number, answers)
            assert not round.refused
            sent = {int(n): Delivery(UPDATES[n]) for n in round.draw.devices if arrives[n]}
            closed = round.close(UPDATES.shape[1], sent)
            state = policy.observe(state, fw.Feedback(round.draw))
            volunteered += takes_part
            books = closed.books
            if number >= SETTLING:
                changes[number - SETTLING] = closed.change
        means = changes.reshape(BATCHES, -1, UPDATES.shape[1]).mean(axis=1)
        return means.mean(axis=0), means.std(axis=0, ddof=1) / math.sqrt(BATCHES)


@pytest.mark.parametrize("answers_too", [False, True], ids=["updates", "answers"])
def test_unequal_loss_does_not_bias_the_mean_update(answers_too: bool) -> None:
    policy = fw.Lyapunov(fw.Link(22e6, 1.7e6), DEVICES, airtime_weight=30.0)
    fallback: fw.sampling.Fallback = "none" if answers_too else "corrected"
    full = UPDATES.mean(axis=0)
    mean, error = Lossy(Rules(policy, 5, fallback=fallback), answers_too).mean_change()
    assert (np.abs(mean - full) < 4 * error).all()
    without = Rules(policy, 5, fallback=fallback, delivery_intervals=0)
    mean, error = Lossy(without, answers_too).mean_change()
    assert (np.abs(mean - full) > 8 * error).any()
    # What is lost is what is missing.
    expected = ((1 - LOSS)[:, None] * UPDATES).mean(axis=0)
    assert (np.abs(mean - expected) < 4 * error).all()
