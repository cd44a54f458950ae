"""An experiment written down: the settings that make it again, defaults included. The inverse of `config`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fadewise.config import settings_of
from fadewise.errors import FadewiseError
from fadewise.learning.models import Model
from fadewise.link import Link
from fadewise.rounds import Experiment


def manifest(experiment: Experiment) -> dict[str, Any]:
    """The settings of an experiment, as `config.experiment` takes them."""
    settings: dict[str, Any] = {
        "devices": experiment.devices,
        "rounds": experiment.rounds,
        "seed": experiment.seed,
        "link": _link(experiment.policy.link),
        "channel": _part(experiment.channel),
        "policy": _part(experiment.policy),
        "sampling": _part(experiment.sampling),
        "access": _part(experiment.access),
    }
    training = experiment.training
    if training is not None:
        if not isinstance(training.model, Model):
            raise FadewiseError("the model is a function of a program's own; a configuration file cannot hold it")
        settings |= {"data": _part(training.data), "model": _part(training.model), "training": _settings(training)}
    return settings


def differences(one: Mapping[str, Any], other: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each dotted key at which two manifests differ, with both values (None where one has none)."""
    for key in [*one, *(key for key in other if key not in one)]:
        ours, theirs = one.get(key), other.get(key)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            yield from differences(ours, theirs, f"{path}{key}.")
        elif ours != theirs:
            yield path + key, ours, theirs


def _part(part: Any) -> dict[str, Any]:
    if not hasattr(part, "kind"):
        raise FadewiseError(f"a configuration file cannot hold {type(part).__name__}, which only a program can make")
    return {"kind": part.kind} | _settings(part)


def _settings(part: Any) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name in settings_of(type(part)):
        value = getattr(part, name)
        if value is not None:  # TOML has no word for nothing: the default
            table[name] = _part(value) if dataclasses.is_dataclass(value) else _value(value)
    return table


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _groups(value)
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, str | bool | int | float):
        return value
    raise FadewiseError(f"a configuration file cannot hold a {type(value).__name__}")


def _groups(values: np.ndarray[Any, Any]) -> list[Any]:
    """A per-device setting as runs of equal values, as in `{devices = 10, value = 0.08}`."""
    starts = np.flatnonzero(np.diff(values, prepend=math.nan) != 0)
    lengths = np.diff(starts, append=len(values))
    return [
        {"devices": length, "value": value}
        for length, value in zip(lengths.tolist(), values[starts].tolist(), strict=True)
    ]


def _link(link: Link) -> dict[str, Any]:
    table = {"bandwidth_hz": link.bandwidth_hz, "payload_bits": link.payload_bits}
    unit = "_w" if link.in_watts else ""
    table |= {f"{name}{unit}": _value(getattr(link, name)) for name in ("peak_power", "mean_power")}
    if link.in_watts:
        return table | {"noise_density_w_hz": _density(link)}
    return table | {"noise_power": link.noise_power}


def _density(link: Link) -> float:
    """The noise density that gives this very noise power over the bandwidth, to the last bit if there is one."""
    density = link.noise_power / link.bandwidth_hz
    nearest = (density, math.nextafter(density, 0), math.nextafter(density, math.inf))
    return next((d for d in nearest if d * link.bandwidth_hz == link.noise_power), density)
