"""What a device tells the server of its decision."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, NamedTuple

import numpy as np

from fadewise.errors import FadewiseError
from fadewise.policies import LocalPolicy

_OF_EACH_DEVICE = ("peak_power", "mean_power", "data_shares")
"""Settings that a device may know for itself alone, and so need not agree."""


class Answer(NamedTuple):
    """A device's decision for a round.

    probability, power: q and P.
    takes_part: whether its coin, which the server can toss as well, came up for taking part.
    volunteered: in how many earlier rounds of the run it had taken part of its own accord, so that the
        server learns of those whose answers were lost.
    airtime_s: how long its update is on the air at this power, by what it knows of its channel.
    settings: by which settings it decided (`settings_of`).
    gain, state: what it decided from, for a server that audits; else None.
    """

    device: int
    round: int
    probability: float
    power: float
    takes_part: bool
    volunteered: int
    airtime_s: float
    settings: str
    gain: float | None = None
    state: tuple[float, ...] | None = None


def settings_of(policy: LocalPolicy[Any], seed: int) -> str:
    """What server and devices must agree on, as a line of text."""
    parts = {"policy": policy, "link": policy.link}
    table: dict[str, Any] = {"seed": seed, "policy": policy.kind}
    for part, value in parts.items():
        for field in dataclasses.fields(value):  # type: ignore[arg-type]  # every part is a dataclass
            setting = getattr(value, field.name)
            own = field.name in (*_OF_EACH_DEVICE, "link") or isinstance(setting, np.ndarray)
            if not own and setting is not None:
                table[f"{part}.{field.name}"] = setting
    return json.dumps(table, default=str)


def refuse_warm_start(policy: LocalPolicy[Any]) -> None:
    """A backlog can settle before the first round only where somebody knows the channel beforehand."""
    if policy.warm_start_rounds:
        raise FadewiseError(
            f"policy.warm_start_rounds is {policy.warm_start_rounds}; a device has seen no rounds before the first: "
            "it must be 0"
        )


def difference(ours: str, theirs: str) -> str:
    """The first setting on which two lines of settings differ, in words."""
    try:
        here, there = json.loads(ours), json.loads(theirs)
        for key in here | there:
            if here.get(key) != there.get(key):
                return f"{key} is {there.get(key)} there and {here.get(key)} here"
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass
    return "its settings cannot be read"
