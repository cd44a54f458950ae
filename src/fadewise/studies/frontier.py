"""What knowing the channel buys: airtime against what a round is worth in the bound's sampling term.

    python -m fadewise.studies.frontier --plot docs/results/frontier.svg

What not having everyone costs in the convergence bound is the mean of 1/π. A round's worth is N over that: it has
the sampling term of `worth` devices that each take part with probability worth/N. It can be compared between
policies; the number of participants cannot, as those with good channels are easily had.

For independent draws the worth is also about the variance itself, so `uniform, Poisson` is what to compare with. A
draw of fixed size has the same worth and less variance, the more so the more updates have in common: the last table
has exact variances. So has the systematic draw, which the scheduler can use where a server sees all q.

Mean power is to be the same for all. A point whose power is off by more than 5% is marked, and compared with none:
those of independent uniform draws with few participants, who are asked at the price of more power.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from fadewise import config, theory
from fadewise.planning import NEAR, Plan, plan
from fadewise.rounds import play_all
from fadewise.sampling import Poisson, Systematic
from fadewise.studies import run

WORTH = (2.0, 4.0, 8.0)
"""At which worths the policies' airtimes are compared."""

BASELINE = "uniform, Poisson"
COMMON = (0.0, 0.5, 0.9)
"""Which part of the updates' ‖Δ‖² is in a direction that all have in common."""

EVEN_PARTICIPANTS, EVEN_WEIGHT = 4, 21.0
"""As many uniform participants as a round is worth at this λ."""

AIRTIME_WEIGHTS = (1000.0, 500.0, 200.0, 100.0, 50.0, 20.0, 10.0, 5.0, 2.0, 1.0)
PARTICIPANTS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
_SCHEDULED = {"policy.warm_start_rounds": 300}
_Settings = dict[str, Any]
CURVES: tuple[tuple[str, str, str, tuple[float, ...], _Settings], ...] = (
    ("uniform", "paper/cifar10-het-uniform", "policy.participants", PARTICIPANTS, {}),
    (
        BASELINE,
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
    settings: Sequence[float]
    plans: list[Plan]

    @property
    def airtime_s(self) -> list[float]:
        """Of a round."""
        return [one.airtime_s.value for one in self.plans]

    @property
    def worth(self) -> list[float]:
        """How many independently and uniformly drawn devices would give the same mean of 1/π."""
        return [one.devices / one.variance_factor.value for one in self.plans]

    @property
    def comparable(self) -> list[bool]:
        """Whether the mean power is what all are to spend, within 5%."""
        return [abs(one.running_power[-1] - 1) <= NEAR - 1 for one in self.plans]

    def airtime_for(self, worth: float) -> float:
        """Seconds for a round of that worth, interpolated on logarithmic scales; NaN beyond the curve."""
        known = np.array(self.comparable)
        logs = np.log(self.worth)[known], np.log(self.airtime_s)[known]
        return float(np.exp(np.interp(np.log(worth), *logs, left=np.nan, right=np.nan)))


def curves() -> list[Curve]:
    """All policies on the paper's heterogeneous CIFAR-10 network."""
    return [
        Curve(name, values, [plan(config.load(preset, {**changes, key: value})) for value in values])
        for name, preset, key, values, changes in CURVES
    ]


def variances(rounds: int = 20) -> tuple[float, dict[str, list[float]]]:
    """Exact sampling variances of updates of norm 1 by draw, one for each of COMMON, and the scheduler's worth.

    The scheduler's are means over rounds ten apart.
    """
    changes = {**_SCHEDULED, "policy.airtime_weight": EVEN_WEIGHT, "rounds": 10 * rounds}
    experiment = config.load("paper/cifar10-het", changes)
    devices = experiment.devices
    decided = [r.decision.probability for r in play_all(experiment) if r.number % 10 == 0]
    alike = np.full(devices, EVEN_PARTICIPANTS / devices)
    joints = {
        "uniform": [theory.simple_random_joint(devices, EVEN_PARTICIPANTS)],
        "uniform, Poisson": [theory.joint_inclusion(Poisson(), alike)],
        "lyapunov": [theory.joint_inclusion(Poisson(), q) for q in decided],
        "lyapunov, systematic draw": [theory.joint_inclusion(Systematic(), q) for q in decided],
    }
    found: dict[str, list[float]] = {name: [] for name in joints}
    for share in COMMON:
        # One direction that all have, and one of its own for each.
        updates = np.column_stack([np.full(devices, np.sqrt(share)), np.sqrt(1 - share) * np.eye(devices)])
        for name, of_rounds in joints.items():
            found[name].append(float(np.mean([theory.sampling_variance(updates, joint) for joint in of_rounds])))
    worth = devices / np.mean([np.mean(1 / joint.diagonal()) for joint in joints["lyapunov"]])
    return float(worth), found


def main() -> None:
    """Prints the tables and draws the figure."""
    parser = argparse.ArgumentParser(description="Airtime against the worth of a round, by policy.")
    parser.add_argument("--plot", type=Path, help="where to draw the figure (.svg, .png or .pdf)")
    arguments = parser.parse_args()
    if arguments.plot is not None:
        from fadewise.reports import plots

        plots.check_writable(arguments.plot)
    console = Console(width=100, highlight=False)
    found = curves()
    table = Table(title="Airtime a round, s, and its part of independent uniform draws'", box=box.SIMPLE_HEAD)
    table.add_column("policy")
    for worth in WORTH:
        table.add_column(f"worth {worth:g}", justify="right")
    (baseline,) = (curve for curve in found if curve.name == BASELINE)
    for curve in found:
        times = [(curve.airtime_for(worth), baseline.airtime_for(worth)) for worth in WORTH]
        table.add_row(curve.name, *map(_time_and_part, times))
    console.print(table)
    console.print(_points(found))
    worth, by_draw = variances()
    table = Table(
        title=f"Exact variance of the average of updates of norm 1 (λ = {EVEN_WEIGHT:g}, worth {worth:.2f}; "
        f"uniform: {EVEN_PARTICIPANTS} devices)",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("policy")
    for share in COMMON:
        table.add_column(f"{share:.0%} of ‖Δ‖² in common", justify="right")
    for name, values in by_draw.items():
        table.add_row(name, *(f"{value:.3f}" for value in values))
    console.print(table)
    if arguments.plot is not None:
        points = [(curve.name, curve.airtime_s, curve.worth, curve.comparable) for curve in found]
        plots.save(plots.of_frontier(points), arguments.plot)
        print(f"Figure: {arguments.plot}")


def _time_and_part(times: tuple[float, float]) -> str:
    own, of = times
    if np.isnan(own):
        return "–"
    return f"{own:.3f}" + ("" if np.isnan(of) else f" ({own / of:.2f})")


def _points(found: list[Curve]) -> Table:
    """What the airtimes are interpolated from."""
    table = Table(title="The points; * off the mean power by more than 5%, and not compared", box=box.SIMPLE_HEAD)
    table.add_column("policy")
    for heading in ("M or λ", "participants", "worth", "airtime s", "±", "power/limit"):
        table.add_column(heading, justify="right")
    for curve in found:
        for row, (setting, one) in enumerate(zip(curve.settings, curve.plans, strict=True)):
            ci = one.airtime_s.ci
            table.add_row(
                "" if row else curve.name,
                f"{setting:g}",
                f"{one.mean_participants.value:.2f}",
                f"{curve.worth[row]:.2f}",
                f"{one.airtime_s.value:.3f}",
                "" if ci is None else f"{(ci[1] - ci[0]) / 2:.3f}",
                f"{one.running_power[-1]:.3f}" + (" " if curve.comparable[row] else "*"),
            )
    return table


if __name__ == "__main__":
    run(main)
