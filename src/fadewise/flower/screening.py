"""What a server does not believe: answers that cannot be, coins that fell otherwise, updates out of all proportion.

Each check returns why something is refused, in a few words, or None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise.errors import FadewiseError
from fadewise.flower.answers import Answer, difference, settings_of
from fadewise.flower.rules import Rules
from fadewise.randomness import Stream
from fadewise.state import flatten, unflatten

AUDITED_TO = 1e-9
"""Processors differ in the last bits of a logarithm, and a decision with them."""
_LONGEST_S = 1e9
"""Thirty years on the air: who says more does not mean it, and the books must be able to add it up."""


def screened(
    rules: Rules, number: int, most_volunteered: NDArray[np.int64], answers: Sequence[Answer]
) -> tuple[dict[int, Answer], dict[int, str]]:
    """The answers that are believed, by device, and why each other device is refused.

    most_volunteered: how often each device can have taken part before, by what it has told.
    """
    believed: dict[int, Answer] = {}
    refused: dict[int, str] = {}
    peaks = np.broadcast_to(rules.policy.link.peak_power, rules.devices)
    coins = Stream(rules.seed, number).uniforms("draw", rules.devices)
    ours = settings_of(rules.policy, rules.seed)
    for answer in answers:
        device = answer.device
        if not 0 <= device < rules.devices:
            refused[device] = f"is not enrolled: devices are numbered 0 to {rules.devices - 1}"
        elif device in believed or device in refused:
            # Which of the two is the device cannot be known.
            refused[device] = "answered from more than one node"
        else:
            known = _Known(float(peaks[device]), float(coins[device]), ours, int(most_volunteered[device]))
            complaint = _complaint(rules, known, number, answer)
            if complaint is None:
                believed[device] = answer
            else:
                refused[device] = complaint
    if rules.audit:
        refused |= _audited(rules, believed)
    return {device: answer for device, answer in sorted(believed.items()) if device not in refused}, refused


class _Known(NamedTuple):
    """What the server knows of a device by itself."""

    peak: float
    coin: float
    settings: str
    most_volunteered: int


def _complaint(rules: Rules, known: _Known, number: int, answer: Answer) -> str | None:
    q, power = answer.probability, answer.power
    peak, coin, ours, most_volunteered = known
    if answer.settings != ours:
        return f"decides by other settings: {difference(ours, answer.settings)}"
    if answer.round != number:
        return f"answered for round {answer.round} in round {number}"
    if not 0 <= q <= 1:
        return f"says that its probability is {q:g}; it must be from 0 to 1"
    if not 0 <= power <= peak:
        return f"says that its power is {power:g}; its limit is {peak:g}"
    if 0 < q < rules.least_probability:
        return f"says that its probability is {q:g}, below {rules.least_probability:g}: its weight would swamp the rest"
    if q > 0 and not (power > 0 and 0 < answer.airtime_s <= _LONGEST_S):
        return f"says that it would send at power {power:g} for {answer.airtime_s:g} s"
    if answer.takes_part != (coin < q):
        return f"says that it {'takes part' if answer.takes_part else 'stays out'}; its coin says otherwise"
    if not 0 <= answer.volunteered <= most_volunteered:
        return f"says that it had volunteered {answer.volunteered} times; it can have been {most_volunteered} at most"
    return None


def _audited(rules: Rules, believed: dict[int, Answer]) -> dict[int, str]:
    """The devices whose decision does not follow from the gain and the state that they tell."""
    refused: dict[int, str] = {}
    like = rules.policy.init(rules.devices)
    arrays = {name: value.copy() for name, value in flatten(like).items()}
    gains = np.zeros(rules.devices)
    for device, answer in believed.items():
        told = (answer.gain, *(answer.state or ()))
        numbers = [value for value in told if value is not None and 0 <= value < math.inf]
        if len(numbers) != 1 + len(arrays) or len(told) != len(numbers):
            refused[device] = "does not tell what it decided from, which the audit asks for"
            continue
        gains[device] = numbers[0]
        for array, value in zip(arrays.values(), numbers[1:], strict=True):
            array[device] = value
    try:
        decision, _ = rules.policy.decide(unflatten(arrays, like), gains)
    except FadewiseError as error:  # a policy of somebody's own, with conditions of its own
        return dict.fromkeys(believed, f"cannot be audited: {error}")
    airtimes_s = rules.policy.link.airtime_s(gains, decision.power)
    for device, answer in believed.items():
        ours = float(decision.probability[device]), float(decision.power[device]), float(airtimes_s[device])
        theirs = answer.probability, answer.power, answer.airtime_s
        if device not in refused and not np.allclose(theirs, ours, rtol=AUDITED_TO, atol=0):
            said, right = ("q = {:g}, P = {:g} and {:g} s".format(*numbers) for numbers in (theirs, ours))
            refused[device] = f"says that it decided {said}; from what it tells follow {right}"
    return refused


def update_complaint(rules: Rules, norm: float, loss: float, median: float, weight: float, most: float) -> str | None:
    """Why an update is refused.

    median: of the norms of the last updates that were not refused; NaN while there are too few to tell.
    most: what weight and norm may come to together, so that the sum can hold it.
    """
    if not math.isfinite(norm):
        return "sent an update that is not finite"
    if math.isinf(loss):
        return f"says that its loss is {loss:g}"
    if 0 < rules.largest_norm_ratio * median < norm:  # where updates are usually zero, nothing is out of proportion
        return f"sent an update of norm {norm:.3g}, {norm / median:.0f} times what is usual"
    if weight * norm >= most:
        return f"sent an update of norm {norm:.3g}, which at weight {weight:.3g} is beyond what a sum can hold"
    return None
