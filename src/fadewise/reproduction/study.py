"""What a study is: the runs that it needs, and the page that it makes of their numbers."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from fadewise import config
from fadewise.reports import runs
from fadewise.reports.runs import Arm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fadewise.reproduction.store import Store

Scale = Literal["quick", "full"]


@dataclass(frozen=True)
class Line:
    """A configuration that a study trains, under several seeds: a line in its figures.

    name: what figures call it. preset, changes: the configuration.
    seeds: under how many seeds, from 0 on, unless the command says which.
    judged: whether the model in the end is to be judged by class and by device group.
    """

    name: str
    preset: str
    changes: Mapping[str, Any]
    rounds: int
    seeds: int
    judged: bool = False

    def settings(self, seed: int) -> dict[str, Any]:
        """The run's settings, as `config.experiment` takes them."""
        changes = {**self.changes, "seed": seed, "rounds": self.rounds}
        return config.with_settings(config.read(self.preset), changes)

    @property
    def identity(self) -> str:
        """A name of what is trained: the same for all lines, of whatever study, whose runs are the same.

        Made of what is written down, without defaults: a setting that fadewise will have some day renames nothing.
        """
        settings = self.settings(0)
        for name in runs.HOW_COMPUTED:
            settings.get("training", {}).pop(name, None)
        digest = hashlib.sha256(runs.key(settings).encode()).hexdigest()
        return f"{self.preset.replace('/', '-')}-{digest[:10]}"


@dataclass(frozen=True)
class Verdict:
    """A published number beside ours. ci: ours; None where there is none, and then no verdict either."""

    what: str
    published: float
    ours: str
    ci: tuple[float, float] | None

    @property
    def word(self) -> str:
        """Whether our interval contains the published number."""
        if self.ci is None:
            return "open"
        return "inside" if self.ci[0] <= self.published <= self.ci[1] else "outside"


@dataclass(frozen=True)
class Page:
    """What a study shows: text with tables in Markdown, figures by name (`![](name.svg)` in the text), verdicts."""

    text: str
    figures: Mapping[str, Figure] = field(default_factory=dict)
    verdicts: Sequence[Verdict] = ()


@dataclass(frozen=True)
class Numbers:
    """What a study has to make its page of.

    store: the runs' numbers, as far as they are there. note: what every figure and page has to say of the scale.
    moving_average: over how many rounds curves are averaged; 0 leaves them as they are.
    """

    scale: Scale
    note: str
    moving_average: int
    store: Store

    def arm(self, line: Line) -> Arm | None:
        """The runs of a line that are there, as if none had gone on for longer than the line asks; None if none is."""
        found = self.store.runs(line.identity)
        whole = {seed: run.cut(line.rounds) for seed, run in found.items() if run.rounds >= line.rounds}
        return Arm(line.name, next(iter(whole.values())).settings, whole) if whole else None

    def arms(self, lines: Sequence[Line]) -> list[Arm]:
        """Those lines' arms that have runs."""
        return [arm for line in lines if (arm := self.arm(line)) is not None]


@dataclass(frozen=True, eq=False)
class Study:
    """A study. about: a paragraph for a page that is not there yet.

    lines: the runs that it needs at a scale; none where nothing is trained.
    page: of what is there. quick: in which way the quick scale falls short of the full one.
    dataset: what has to be on this machine for its runs, by its name in `fadewise data list`.
    """

    name: str
    title: str
    about: str
    quick: str
    lines: Callable[[Scale], Sequence[Line]]
    page: Callable[[Numbers], Page]
    dataset: str | None = None

    def note(self, scale: Scale) -> str:
        """What every figure says of the scale: nothing of the full one."""
        return "" if scale == "full" else f"Quick: {self.quick}."


def no_runs(scale: Scale) -> list[Line]:  # noqa: ARG001
    """Of a study that trains nothing."""
    return []


def with_changes(lines: Sequence[Line], changes: Mapping[str, Any], rounds: int, seeds: int) -> list[Line]:
    """The same lines at another scale."""
    return [
        dataclasses.replace(line, changes={**line.changes, **changes}, rounds=rounds, seeds=seeds) for line in lines
    ]
