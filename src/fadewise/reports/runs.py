"""Runs as reports see them: read from their folders, and brought together where they differ in the seed alone."""

from __future__ import annotations

import itertools
import json
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fadewise.errors import FadewiseError, shown
from fadewise.reports.curves import Evaluation

HOW_COMPUTED = ("backend", "device")
"""Settings of training that say how it is computed, and not what."""

_MOST_DEVICE_GROUPS = 8
_POWER_POINTS = 80
_SYMBOLS = {"airtime_weight": "λ", "penalty_weight": "V", "participants": "M", "steps": "I", "step_size": "γ"}


class DeviceGroup(NamedTuple):
    """Devices that a setting has in common, and what they did on average.

    participation: how many updates one of them sent a round. power: what one spent a round, over its limit.
    """

    name: str
    devices: int
    participation: float
    power: float


class Run(NamedTuple):
    """A run.

    name: its folder. settings: of its config.toml. rounds: how many have been played.
    power: after some of the rounds, the average power so far over its limit.
    core_s: processor time, of all its ranks if they took as much each; NaN where that is not known.
    judged: accuracies of the last model, where somebody has looked closer (`reproduction.judgement`).
    """

    name: str
    settings: Mapping[str, Any]
    rounds: int
    evaluations: Sequence[Evaluation]
    device_groups: Sequence[DeviceGroup]
    power: Sequence[tuple[int, float]]
    core_s: float
    judged: Mapping[str, Sequence[float]] = MappingProxyType({})

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.settings["seed"])

    def cut(self, rounds: int) -> Run:
        """The same run as if it had ended earlier; what devices did is of all rounds still."""
        kept = [one for one in self.evaluations if one.rounds <= rounds]
        return self._replace(rounds=min(rounds, self.rounds), evaluations=kept)


class Arm(NamedTuple):
    """Runs of one configuration, by their seeds."""

    name: str
    settings: Mapping[str, Any]
    runs: Mapping[int, Run]

    @property
    def uniform(self) -> bool:
        """Whether it is uniform choice, which others are compared with."""
        return str(self.settings["policy"]["kind"]).startswith("uniform")


def arms(paths: Sequence[Path]) -> list[Arm]:
    """The runs of these folders, or of the folders in them, by configuration and in the order given.

    One folder with several configurations in it gives no order: then uniform choice is first, as others are compared
    with it.
    """
    gathered: dict[str, dict[int, Run]] = {}
    for folder in folders(paths):
        run = read(folder)
        of_configuration = gathered.setdefault(key(run.settings), {})
        if run.seed in of_configuration:
            raise FadewiseError(
                f"{of_configuration[run.seed].name} and {folder} are runs of the same configuration and seed; "
                "give one of them"
            )
        of_configuration[run.seed] = run
    settings = [next(iter(runs.values())).settings for runs in gathered.values()]
    found = [
        Arm(name, common, dict(sorted(runs.items())))
        for name, common, runs in zip(names(settings), settings, gathered.values(), strict=True)
    ]
    return sorted(found, key=lambda arm: not arm.uniform) if len(paths) == 1 else found


def folders(paths: Sequence[Path]) -> list[Path]:
    """The runs' folders at or below these paths, each once."""
    found: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise FadewiseError(f"{path} is not there; give a run's folder, or a folder of runs' folders")
        below = sorted(
            config.parent for config in path.rglob("config.toml") if (config.parent / "rounds.jsonl").exists()
        )
        if not below:
            raise FadewiseError(f"{path} is not a run's folder, and has none in it: no config.toml beside rounds.jsonl")
        found.update(dict.fromkeys(below))
    return list(found)


def key(settings: Mapping[str, Any]) -> str:
    """What is equal for runs that differ in nothing but the seed and how far they have come."""
    return json.dumps(
        {name: value for name, value in settings.items() if name not in ("seed", "rounds")}, sort_keys=True
    )


def read(folder: Path) -> Run:
    """A run from its folder, as far as it has come."""
    settings = _parsed(folder / "config.toml", tomllib.loads)
    records = _parsed(folder / "rounds.jsonl", lambda text: [json.loads(line) for line in _whole_lines(text)])
    for name, of_type in (("devices", int), ("seed", int), ("link", dict), ("channel", dict), ("policy", dict)):
        if not isinstance(settings.get(name), of_type):
            raise FadewiseError(f"{folder}/config.toml has no {name}; it must be as `fadewise run` writes it")
    if "kind" not in settings["policy"]:
        raise FadewiseError(f"{folder}/config.toml has no policy.kind; it must be as `fadewise run` writes it")
    if records and isinstance(records[0], dict) and "answered" in records[0]:
        raise FadewiseError(
            f"{folder} has a server's books of devices on Flower; give runs that `fadewise run` has made"
        )
    rounds_s = timing_of_rounds(folder, "wall_s")
    walls = dict(zip(rounds_s, itertools.accumulate(rounds_s.values()), strict=True))
    try:
        evaluations = [
            Evaluation(
                record["round"] + 1,
                record["accuracy"],
                record["loss"],
                record["total_airtime_s"],
                record["total_round_time_s"],
                record["total_energy"],
                walls.get(record["round"], math.nan),
            )
            for record in records
            if record["accuracy"] is not None
        ]
        if not evaluations:
            raise FadewiseError(f"{folder} has no evaluation yet; wait until the run has come to its first")
        return Run(
            str(folder),
            settings,
            len(records),
            evaluations,
            _device_groups(settings, records),
            _power(settings, records),
            _core_s(folder, len(records)),
        )
    except FadewiseError:
        raise
    except (LookupError, TypeError, ValueError) as error:
        raise FadewiseError(
            f"{folder}/rounds.jsonl has a line that is no record of a round as config.toml has them: {error}"
        ) from None


def names(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each configuration: its policy, and what tells it from the others.

    A setting of a table is compared among those whose table is of the same kind: λ tells no uniform choice from
    another.
    """
    flat = [dict(_flat(one)) for one in settings]
    return [", ".join(_words(one, flat)) for one in flat]


def limit(settings: Mapping[str, Any]) -> float:
    """The limit on average power, averaged over devices."""
    link = settings["link"]
    value = link.get("mean_power", link.get("mean_power_w"))
    if isinstance(value, list):
        return float(sum(group["devices"] * group["value"] for group in value) / settings["devices"])
    return float(value)


def groups_of(settings: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Names and sizes: by the first setting of the channel, else of the link, that is given in groups of devices."""
    for table in ("channel", "link"):
        for name, value in _flat(settings[table]):
            if isinstance(value, list) and 1 < len(value) <= _MOST_DEVICE_GROUPS:
                what = name.rpartition(".")[2].replace("_", " ")
                return [(f"{what} {group['value']:g}", group["devices"]) for group in value]
    return [("all devices", settings["devices"])]


def _words(one: Mapping[str, Any], flat: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield str(one["policy.kind"])
    for name, value in one.items():
        table, _, last = name.rpartition(".")
        if name in ("policy.kind", "seed", "rounds"):
            continue
        kind = f"{table}.kind"
        peers = flat if last == "kind" else [other for other in flat if other.get(kind) == one.get(kind)]
        if any(other.get(name) != value for other in peers):
            if last == "kind":
                yield str(value)
            elif last in _SYMBOLS:
                yield f"{_SYMBOLS[last]} = {_short(value)}"
            else:
                yield f"{last.replace('_', ' ')} {_short(value)}"


def _short(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(group, dict) for group in value):
        return "/".join(f"{group['value']:g}" for group in value)
    return f"{value:g}" if isinstance(value, float) else str(value) if isinstance(value, str) else shown(value)


def _flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name}.")
        else:
            yield path + name, value


def whole_lines(path: Path) -> list[str]:
    """A file's lines; one that a kill has cut off is not among them."""
    return _whole_lines(path.read_text(encoding="utf-8"))


def _whole_lines(text: str) -> list[str]:
    return text.split("\n")[:-1]


def _parsed(path: Path, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FadewiseError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise FadewiseError(f"{path} cannot be read as `fadewise run` writes it: {error}") from None


def timing_of_rounds(folder: Path, name: str) -> dict[int, float]:
    """What each round took, `wall_s` or `cpu_s`; empty where that is not known."""
    try:
        timings = [json.loads(line) for line in whole_lines(folder / "timing.jsonl")]
        return {timing["round"]: timing[name] for timing in timings}
    except (OSError, ValueError, KeyError, TypeError):  # what the wall clock said is not needed for anything else
        return {}


def _core_s(folder: Path, rounds: int) -> float:
    cpu_s = timing_of_rounds(folder, "cpu_s")
    return math.fsum(cpu_s.values()) * _ranks(folder) if len(cpu_s) == rounds else math.nan


def _ranks(folder: Path) -> int:
    try:
        return int(json.loads((folder / "environment.json").read_text(encoding="utf-8"))["ranks"])
    except (OSError, ValueError, KeyError, TypeError):
        return 1


def _device_groups(settings: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> list[DeviceGroup]:
    devices = int(settings["devices"])
    sent, power = np.zeros(devices), np.zeros(devices)
    for record in records:
        sent[record["participants"]] += 1
        power[record["participants"]] += record["power"]
    result, first = [], 0
    for name, size in groups_of(settings):
        part = slice(first, first + size)
        rounds = max(1, len(records)) * size
        result.append(
            DeviceGroup(
                name, size, float(sent[part].sum()) / rounds, float(power[part].sum()) / rounds / limit(settings)
            )
        )
        first += size
    return result


def _power(settings: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """A point for every pixel or so on a logarithmic scale."""
    numbers = np.unique(np.geomspace(1, len(records), _POWER_POINTS).astype(int)).tolist()
    return [(number, records[number - 1]["mean_power"] / limit(settings)) for number in numbers]
