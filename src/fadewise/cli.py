"""The commands. Thin: each reads its words, calls the library and prints what came out."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

import fadewise
from fadewise import config, planning
from fadewise.errors import FadewiseError, shown
from fadewise.reports import tables

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
presets = typer.Typer(help="The configurations that ship with fadewise.", invoke_without_command=True)
app.add_typer(presets, name="presets")
data = typer.Typer(help="Data sets: which are there, whether they are whole, and where to get them.")
app.add_typer(data, name="data")

_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""What typer raises if words do not make a command: click's class, of which newer typers carry their own copy."""

_INTERRUPTED = 130
"""The exit code of a command that Ctrl-C has ended, as shells have it."""

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, as in --set policy.airtime_weight=10."),
]


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version that is installed.")] = False,
) -> None:
    """Device scheduling for federated learning over wireless links."""
    if version:
        print(fadewise.__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help(), end="")
        raise typer.Exit(2)


@app.command()
def plan(
    source: Annotated[str, typer.Argument(metavar="PRESET_OR_FILE", help="A preset's name, or a TOML file.")],
    set_: Set = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=V1,V2,…",
            help="Plan with each value of a setting; several sweeps combine. A value may be a whole table, as in "
            """--sweep 'policy={kind="uniform", participants=4},{kind="lyapunov", airtime_weight=20}'.""",
        ),
    ] = None,
    rounds: Annotated[
        list[str] | None, typer.Option(metavar="N", help="How many rounds, in place of the configuration's.")
    ] = None,
    seeds: Annotated[
        list[str] | None, typer.Option(metavar="A-B", help="Seeds, as in 0-4; intervals are over them.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each configuration.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw power over rounds and airtime against participants.")
    ] = None,
) -> None:
    """What a schedule costs, without training: participants, airtime, power and sampling variance."""
    assignments = [_assignment(text) for text in set_ or []]
    assignments += [("rounds", config.parse_value(text)) for text in rounds or []]
    swept = [config.parse_sweep(text) for text in sweep or []]
    _refuse_repeated([key for key, _ in [*assignments, *swept]] + ["seed" for _ in seeds or []])
    changes, sweeps = dict(assignments), dict(swept)
    seed_list = config.parse_seeds(seeds[0]) if seeds else None
    settings = config.read(source)
    # All configurations are checked, and so is the plot's file, before any work is done.
    variants = [dict(zip(sweeps, values, strict=True)) for values in itertools.product(*sweeps.values())]
    experiments = [config.experiment(config.with_settings(settings, changes | v), source) for v in variants]
    draw = _plotter(plot)
    for experiment in experiments:
        planning.check_memory(experiment, len(seed_list or [0]))
    plans = []
    total = sum(experiment.rounds for experiment in experiments) * len(seed_list or [0])
    with _progress("planning", total) as advance:
        for experiment in experiments:
            plans.append(planning.plan(experiment, seed_list, advance))
    if draw is not None:
        draw(source, list(zip(variants, plans, strict=True)))
    if as_json:
        for variant, one in zip(variants, plans, strict=True):
            print(json.dumps({"source": source, "set": changes | variant} | one.as_dict()))
        return
    tables.print_whole(
        tables.of_plan(source, plans[0])
        if len(plans) == 1
        else tables.of_sweep(source, list(zip(variants, plans, strict=True)))
    )
    if plot is not None:
        print(f"Figure: {plot}")


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


Runs = Annotated[
    list[Path], typer.Argument(metavar="RUN…", help="Folders of runs, or folders that have such folders in them.")
]


@app.command()
def compare(
    runs: Runs,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC=VALUE", help="As in accuracy=0.7 or loss=0.9; else accuracies that all reached."),
    ] = None,
    over: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Ratios are over the configuration with this in its name; else the first."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each target.")] = False,
) -> None:
    """What reaching a target took: airtime, rounds and energy, and their ratios, paired by seed."""
    from fadewise.reports import comparison, curves
    from fadewise.reports import runs as found

    targets = [curves.parse_target(text) for text in target or []]
    arms = found.arms(runs)
    targets = targets or curves.usual_targets([run.evaluations for arm in arms for run in arm.runs.values()])
    reference = comparison.reference(arms, over)
    for one in targets:
        made = comparison.compared(arms, one, reference)
        if as_json:
            print(json.dumps(made.as_dict()))
        else:
            tables.print_comparison(made)


@app.command()
def report(
    runs: Runs,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    title: Annotated[str, typer.Option(metavar="TEXT", help="The page's heading.")] = "Runs compared",
) -> None:
    """One HTML page on runs that works offline: curves, powers, and what any target costs."""
    from fadewise.reports import html
    from fadewise.reports import runs as found

    html.check_writable(out)
    html.write(title, found.arms(runs), out)
    print(out)


@app.command()
def export(
    runs: Runs,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="A name ending in .csv or .parquet.")],
) -> None:
    """Every round of runs as a row of one table."""
    from fadewise.reports import export as exported

    print(f"{out}: {exported.write(runs, out)} rounds")


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="STUDY…", help="As in cifar10; without any, or as all, every study.")
    ] = None,
    scale: Annotated[str, typer.Option(metavar="quick|full", help="Minutes, or the paper's setting.")] = "quick",
    seeds: Annotated[str | None, typer.Option(metavar="A-B", help="As in 0-4; else as many as each study has.")] = None,
    jobs: Annotated[str, typer.Option(metavar="N|auto", help="Runs at a time.")] = "auto",
    out: Annotated[Path, typer.Option(metavar="DIR", help="For runs and reports.")] = Path("reproduction"),
    results: Annotated[
        Path | None, typer.Option(metavar="DIR", help="For pages, figures and numbers; else a folder of --out.")
    ] = None,
    only_pages: Annotated[bool, typer.Option("--only-pages", help="Make no run: write from what is there.")] = False,
    moving_average: Annotated[
        str, typer.Option(metavar="ROUNDS", help="Smooth the figures' curves, as the paper does over 500.")
    ] = "0",
) -> None:
    """The paper's figures and numbers beside ours. Stopped, the same command goes on; nothing is run twice."""
    from fadewise.simulation import require_torch

    require_torch()  # before what needs it and its companions is imported
    from fadewise.reproduction import command

    if scale not in ("quick", "full"):
        raise FadewiseError(f"--scale is {scale!r}; it must be quick or full")
    window = _whole(moving_average, "--moving-average", 0, 1_000_000)
    seed_list = None if seeds is None else config.parse_seeds(seeds)
    for path in command.reproduce(
        names or [],
        "quick" if scale == "quick" else "full",
        seed_list,
        _count(jobs, "--jobs"),
        out,
        results,
        only_pages=only_pages,
        moving_average=window,
    ):
        print(path)


@app.command()
def bench(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each network.")] = False,
) -> None:
    """What this machine gets from each backend: a step's time for published networks, on one core."""
    from fadewise.simulation import require_torch

    require_torch()
    from fadewise.simulation import bench

    with _progress("measuring", len(bench.NETWORKS)) as advance:
        results = []
        for network in bench.NETWORKS:
            results.append(bench.measured(network))
            advance()
    if as_json:
        for result in results:
            print(json.dumps(result.as_dict()))
        return
    tables.print_whole(tables.of_bench(results))
    for sentence in dict.fromkeys(result.auto.sentence for result in results):
        print(f'training.backend = "auto": {sentence}')


@presets.callback()
def list_presets(context: typer.Context) -> None:
    """The names of all presets."""
    if context.invoked_subcommand is None:
        names = config.preset_names()
        width = max(map(len, names))
        for name in names:
            title = config.preset_text(name).partition("\n")[0].removeprefix("# ")
            print(f"{name:{width}} {title}")


@presets.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """One preset, as a TOML file to copy."""
    print(config.preset_text(name), end="")


@data.command("list")
def list_data() -> None:
    """The known data sets, and where each was found."""
    from fadewise.data import sources

    for found in sources.listed():
        where = "not found" if found.found is None else str(found.found)
        print(f"{found.name:16} {found.title}\n{'':16} {where}")
        if found.found is None:
            print(f"{'':16} {found.how_to_get}")
    print(f"{'handwriting':16} characters in many hands, 62 classes, any number of writers\n{'':16} built in")


@data.command()
def check(name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Compares a data set's files with their published checksums."""
    from fadewise.data import sources

    files = sources.checked(name)
    for file in files:
        print(f"{file.path}: {file.state}" + (f" ({file.detail})" if file.detail else ""))
    bad = [file for file in files if file.state not in (sources.OK, sources.UNKNOWN)]
    if bad:
        raise FadewiseError(f"{len(bad)} of {len(files)} files of {name} are not as published; fetch them again")


@data.command()
def fetch(name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Downloads a data set's official files; an interrupted download goes on."""
    from fadewise.data import sources

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    ) as bar:
        tasks: dict[str, Any] = {}

        def show(file: str, size: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file)
            bar.update(tasks[file], completed=size, total=total)

        folder = sources.fetch(name, show)
    print(folder)


def _count(text: str, option: str) -> int | None:
    """A number of processes; None for "auto"."""
    return None if text == "auto" else _whole(text, option, 1, 4096, ", or auto")


def _whole(text: str, option: str, least: int, most: int, otherwise: str = "") -> int:
    # As many digits as `most` has: Python refuses to read some thousands of them.
    known = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if not (known and least <= int(text) <= most):
        raise FadewiseError(f"{option} is {shown(text)}; it must be a whole number from {least} to {most}{otherwise}")
    return int(text)


def _assignment(text: str) -> tuple[str, Any]:
    key, value = config.parse_assignment(text, "--set")
    return key, config.parse_value(value)


def _refuse_repeated(keys: list[str]) -> None:
    """Two values for one setting: whichever won, somebody would be surprised."""
    for key in keys:
        if keys.count(key) > 1:
            raise FadewiseError(f"{key} is given more than once on the command line; it must be given once")
        for table in keys:
            if key.startswith(f"{table}."):
                raise FadewiseError(f"{key} is given beside {table}, the whole table; give one or the other")


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
    if sys.stderr is None:  # closed by whoever started this: what would be said there is not wanted
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (for as long as the process lives)
    if sys.stdout is None:
        _fail("the standard output is closed; what is to be printed has nowhere to go", 1)
    try:
        try:
            code = app(standalone_mode=False)  # else typer would draw a box around what is wrong
        finally:
            sys.stdout.flush()  # now, while a full disk can be told in a sentence
        if code == _INTERRUPTED:  # typer has taken the KeyboardInterrupt
            _fail("stopped", _INTERRUPTED)
        sys.exit(code)
    except FadewiseError as error:
        _fail(str(error), 2)
    except _UsageError as slip:
        _fail(_sentence(slip), 2)
    except MemoryError:
        _fail("there is not enough memory for that many devices or rounds", 1)
    except (KeyboardInterrupt, typer.Abort):
        _fail("stopped", _INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone (as in `fadewise presets | head -1`): nothing more to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            _internal(error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail(f"the output cannot be written: {error.strerror}", 1)
    except Exception as error:
        _internal(error)


def _sentence(slip: Any) -> str:
    """What is wrong with the words of a command, in the form of all our sentences."""
    text: str = slip.format_message().rstrip(".")
    said = re.sub(r"\.? Did you mean ", "; did you mean ", text[0].lower() + text[1:])
    known = said.endswith("?") or slip.ctx is None
    return said if known else f"{said}; `{slip.ctx.command_path} --help` says what there is"


_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def _internal(error: Exception) -> NoReturn:
    if os.environ.get("FADEWISE_DEBUG"):
        raise error
    _fail(f"internal error: {type(error).__name__}: {error}; FADEWISE_DEBUG=1 shows where, please report it", 1)


def _fail(sentence: str, code: int) -> NoReturn:
    print(f"fadewise: {sentence}", file=sys.stderr)
    sys.exit(code)
