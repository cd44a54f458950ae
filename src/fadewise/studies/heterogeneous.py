"""Data that differ among devices: is the proposed policy fair to those whose links are weak?

    fadewise reproduce heterogeneous --scale full --seeds 0-4

CIFAR-10 over heterogeneous channels: dealt out evenly, by Dirichlet distributions, and so that the ten devices with
the weakest links have a class that nobody else has. The proposed policy against uniform choice, and against a greedy
choice of the devices with the largest q whose updates are averaged plainly: it shows what the weights are for.
"""

from __future__ import annotations

import numpy as np

from fadewise import statistics
from fadewise.reports import markdown, plots
from fadewise.reports.plots import Panel
from fadewise.reports.runs import Arm
from fadewise.reproduction.study import Line, Numbers, Page, Scale, Study
from fadewise.studies import cifar10

PARTITIONS: dict[str, dict[str, object]] = {
    "iid": {"kind": "iid"},
    "Dirichlet 0.5": {"kind": "dirichlet", "alpha": 0.5},
    "Dirichlet 0.1": {"kind": "dirichlet", "alpha": 0.1},
    "a class of their own": {"kind": "own-classes", "first_devices": 10, "classes": 1},
}
GROUPS = ("10 weakest", "40 in between", "50 strongest")
GREEDY = {"sampling": {"kind": "top-k", "participants": 2}}
POLICIES: dict[str, tuple[str, dict[str, object]]] = {
    "uniform, M = 2.41": ("paper/cifar10-het-uniform", {"policy.participants": 2.41, "policy.airtime_weight": 100.0}),
    "λ = 100": ("paper/cifar10-het", {"policy.airtime_weight": 100.0}),
    "greedy, 2 a round": ("paper/cifar10-het", {"policy.airtime_weight": 100.0, **GREEDY}),
}


def of_partition(name: str, scale: Scale) -> list[Line]:
    """The three policies on data that are dealt out in one way."""
    partition = {"data.partition": PARTITIONS[name]}
    lines = [
        Line(policy, preset, {**changes, **partition}, cifar10.LONG, seeds=5, judged=True)
        for policy, (preset, changes) in POLICIES.items()
    ]
    return lines if scale == "full" else cifar10.quick(lines)


def lines(scale: Scale) -> list[Line]:
    """All."""
    return [line for name in PARTITIONS for line in of_partition(name, scale)]


def page(numbers: Numbers) -> Page:
    """Costs of targets, and accuracy in the end on what each group of devices has."""
    targets = (0.4, 0.5, 0.6) if numbers.scale == "full" else (0.2, 0.3)
    text, panels = ["![Accuracy over airtime](heterogeneous.svg)"], []
    for name in PARTITIONS:
        arms = numbers.arms(of_partition(name, numbers.scale))
        if arms:
            text += [f"## Data: {name}", *cifar10.tables(arms, targets), of_groups(arms)]
            panels.append(Panel(f"Data: {name}", arms, "accuracy", "airtime_s"))
    return Page("\n\n".join(text), {"heterogeneous": plots.of_arms(panels, numbers.note, numbers.moving_average)})


def of_groups(arms: list[Arm]) -> str:
    """The last model's accuracy by device group and for the class that it knows worst, with the power spent."""
    headings = ["accuracy of the last model on data as of the", *GROUPS, "worst class", "power over its limit"]
    rows = []
    for arm in arms:
        runs = [run for run in arm.runs.values() if run.judged]
        if runs:
            groups = np.array([run.judged["groups"] for run in runs])
            worst = np.array([min(run.judged["classes"]) for run in runs])
            power = np.array([run.power[-1][1] for run in runs])
            rows.append([arm.name, *map(_cell, groups.T), _cell(worst), f"{power.mean():.2f}"])
    return markdown.table(headings, rows)


def _cell(samples: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    estimate = statistics.of_samples(samples)
    return f"{estimate.value:.3f}" + ("" if estimate.ci is None else f" ±{(estimate.ci[1] - estimate.ci[0]) / 2:.2g}")


STUDY = Study(
    name="heterogeneous",
    title="Heterogeneous data",
    about="CIFAR-10 over heterogeneous channels, where weak links and rare classes can coincide. `Accuracy on data as "
    "of a group`\nis that on test images in the proportions in which the group's devices have the classes. It is of "
    "the model after the\nlast round, and varies with who took part shortly before.",
    quick=cifar10.QUICK_NOTE,
    lines=lines,
    page=page,
    dataset="cifar10",
)
