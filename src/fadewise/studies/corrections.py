"""What our corrections of the paper buy: its formula, its weighting of the fallback, its uncapped baseline.

    fadewise reproduce corrections --scale full --seeds 0-4

Trained on heterogeneous CIFAR-10 with λ = 100, where nobody volunteers in a tenth of the rounds, and λ = 1,000,
where that happens in almost half. Whether uniform choice's power is capped changes airtime and nothing else, as
the participants are the same: for that a plan is enough.
"""

from __future__ import annotations

import math

import numpy as np

from fadewise import config, statistics
from fadewise.planning import plan
from fadewise.reports import markdown, plots
from fadewise.reports.plots import Panel
from fadewise.reproduction.study import Line, Numbers, Page, Scale, Study
from fadewise.rounds import play_all
from fadewise.statistics import Estimate
from fadewise.studies import cifar10

VARIANTS: dict[str, dict[str, str]] = {
    "exact": {},
    "the paper's formula": {"policy.variant": "published"},
    "the paper's fallback": {"sampling.fallback": "published"},
    "both as published": {"policy.variant": "published", "sampling.fallback": "published"},
}
WEIGHTS = (100, 1000)
CAPPED = (
    ("paper/cifar10-het-uniform", 2.41),
    ("paper/mnist-by-writer-het-uniform", 8.38),
    ("paper/femnist-het-uniform", 18.62),
)


def of_weight(weight: int, scale: Scale) -> list[Line]:
    """All variants with one λ."""
    changes = {"policy.airtime_weight": float(weight)}
    lines = [
        Line(f"{name}, λ = {weight}", "paper/cifar10-het", {**changes, **variant}, cifar10.LONG, seeds=5)
        for name, variant in VARIANTS.items()
    ]
    return lines if scale == "full" else cifar10.quick(lines)


def lines(scale: Scale) -> list[Line]:
    """All."""
    return [line for weight in WEIGHTS for line in of_weight(weight, scale)]


def page(numbers: Numbers) -> Page:
    """The costs of targets, the weights' bias and what capping costs."""
    full = numbers.scale == "full"
    text, panels = ["![Accuracy over airtime](corrections.svg)"], []
    for weight in WEIGHTS:
        arms = numbers.arms(of_weight(weight, numbers.scale))
        text += [f"## λ = {weight}", *cifar10.tables(arms, (0.6, 0.65) if full else cifar10.QUICK_TARGETS)]
        panels += [Panel(f"λ = {weight}", arms, "accuracy", "airtime_s")] if arms else []
    seeds, rounds = (range(5), 3000) if full else (range(3), 300)
    text += ["## Bias", bias_table(seeds, rounds), "## The cap on uniform choice's power", cap_table(seeds, rounds)]
    return Page("\n\n".join(text), {"corrections": plots.of_arms(panels, numbers.note, numbers.moving_average)})


def bias_table(seeds: range, rounds: int) -> str:
    """How much all updates together count on average: 1 if the average is unbiased."""
    rows = []
    for weight in WEIGHTS:
        for name, variant in VARIANTS.items():
            changes = {"policy.airtime_weight": float(weight), "rounds": rounds, **variant}
            total, strongest = weight_sums(changes, seeds)
            rows.append([f"{name}, λ = {weight}", _cell(total), _cell(strongest)])
    headings = ["what is expected to count, 1 if unbiased", "all devices together", "the device with the largest q"]
    return markdown.table(headings, rows)


def weight_sums(changes: dict[str, object], seeds: range) -> tuple[Estimate, Estimate]:
    """Σ π·w, w the weight in use, exactly given the decisions: over all devices, and over 1/N for the last resort."""
    experiment = config.load("paper/cifar10-het", changes)
    published = changes.get("sampling.fallback") == "published"
    sums, strongest = [], []
    for seed in seeds:
        counted = []
        for played in play_all(experiment, seed):
            pi = played.draw.population_inclusion
            assert pi is not None
            used = played.decision.probability if published else pi
            counted.append([float((pi / used).mean()), float((pi / used)[pi.argmax()])])
        sums.append(np.mean(counted, axis=0)[0])
        strongest.append(np.mean(counted, axis=0)[1])
    return statistics.of_samples(np.array(sums)), statistics.of_samples(np.array(strongest))


def cap_table(seeds: range, rounds: int) -> str:
    """Airtime a round of uniform choice as it is and with the power that the paper's baseline takes."""
    rows = []
    for preset, participants in CAPPED:
        settings = {"rounds": min(rounds, 400), "policy.participants": participants}
        capped, free = (
            plan(config.load(preset, {**settings, "policy.cap_power": cap}), list(seeds)).airtime_s
            for cap in (True, False)
        )
        rows.append([preset, f"{participants:g}", _cell(capped), _cell(free), f"{free.value / capped.value:.3f}"])
    return markdown.table(["airtime a round, s", "M", "capped at Pmax", "as in the paper", "ratio"], rows)


def _cell(estimate: Estimate) -> str:
    half = math.nan if estimate.ci is None else (estimate.ci[1] - estimate.ci[0]) / 2
    return f"{estimate.value:.4f}" + ("" if not half > 0 else f" ±{half:.1g}")


STUDY = Study(
    name="corrections",
    title="What our corrections buy",
    about="fadewise departs from the paper in three places: the minimiser's formula, the weight of a device that is "
    "asked because\nnobody volunteered, and the cap on the power of uniform choice. What each of them is worth, on "
    "heterogeneous CIFAR-10.",
    quick=cifar10.QUICK_NOTE,
    lines=lines,
    page=page,
    dataset="cifar10",
)
