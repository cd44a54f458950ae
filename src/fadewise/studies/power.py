"""The paper's last figure: how average power comes down to its limit, for V from 1 to 100,000.

    fadewise reproduce power --scale full

Runs each V for ten times as many rounds as V has units, and 2,000 at least: a million for V = 100,000, a few
minutes. Power includes that of devices asked because nobody volunteered. λ = 1,000 is
the hard case: there somebody has to be asked in four rounds of ten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from fadewise import config
from fadewise.planning import Plan, plan
from fadewise.reports import markdown, plots
from fadewise.reproduction.study import Numbers, Page, Study, no_runs

AIRTIME_WEIGHTS = (100.0, 1000.0)
PENALTY_WEIGHTS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)


def plans(airtime_weight: float, most_rounds: int) -> Iterator[tuple[dict[str, float], Plan]]:
    """The plan of the paper's heterogeneous CIFAR-10 network for each V."""
    for penalty_weight in PENALTY_WEIGHTS:
        changes = {
            "policy.airtime_weight": airtime_weight,
            "policy.penalty_weight": penalty_weight,
            "rounds": min(most_rounds, max(2000, int(10 * penalty_weight))),
        }
        yield {"policy.penalty_weight": penalty_weight}, plan(config.load("paper/cifar10-het", changes))


def page(numbers: Numbers) -> Page:
    """The figure for λ = 100, and a table for that and for λ = 1,000."""
    text = ["![Average power against its limit, for V from 1 to 100,000](power.svg)"]
    figures: dict[str, Figure] = {}
    for airtime_weight in AIRTIME_WEIGHTS:
        done = list(plans(airtime_weight, 10**6 if numbers.scale == "full" else 20_000))
        text += [f"## λ = {airtime_weight:g}", table(done)]
        if not figures:
            title = f"Heterogeneous CIFAR-10 network, λ = {airtime_weight:g}"
            figures["power"] = plots.of_plans(" ".join([title, numbers.note]), done)
    return Page("\n\n".join(text), figures)


def table(done: Sequence[tuple[dict[str, float], Plan]]) -> str:
    """A row for each V."""
    rows = [
        [
            f"{variant['policy.penalty_weight']:g}",
            f"{one.rounds:,}",
            f"{one.running_power[-1]:.3f}",
            "not yet" if one.settled_round is None else f"{one.settled_round:,}",
            f"{one.worst_power.value:.3f}",
            f"{one.fallback_rate.value:.1%}",
        ]
        for variant, one in done
    ]
    return markdown.table(["V", "rounds", "over all rounds", "within 5% from round", "worst device", "fallback"], rows)


STUDY = Study(
    name="power",
    title="Average power over rounds",
    about="The paper's Fig. 5 on its heterogeneous CIFAR-10 network: average power comes down to its limit from above, "
    "and ten\ntimes as slowly for ten times V.",
    quick="at most 20,000 rounds for any V, which V above 1,000 would need more of",
    lines=no_runs,
    page=page,
)
