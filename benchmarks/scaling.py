"""What a round costs and how much memory it takes as devices, ranks and runs grow in number.

    python benchmarks/scaling.py

1. From 100 to 1,000,000 devices with six participants a round: built-in handwriting, 10 characters a device, the
   paper's CNN. Time and memory of one rank; what is outside local SGD is what grows with the devices.
2. 3,597 devices of FEMNIST's size, and 54 participants: memory.
3. Parallel efficiency on two cores: two ranks of one run, and two runs at a time, against one rank of one run.

Each measurement is a process of its own. Nothing is evaluated but after the last round.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

import fadewise as fw
from fadewise.data import Handwriting
from fadewise.learning.models import CNN
from fadewise.learning.training import Training

DEVICES = (100, 1_000, 10_000, 100_000, 1_000_000)


def experiment(devices: int, participants: float, samples: float, rounds: int, seed: int = 0) -> fw.Experiment:
    policy = fw.Uniform(fw.Link(22e6, 32 * 444_062), devices, participants=participants)
    training = Training(Handwriting(samples_per_writer=samples), CNN(), evaluate_every=10**6)
    return fw.Experiment(devices, fw.Rayleigh(1.0), policy, rounds=rounds, seed=seed, training=training)


def one_rank(task: dict[str, Any], report: Any) -> None:
    """A rank's rounds: medians of their times, and the most memory that the process had."""
    from fadewise.learning.memory import keep_freed_memory
    from fadewise.simulation import ranks
    from fadewise.simulation.engine import Simulation, one_thread

    keep_freed_memory()
    group = ranks.join(task["store"], task["rank"], task["ranks"])
    rounds = task["rounds"]
    with one_thread():
        began = time.perf_counter()
        simulation = Simulation(
            experiment(task["devices"], task["participants"], task["samples"], rounds + 10**6, task["seed"]), group
        )
        begun_s = time.perf_counter() - began
        simulation.step()  # warms up
        times = []
        for _ in range(rounds):
            simulation.step()
            times.append(simulation.walltime)
    if group.first:
        report.put(
            {
                "begun_s": begun_s,
                "wall_s": statistics.median(t.wall_s for t in times),
                "training_s": statistics.median(t.training_s for t in times),
                "outside_s": statistics.median(t.wall_s - t.training_s - t.evaluation_s for t in times),
                "all_s": sum(t.wall_s for t in times),
                "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    ranks.leave()


def measured(ranks: int = 1, runs: int = 1, **task: Any) -> list[dict[str, float]]:
    """`runs` runs at once, of `ranks` processes each; a report of each run."""
    context = multiprocessing.get_context("spawn")
    report = context.Queue()
    with tempfile.TemporaryDirectory() as scratch:
        processes = [
            context.Process(
                target=one_rank,
                args=(task | {"rank": rank, "ranks": ranks, "seed": run, "store": f"{scratch}/{run}"}, report),
            )
            for run in range(runs)
            for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        results = [report.get() for _ in range(runs)]
        for process in processes:
            process.join()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    console = Console(width=100)
    numbers: dict[str, Any] = {}

    table = Table(title="6 participants a round, 10 characters a device", box=box.SIMPLE_HEAD)
    for heading in ("devices", "ms a round", "of it local SGD", "all else", "µs a device", "begins in s", "memory, MB"):
        table.add_column(heading, justify="right")
    for devices in DEVICES:
        (result,) = measured(devices=devices, participants=6.0, samples=10.0, rounds=arguments.rounds)
        numbers[f"{devices} devices"] = result
        table.add_row(
            f"{devices:,}",
            f"{1e3 * result['wall_s']:.0f}",
            f"{1e3 * result['training_s']:.0f}",
            f"{1e3 * result['outside_s']:.1f}",
            f"{1e6 * result['outside_s'] / devices:.3f}",
            f"{result['begun_s']:.1f}",
            f"{result['memory_mb']:.0f}",
        )
    console.print(table)

    (result,) = measured(devices=3597, participants=54.0, samples=224.0, rounds=3)
    numbers["3597 devices of FEMNIST's size"] = result
    console.print(
        f"3,597 devices of FEMNIST's size, 54 participants: {result['memory_mb']:.0f} MB, "
        f"{1e3 * result['wall_s']:.0f} ms a round, {1e3 * result['outside_s']:.1f} ms of it outside local SGD"
    )

    speeds: dict[str, list[float]] = {}
    ways: dict[str, dict[str, int]] = {
        "one rank": {},
        "two ranks of one run": {"ranks": 2},
        "two runs at a time": {"runs": 2},
    }
    for _ in range(3):  # in turns
        for name, way in ways.items():
            results = measured(**way, devices=100, participants=6.0, samples=200.0, rounds=2 * arguments.rounds)
            speeds.setdefault(name, []).append(sum(2 * arguments.rounds / result["all_s"] for result in results))
    numbers["rounds a second"] = speeds
    for name in list(ways)[1:]:
        ratios = [a / b for a, b in zip(speeds[name], speeds["one rank"], strict=True)]
        ratio = statistics.median(ratios)
        console.print(f"{name}: {ratio:.2f} times the rounds a second of one rank, an efficiency of {ratio / 2:.0%}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
