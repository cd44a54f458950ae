"""Where the native kernel's time goes, part by part, beside where its multiplications go.

    perf record --call-graph dwarf,1024 -e cpu-clock -o kernel.perf python benchmarks/kernel.py --only CIFAR-10
    perf script -i kernel.perf --no-inline | python benchmarks/parts.py CIFAR-10

A part with a larger share of the time than of the multiplications is bound by something else: loads, additions,
waiting for memory. perf is Linux's profiler.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator

from kernel import multiplications, new_table
from rich.console import Console

from fadewise.simulation.bench import NETWORKS

PARTS = (
    ("first convolution", ({"first_window"}, {"transform_rows"}, {"first_forward"})),
    ("second convolution", ({"second_forward", "multiply_row"},)),
    ("its transforms and pooling", ({"second_forward"},)),
    ("its input's gradient", ({"second_backward", "multiply_row"},)),
    ("that one's transforms", ({"second_backward"},)),
    ("its weights' gradient", ({"second_weight_gradient"},)),
    ("first weights' gradient", ({"first_weight_gradient"},)),
    ("lists and records for both", ({"list_by_map"}, {"list_by_window"}, {"copy_records"})),
    ("dense layers", ({"dense_forward"}, {"dense_backward"})),
    ("all else", (set[str](),)),
)
"""Each with the functions that are at work in it, or called those that are; the first that fits counts."""

FRAME = re.compile(r"\s+[0-9a-f]+ (?:fadewise::\w+::)?(\w+).*kernel\.so\)$")


def stacks(lines: Iterator[str]) -> Iterator[set[str]]:
    """Of each sample the kernel's functions that were at work."""
    functions: set[str] = set()
    for line in lines:
        if not line.strip():
            if functions:
                yield functions
            functions = set()
        elif match := FRAME.match(line.rstrip()):
            functions.add(match[1])


def part_of(functions: set[str]) -> str:
    return next(part for part, rules in PARTS if any(rule <= functions for rule in rules))


def main() -> None:
    by_name = {network.name: network for network in NETWORKS}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("network", choices=by_name)
    arguments = parser.parse_args()
    samples = Counter(part_of(functions) for functions in stacks(sys.stdin))
    if not samples:
        parser.error("there is no sample of the kernel in what perf script has written")
    multiplied = multiplications(by_name[arguments.network])
    table = new_table(f"{arguments.network}, {samples.total():,} samples", "", "% of the time", "of multiplications")
    for part, _ in PARTS:
        share = f"{100 * multiplied[part] / sum(multiplied.values()):.1f}" if part in multiplied else ""
        table.add_row(part, f"{100 * samples[part] / samples.total():.1f}", share)
    Console().print(table)


if __name__ == "__main__":
    main()
