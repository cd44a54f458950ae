"""What knowing the channel buys: airtime against how many participants a round is worth.

    python -m fadewise.studies.frontier --plot docs/results/frontier.svg

A round is worth k participants if its sampling variance is that of k devices drawn uniformly: N/k is the mean
of 1/π. That is what airtime is spent for, and it can be compared between policies; the number of participants
cannot, as those with good channels are easily had. All policies spend the same mean power.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from fadewise import config
from fadewise.planning import Plan, plan

WORTH = (2.0, 4.0, 8.0)
"""At which worths the policies' airtimes are compared."""

AIRTIME_WEIGHTS = (1000.0, 500.0, 200.0, 100.0, 50.0, 20.0, 10.0, 5.0, 2.0, 1.0)
PARTICIPANTS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
_SCHEDULED = {"policy.warm_start_rounds": 300}
_Settings = dict[str, Any]
CURVES: tuple[tuple[str, str, str, tuple[float, ...], _Settings], ...] = (
    ("uniform", "paper/cifar10-het-uniform", "policy.participants", PARTICIPANTS, {}),
    (
        "uniform, Poisson",
        "paper/cifar10-het-uniform",
        "policy.participants",
        PARTICIPANTS,
        {"policy.kind": "uniform-poisson"},
    ),
    (
        "lyapunov",
        "paper/cifar10-het",
        "policy.airtime_weight",
        AIRTIME_WEIGHTS,
        _SCHEDULED,
    ),
    (
        "lyapunov, systematic draw",
        "paper/cifar10-het",
        "policy.airtime_weight",
        AIRTIME_WEIGHTS,
        _SCHEDULED | {"sampling.kind": "systematic"},
    ),
)


class Curve(NamedTuple):
    """A policy with more and more participants."""

    name: str
    plans: list[Plan]

    @property
    def airtime_s(self) -> list[float]:
        """Of a round."""
        return [one.airtime_s.value for one in self.plans]

    @property
    def worth(self) -> list[float]:
        """How many uniformly drawn devices would give the same sampling variance."""
        return [one.devices / one.variance_factor.value for one in self.plans]

    def airtime_for(self, worth: float) -> float:
        """Seconds for a round of that worth, interpolated on logarithmic scales; NaN beyond the curve."""
        logs = np.interp(np.log(worth), np.log(self.worth), np.log(self.airtime_s), left=np.nan, right=np.nan)
        return float(np.exp(logs))


def curves() -> list[Curve]:
    """All policies on the paper's heterogeneous CIFAR-10 network."""
    return [
        Curve(name, [plan(config.load(preset, {**changes, key: value})) for value in values])
        for name, preset, key, values, changes in CURVES
    ]


def main() -> None:
    """Prints the airtimes and draws the figure."""
    parser = argparse.ArgumentParser(description="Airtime against the worth of a round, by policy.")
    parser.add_argument("--plot", type=Path, help="where to draw the figure (.svg, .png or .pdf)")
    arguments = parser.parse_args()
    found = curves()
    table = Table(title="Airtime a round, s, and its part of uniform's", box=box.SIMPLE_HEAD)
    table.add_column("policy")
    for worth in WORTH:
        table.add_column(f"worth {worth:g} participants", justify="right")
    baseline = found[0]
    for curve in found:
        times = [(curve.airtime_for(worth), baseline.airtime_for(worth)) for worth in WORTH]
        table.add_row(curve.name, *(f"{own:.3f} ({own / of:.2f})" for own, of in times))
    Console(width=100).print(table)
    if arguments.plot is not None:
        from fadewise.reports import plots

        plots.check_writable(arguments.plot)
        plots.save(plots.of_frontier([(curve.name, curve.airtime_s, curve.worth) for curve in found]), arguments.plot)
        print(f"Figure: {arguments.plot}")


if __name__ == "__main__":
    main()
