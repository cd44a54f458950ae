"""The commands. Thin: each reads its words, calls the library and prints what came out."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

import fadewise
from fadewise import config
from fadewise.errors import FadewiseError
from fadewise.planning import plan as plan_experiment
from fadewise.reports import tables

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
presets = typer.Typer(help="The configurations that ship with fadewise.", invoke_without_command=True)
app.add_typer(presets, name="presets")

_INTERRUPTED = 130
"""The exit code of a command that Ctrl-C has ended, as shells have it."""

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, as in --set policy.airtime_weight=10."),
]


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version that is installed.")] = False,
) -> None:
    """Device scheduling for federated learning over wireless links."""
    if version:
        print(fadewise.__version__)
        raise typer.Exit


@app.command()
def plan(
    source: Annotated[str, typer.Argument(metavar="PRESET_OR_FILE", help="A preset's name, or a TOML file.")],
    set_: Set = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=V1,V2,…", help="Plan with each value of a setting; several sweeps combine."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="How many rounds, in place of the configuration's.")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="A-B", help="Seeds, as in 0-4; intervals are over them.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each configuration.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw power over rounds and airtime against participants.")
    ] = None,
) -> None:
    """What a schedule costs, without training: participants, airtime, power and sampling variance."""
    assignments = [_assignment(text) for text in set_ or []]
    if rounds is not None:
        assignments.append(("rounds", rounds))
    swept = [config.parse_sweep(text) for text in sweep or []]
    _refuse_repeated([key for key, _ in [*assignments, *swept]] + (["seed"] if seeds is not None else []))
    changes, sweeps = dict(assignments), dict(swept)
    seed_list = None if seeds is None else config.parse_seeds(seeds)
    settings = config.read(source)
    # All configurations are checked, and so is the plot's file, before any work is done.
    variants = [dict(zip(sweeps, values, strict=True)) for values in itertools.product(*sweeps.values())]
    experiments = [config.experiment(config.with_settings(settings, changes | v), source) for v in variants]
    draw = _plotter(plot)
    plans = []
    total = sum(experiment.rounds for experiment in experiments) * len(seed_list or [0])
    with _progress("planning", total) as advance:
        for experiment in experiments:
            plans.append(plan_experiment(experiment, seed_list, advance))
    if draw is not None:
        draw(source, list(zip(variants, plans, strict=True)))
    if as_json:
        for variant, one in zip(variants, plans, strict=True):
            print(json.dumps({"source": source, "set": changes | variant} | one.as_dict()))
        return
    console = Console()
    if len(plans) == 1:
        console.print(tables.of_plan(source, plans[0]))
    else:
        console.print(tables.of_sweep(source, list(zip(variants, plans, strict=True))))
    if plot is not None:
        console.print(f"Figure: {plot}", highlight=False)


@app.command()
def run(
    source: Annotated[str, typer.Argument(metavar="PRESET_OR_FILE", help="A preset's name, or a TOML file.")],
    set_: Set = None,
    seeds: Annotated[str | None, typer.Option(metavar="A-B", help="A run for each seed, as in 0-4.")] = None,
    workers: Annotated[
        str, typer.Option(metavar="N|auto", help="Processes for each run; its bits do not depend on it.")
    ] = "auto",
    jobs: Annotated[str, typer.Option(metavar="N|auto", help="Runs at a time.")] = "auto",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run's folder; with --seeds the folder of the runs' folders.")
    ] = None,
) -> None:
    """Train. A run that was stopped goes on with the same command, and ends with the same bits."""
    from fadewise.simulation import command

    changes = dict(_assignment(text) for text in set_ or [])
    _refuse_repeated([config.parse_assignment(text, "--set")[0] for text in set_ or []])
    if seeds is not None and "seed" in changes:
        raise FadewiseError("seed is given more than once on the command line; it must be given once")
    seed_list = None if seeds is None else config.parse_seeds(seeds)
    command.run(source, changes, seed_list, _count(workers, "--workers"), _count(jobs, "--jobs"), out)


@presets.callback()
def list_presets(context: typer.Context) -> None:
    """The names of all presets."""
    if context.invoked_subcommand is None:
        for name in config.preset_names():
            title = config.preset_text(name).partition("\n")[0].removeprefix("# ")
            print(f"{name:28} {title}")


@presets.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """One preset, as a TOML file to copy."""
    print(config.preset_text(name), end="")


def _count(text: str, option: str) -> int | None:
    """A number of processes; None for "auto"."""
    if text == "auto":
        return None
    if not (text.isdecimal() and 1 <= int(text) <= 4096):
        raise FadewiseError(f"{option} is {text!r}; it must be a whole number from 1 to 4096, or auto")
    return int(text)


def _assignment(text: str) -> tuple[str, Any]:
    key, value = config.parse_assignment(text, "--set")
    return key, config.parse_value(value)


def _refuse_repeated(keys: list[str]) -> None:
    """Two values for one setting: whichever won, somebody would be surprised."""
    for key in keys:
        if keys.count(key) > 1:
            raise FadewiseError(f"{key} is given more than once on the command line; it must be given once")


def _plotter(path: Path | None) -> Callable[..., None] | None:
    """What will draw to `path`, checked now: after an hour's work is too late for a misspelt folder."""
    if path is None:
        return None
    try:
        from fadewise.reports import plots
    except ImportError:
        raise FadewiseError("--plot needs matplotlib: pip install 'fadewise[plots]'") from None
    plots.check_writable(path)
    return lambda source, plans: plots.save(plots.of_plans(source, plans), path)


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on the error stream, shown only to a person, and a function that advances it by one."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    done, shown_at = 0, time.monotonic()

    def advance() -> None:
        nonlocal done, shown_at
        done += 1
        # Redrawing costs more than a round of a hundred devices.
        if time.monotonic() - shown_at > 0.1:
            shown_at = time.monotonic()
            bar.update(task, completed=done)

    with bar:
        task = bar.add_task(what, total=total)
        yield advance


def main() -> None:
    """The command line: whatever goes wrong is said in one sentence."""
    try:
        app()
    except FadewiseError as error:
        _fail(str(error), 2)
    except SystemExit as ended:
        if ended.code == _INTERRUPTED:  # typer has taken the KeyboardInterrupt
            _fail("stopped", _INTERRUPTED)
        raise
    except MemoryError:
        _fail("there is not enough memory for that many devices or rounds", 1)
    except KeyboardInterrupt:
        _fail("stopped", _INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone (as in `fadewise presets | head -1`): nothing more to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if os.environ.get("FADEWISE_DEBUG"):
            raise
        _fail(f"internal error: {type(error).__name__}: {error}; FADEWISE_DEBUG=1 shows where, please report it", 1)


def _fail(sentence: str, code: int) -> None:
    print(f"fadewise: {sentence}", file=sys.stderr)
    sys.exit(code)
