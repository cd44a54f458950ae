"""The numbers of runs, kept when their folders are gone: a small JSON file for each configuration.

They are all that tables, figures and pages are made of, so that a page can be made again without training, and
what has been trained once, on whichever machine, is not trained again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fadewise.errors import FadewiseError
from fadewise.files import write_whole
from fadewise.reports.curves import Evaluation
from fadewise.reports.runs import DeviceGroup, Run

_DIGITS = 7


class Store:
    """A folder of such files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, dict[int, Run]] = {}

    def runs(self, identity: str) -> Mapping[int, Run]:
        """The runs of a configuration, by their seeds."""
        if identity not in self._read:
            path = self._path(identity)
            self._read[identity] = _parsed(path) if path.exists() else {}
        return self._read[identity]

    def rounds(self, identity: str, seed: int) -> int:
        """How many rounds of a run are there."""
        run = self.runs(identity).get(seed)
        return 0 if run is None else run.rounds

    def add(self, identity: str, run: Run) -> None:
        """Keeps a run, in the place of a shorter one of the same seed; the file is written whole or not at all."""
        kept = dict(sorted({**self.runs(identity), run.seed: run}.items()))
        path = self._path(identity)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, _text(kept))
            del self._read[identity]  # what is looked at is what will be read next time, to the last digit
        except OSError as error:
            raise FadewiseError(f"{path} cannot be written: {error.strerror or error}") from None

    def _path(self, identity: str) -> Path:
        return self.folder / f"{identity}.json"


def _text(kept: Mapping[int, Run]) -> str:
    """A line for the configuration, and one for each run."""
    settings = {k: v for k, v in next(iter(kept.values())).settings.items() if k not in ("seed", "rounds")}
    lines = ",\n".join(f"{_line(str(seed))}:{_line(_as_json(run))}" for seed, run in kept.items())
    return f'{{"settings":{_line(settings)},\n"runs":{{\n{lines}\n}}}}\n'


def _line(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _as_json(run: Run) -> dict[str, Any]:
    return {
        "rounds": run.rounds,
        "core_s": _number(run.core_s),
        "evaluations": {name: [_number(getattr(one, name)) for one in run.evaluations] for name in Evaluation._fields},
        "device_groups": [[g.name, g.devices, _number(g.participation), _number(g.power)] for g in run.device_groups],
        "power": [[rounds, _number(power)] for rounds, power in run.power],
        "judged": {name: [_number(value) for value in values] for name, values in run.judged.items()},
    }


def _parsed(path: Path) -> dict[int, Run]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {
            int(seed): _run(f"{path}, seed {seed}", content["settings"] | {"seed": int(seed)}, of_seed)
            for seed, of_seed in content["runs"].items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FadewiseError(
            f"{path} cannot be read as runs' numbers: {error}; remove it to have it made again"
        ) from None


def _run(name: str, settings: Mapping[str, Any], content: Mapping[str, Any]) -> Run:
    columns = [content["evaluations"][field] for field in Evaluation._fields]
    return Run(
        name,
        {**settings, "rounds": content["rounds"]},
        content["rounds"],
        [Evaluation(*map(_float, row)) for row in zip(*columns, strict=True)],
        [DeviceGroup(*group) for group in content["device_groups"]],
        [(rounds, power) for rounds, power in content["power"]],
        _float(content["core_s"]),
        content["judged"],
    )


def _number(value: float) -> float | None:
    if isinstance(value, int):
        return value
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def _float(value: Any) -> Any:
    return math.nan if value is None else value


def core_hours(runs: Sequence[Run]) -> str:
    """The processor time of runs, and of how many it is known where it is not of all."""
    known = [run.core_s for run in runs if math.isfinite(run.core_s)]
    of_some = "" if len(known) == len(runs) else f" (of the {len(known)} of which it is known)"
    return f"{math.fsum(known) / 3600:.2g} core-hours{of_some}"
