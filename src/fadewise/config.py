"""One schema for everything that a user can set, from a TOML file or a preset to an Experiment.

The schema of a part is the part itself: the fields of its dataclass are the keys of its table, so that
a new policy or channel has its settings without a line here. pydantic checks types and unknown keys,
the parts check their ranges, and either way a person gets one sentence: file, key, given, allowed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import math
import tomllib
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from fadewise.access import ACCESSES
from fadewise.channels import CHANNELS, Channel
from fadewise.checks import PerDevice
from fadewise.data import DATASETS
from fadewise.data.partitions import PARTITIONS, Partition
from fadewise.errors import FadewiseError, SettingError, shown
from fadewise.learning.models import MODELS
from fadewise.learning.training import Training
from fadewise.link import Link
from fadewise.policies import POLICIES
from fadewise.randomness import LARGEST_SEED
from fadewise.rounds import Experiment
from fadewise.sampling import SAMPLINGS

_STRICT = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)
_SUPPLIED = ("link", "population", "data", "model")
"""Fields of parts that the experiment supplies, or that have tables of their own: not settings."""

_PHYSICAL = ("_w", "_dbm", "_w_hz", "_dbm_hz")
"""Endings of the link's keys that are in physical units."""


_INNER: dict[type[Any], dict[str, type[Any]]] = {Channel: CHANNELS, Partition: PARTITIONS}
"""The parts that another part may hold, as a table in its table."""

_KINDS: dict[str, type[Any]] = {**CHANNELS, **POLICIES, **SAMPLINGS, **ACCESSES, **DATASETS, **PARTITIONS, **MODELS}
"""Every part that a table can name."""


class _Group(BaseModel):
    """A value for several devices in a row, as in `{devices = 10, value = 0.08}`."""

    model_config = _STRICT
    devices: int = Field(ge=1)
    value: float


_PerDevice = float | list[float] | list[_Group]


class _Settings(BaseModel):
    """The top level of a configuration; the tables are checked against the parts that they name."""

    model_config = _STRICT
    devices: int
    link: dict[str, Any]
    channel: dict[str, Any]
    policy: dict[str, Any]
    sampling: dict[str, Any] = {"kind": "poisson"}
    access: dict[str, Any] = {"kind": "tdma"}
    data: dict[str, Any] | None = None
    model: dict[str, Any] = {"kind": "cnn"}
    training: dict[str, Any] = {}
    rounds: int = 1000
    seed: int = 0


def preset_names() -> list[str]:
    """The configurations that ship with fadewise."""
    return sorted(
        f"{folder.name}/{file.name.removesuffix('.toml')}"
        for folder in _presets().iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    )


def preset_text(name: str) -> str:
    """A preset as a TOML file to copy."""
    if name not in preset_names():
        raise FadewiseError(f"there is no preset {name}{_nearest(name, preset_names())}; `fadewise presets` lists them")
    return _presets().joinpath(*f"{name}.toml".split("/")).read_text(encoding="utf-8")


def read(source: str) -> dict[str, Any]:
    """The settings of a preset (by name) or of a TOML file (by path), not yet checked."""
    if not source:
        raise FadewiseError("the name of the preset or file is empty; `fadewise presets` lists the presets")
    if source in preset_names():
        text = preset_text(source)
    else:
        try:
            text = Path(source).read_text(encoding="utf-8-sig")  # some editors put a mark in front
        except FileNotFoundError:
            raise FadewiseError(f"{source} is neither a file nor a preset{_nearest(source, preset_names())}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise FadewiseError(f"{source} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        settings = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise FadewiseError(f"{source} is not valid TOML: {error}") from None
    return _paths_from(Path(source).parent, settings)


def _paths_from(folder: Path, table: dict[str, Any]) -> dict[str, Any]:
    """The same settings with each relative `path` taken from the folder of the file that names it."""
    result: dict[str, Any] = {}
    for key, value in table.items():
        if key == "path" and isinstance(value, str):
            value = str(folder / value)
        result[key] = _paths_from(folder, value) if isinstance(value, dict) else value
    return result


def parse_value(text: str) -> Any:
    """A value from the command line: TOML where it is that (numbers, true, lists), else the words given."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def parse_assignment(text: str, option: str) -> tuple[str, str]:
    """`key=value` from the command line, in two."""
    key, equals, value = text.partition("=")
    if not (key.strip() and equals and value.strip()):
        raise FadewiseError(f"{option} {text!r} must be key=value, as in {option} policy.airtime_weight=10")
    if not all(step.strip() for step in key.split(".")):
        raise FadewiseError(f"{option} {text!r} has a dot too many; a key is as in policy.airtime_weight")
    return key.strip(), value.strip()


def with_settings(settings: Mapping[str, Any], changes: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """The same settings with some changed, each named by its dotted key.

    Where a table's `kind` changes, of its other settings those remain that the new kind has too.
    """
    result = dict(settings)
    for key, value in sorted(changes.items(), key=lambda change: not change[0].endswith("kind")):
        table, *rest = key.split(".", 1)
        if key == "kind" and isinstance(value, str) and value in _KINDS:
            known = settings_of(_KINDS[value])
            result = {name: kept for name, kept in result.items() if name in known}
        if not rest:
            result[table] = value
            continue
        inner = result.get(table, {})
        if not isinstance(inner, Mapping):
            raise FadewiseError(f"{path}{key} cannot be set: {path}{table} is {shown(inner)}, not a table")
        result[table] = with_settings(inner, {rest[0]: value}, f"{path}{table}.")
    return result


def experiment(settings: Mapping[str, Any], source: str) -> Experiment:
    """The experiment that checked settings describe; `source` names them in what is said of mistakes."""
    _refuse_stray(settings, source)
    top = _checked(_Settings, settings, source, "")
    with _named(source, ""):
        devices = Experiment.checked_devices(top.devices)
    link = _link(top.link, devices, source)
    build = functools.partial(_part, link=link, devices=devices, source=source)
    channel = build(CHANNELS, top.channel, "channel")
    policy = build(POLICIES, top.policy, "policy")
    sampling = build(SAMPLINGS, top.sampling, "sampling")
    with _named(source, "sampling"):
        sampling.check(devices)
    access = build(ACCESSES, top.access, "access")
    training = _training(top, build, source)
    with _named(source, ""):
        return Experiment(devices, channel, policy, sampling, access, top.rounds, top.seed, training)


def _refuse_stray(settings: Mapping[str, Any], source: str) -> None:
    """Says where a setting belongs that stands outside of its table: pydantic would know of the tables alone."""
    for key in settings:
        for table, inner in settings.items():
            if key not in _Settings.model_fields and isinstance(inner, Mapping) and key in inner:
                raise FadewiseError(f"{source}: {key} is not a setting; did you mean {table}.{key}?")


def _training(top: _Settings, build: Callable[..., Any], source: str) -> Training | None:
    """What is trained, or None where there are no data: a schedule alone."""
    if top.data is None:
        for table in ("model", "training"):
            if table in top.model_fields_set:
                raise FadewiseError(f"{source}: {table} is given, but data is missing; training needs a [data] table")
        return None
    data = build(DATASETS, top.data, "data")
    model = build(MODELS, top.model, "model")
    checked = _checked(_schema(Training), top.training, source, "training")
    arguments = {name: getattr(checked, name) for name in checked.model_fields_set}
    with _named(source, "training"):
        return Training(data, model, **arguments)


def load(source: str, changes: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment of a preset or a TOML file, with some settings changed."""
    return experiment(with_settings(read(source), changes or {}), source)


def _part(kinds: Mapping[str, type[Any]], table: Mapping[str, Any], path: str, **context: Any) -> Any:
    """A channel, policy, sampling or access from its table."""
    source, devices = context["source"], context["devices"]
    if "kind" not in table:
        raise FadewiseError(f"{source}: {path}.kind is missing; it must be one of {', '.join(sorted(kinds))}")
    kind = table["kind"]
    if not isinstance(kind, str) or kind not in kinds:
        raise FadewiseError(
            f"{source}: {path}.kind is {shown(kind)}; it must be one of {', '.join(sorted(kinds))}"
            + _nearest(str(kind), kinds, "; did you mean {}?")
        )
    part: Any = kinds[kind]
    values = {key: value for key, value in table.items() if key != "kind"}
    fields = {field.name for field in dataclasses.fields(part)}
    supplied = {"link": context["link"], "population": devices}
    supplied = {name: value for name, value in supplied.items() if name in fields}
    make = functools.partial(part, **supplied)
    checked = _checked(_schema(part), values, source, path, of=f"{path} {kind}", make=make)
    arguments: dict[str, Any] = {}
    for name, annotation in settings_of(part).items():
        value = getattr(checked, name)
        if name not in checked.model_fields_set:
            continue
        if (kinds_within := _held_kinds(annotation)) is not None:
            value = _part(kinds_within, value, f"{path}.{name}", **context)
        elif _per_device(annotation):
            value = _spread(value, devices, source, f"{path}.{name}")
        arguments[name] = value
    with _named(source, path):
        return make(**arguments)


def _link(table: Mapping[str, Any], devices: int, source: str) -> Link:
    in_watts = [key for key in table if key.endswith(_PHYSICAL)]
    physical = bool(in_watts)
    normalised = [key for key in ("peak_power", "mean_power", "noise_power") if key in table]
    if in_watts and normalised:
        raise FadewiseError(
            f"{source}: link has {normalised[0]} in normalised units and {in_watts[0]} in physical ones; "
            "give all three, peak_power, mean_power and the noise, in units of one kind"
        )
    make: Callable[..., Link] = Link.physical if physical else Link
    checked = _checked(_link_schema(physical), table, source, "link", make=make)
    arguments: dict[str, Any] = {}
    for name in checked.model_fields_set:
        value = getattr(checked, name)
        arguments[name] = _spread(value, devices, source, f"link.{name}") if isinstance(value, list) else value
    with _named(source, "link"):
        return make(**arguments)


@functools.cache
def _link_schema(physical: bool) -> type[BaseModel]:
    annotations = typing.get_type_hints(Link.physical if physical else Link)
    required = ("bandwidth_hz", "payload_bits")
    fields: dict[str, Any] = {
        name: (_PerDevice if _per_device(annotation) else float, ... if name in required else None)
        for name, annotation in annotations.items()
        if name not in ("return", "in_watts")
    }
    return create_model("Link", __config__=_STRICT, **fields)


def settings_of(part: Any) -> Mapping[str, Any]:
    """The settings of a part (a class), by name, with their types."""
    return _settings_of(part)


@functools.cache
def _settings_of(part: Any) -> Mapping[str, Any]:
    hints = typing.get_type_hints(part)
    fields = dataclasses.fields(part)
    return {field.name: hints[field.name] for field in fields if field.name not in _SUPPLIED}


@functools.cache  # making one takes as long as planning some rounds
def _schema(part: Any) -> type[BaseModel]:
    """The pydantic model of a part's table."""
    required = {
        field.name
        for field in dataclasses.fields(part)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    fields: dict[str, Any] = {}
    for name, annotation in settings_of(part).items():
        if _held_kinds(annotation) is not None:
            annotation = dict[str, Any]
        elif _per_device(annotation):
            annotation = _PerDevice
        elif annotation in (str | Path, str | Path | None):
            annotation = str
        fields[name] = (annotation, ... if name in required else None)
    return create_model(part.__name__, __config__=_STRICT, **fields)


def _per_device(annotation: Any) -> bool:
    return annotation in (PerDevice, PerDevice | None)


def _held_kinds(annotation: Any) -> dict[str, type[Any]] | None:
    """The parts that a field may hold as a table of its own, or None where it holds none."""
    origin = typing.get_origin(annotation) or annotation
    if isinstance(origin, type):
        for base, kinds in _INNER.items():
            if issubclass(origin, base):
                return kinds
    return None


def _spread(value: float | list[float] | list[_Group], devices: int, source: str, path: str) -> PerDevice:
    """One number, or an array with one for each device from a list of numbers or of groups."""
    if not isinstance(value, list):
        return value
    groups = [item if isinstance(item, _Group) else _Group(devices=1, value=item) for item in value]
    count = sum(group.devices for group in groups)
    if count != devices:
        raise FadewiseError(f"{source}: {path} has values for {count} devices; there are {devices}")
    return np.repeat([group.value for group in groups], [group.devices for group in groups])


class _Sentences:
    """What pydantic's findings are in words."""

    of_type: ClassVar[dict[str, str]] = {
        "missing": "is missing",
        "int_type": "a whole number",
        "int_from_float": "a whole number",
        "int_parsing": "a whole number",
        "float_type": "a number",
        "float_parsing": "a number",
        "bool_type": "true or false",
        "bool_parsing": "true or false",
        "string_type": "text",
        "dict_type": "a table",
        "model_type": "a table",
        "list_type": "a number, or a list with one for each device or with groups {devices, value}",
        "greater_than_equal": "at least 1",
    }

    @classmethod
    def of_annotation(cls, annotation: Any) -> str:
        """What a setting of this type must be; nothing where that would say nothing."""
        types: dict[Any, str] = {float: "float_type", int: "int_type", str: "string_type", dict[str, Any]: "dict_type"}
        types[_PerDevice] = "list_type"
        return cls.of_type.get(types.get(annotation, ""), "")


def _checked(
    model: type[BaseModel],
    table: Mapping[str, Any],
    source: str,
    path: str,
    of: str = "",
    make: Callable[..., Any] | None = None,
) -> Any:
    """The table as the model has it, or a sentence about the first thing that is wrong with it.

    make: makes the part of it, which has more to say of a value of the wrong type than that: its range.
    """
    try:
        return model.model_validate(table)
    except ValidationError as error:
        finding = _first_finding(error)
        if make is not None and len(finding["loc"]) == 1 and finding["type"] in ("float_type", "int_type"):
            with contextlib.suppress(TypeError), _named(source, path):
                make(**{str(finding["loc"][0]): finding["input"]})
        raise FadewiseError(f"{source}: {_sentence(finding, model, path, of)}") from None


def _first_finding(error: ValidationError) -> Any:
    """An unknown key before all else, as it explains a missing one; of a union's findings, the deepest.

    Of equally deep ones that about a list, as its sentence names the union's other branches too.
    """
    findings = error.errors()
    for finding in findings:
        if finding["type"] == "extra_forbidden":
            return finding
    first = findings[0]
    same_key = [finding for finding in findings if finding["loc"][0] == first["loc"][0]]
    return max(same_key, key=lambda finding: (len(finding["loc"]), finding["type"] == "list_type"))


def _sentence(finding: Any, model: type[BaseModel], path: str, of: str) -> str:
    steps = [str(step) for step in finding["loc"] if not (isinstance(step, str) and _is_type_name(step))]
    key = ".".join([path, *steps] if path else steps)
    if finding["type"] == "extra_forbidden":
        allowed = list(model.model_fields)
        where = f"a setting of {of or path}" if path else "a setting"
        if len(steps) > 1:
            allowed, where = list(_Group.model_fields), "a setting of a group of devices"
        nearest = _nearest(steps[-1], allowed, "; did you mean {}?")
        return f"{key} is not {where}{nearest or ';'} allowed: {', '.join(allowed)}"
    if finding["type"] == "missing":
        allowed_type = _Sentences.of_annotation(model.model_fields[steps[-1]].annotation) if len(steps) == 1 else ""
        return f"{key} is missing" + (f"; it must be {allowed_type}" if allowed_type else "")
    if finding["type"] == "literal_error":
        allowed_text = "one of " + finding["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
    else:
        allowed_text = _Sentences.of_type.get(finding["type"], finding["msg"])
    return f"{key} is {shown(finding['input'])}; it must be {allowed_text}"


def _is_type_name(step: str) -> bool:
    """pydantic puts the tried branch of a union into the location, as in ('mean_gain', 'list[float]', 0)."""
    return step in ("float", "_Group") or step.startswith("list[")


@contextmanager
def _named(source: str, path: str) -> Iterator[None]:
    """Puts the file and the table in front of what a part says of its settings."""
    try:
        yield
    except SettingError as error:
        key = f"{path}.{error.name}" if path else error.name
        raise FadewiseError(f"{source}: {key} {error.complaint}") from None
    except FadewiseError as error:
        raise FadewiseError(f"{source}: {error}") from None


def _nearest(word: str, words: Sequence[str] | Mapping[str, Any], form: str = "; the nearest is {}") -> str:
    matches = difflib.get_close_matches(word, list(words), n=1, cutoff=0.7)
    return form.format(matches[0]) if matches else ""


def _presets() -> Traversable:
    return resources.files("fadewise") / "presets"


def parse_seeds(text: str) -> list[int]:
    """`3`, `0-4` or `0-4,7` as a list of seeds."""
    seeds: list[int] = []
    allowed = "it must be seeds or ranges of them, as in 0-4 or 0,3,7"
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        last = last if dash else first
        if not (text.isascii() and first.isdecimal() and last.isdecimal()):
            raise FadewiseError(f"--seeds is {text!r}; {allowed}")
        if max(len(first), len(last)) > len(str(LARGEST_SEED)) or int(last) > LARGEST_SEED:
            raise FadewiseError(f"--seeds is {shown(text)}; a seed is at most {LARGEST_SEED}")
        if int(last) < int(first):
            raise FadewiseError(f"--seeds is {text!r}; {allowed}")
        if int(last) - int(first) >= 100_000:
            raise FadewiseError(f"--seeds is {text!r}; it must be at most 100000 seeds")
        seeds.extend(range(int(first), int(last) + 1))
    if len(set(seeds)) < len(seeds):
        raise FadewiseError(f"--seeds is {text!r}; it must name each seed once: repeated seeds are no evidence")
    return seeds


def parse_sweep(text: str) -> tuple[str, list[Any]]:
    """`key=v1,v2,…` as the key and its values; commas within brackets or quotes do not separate."""
    key, values = parse_assignment(text, "--sweep")
    listed = parse_value(f"[{values}]")
    if isinstance(listed, list):
        found = listed
    else:
        pieces = [value.strip() for value in values.split(",")]
        found = [parse_value(value) for value in pieces] if all(pieces) else []
    if not found:
        raise FadewiseError(f"--sweep {text!r} must be key=v1,v2,…, as in --sweep policy.penalty_weight=10,100")
    if any(isinstance(value, float) and math.isnan(value) for value in found):
        raise FadewiseError(f"--sweep {text!r} has nan among its values; there is nothing to plan with it")
    if any(value in found[:place] for place, value in enumerate(found)):
        raise FadewiseError(f"--sweep {text!r} has a value more than once; it must have each once")
    return key, found
