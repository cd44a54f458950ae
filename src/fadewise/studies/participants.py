"""The paper's table of mean participants M, by `plan`, beside the paper's own values.

    fadewise reproduce participants --scale full

M is what the uniform baseline is matched to, so it is the first number to get right. The paper says "σ" of
the Rayleigh fading, which may be its parameter (mean gain 2σ²) or its square (mean gain 2σ): both are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fadewise import config
from fadewise.planning import plan
from fadewise.reports import markdown
from fadewise.reproduction.study import Numbers, Page, Study, Verdict, no_runs
from fadewise.statistics import Estimate

SIGMAS = (0.2, 0.75, 1.2)


class Setting(NamedTuple):
    """One of the paper's eight settings, and the M that it prints."""

    data: str
    network: str
    airtime_weight: float
    paper: float


SETTINGS = (
    Setting("cifar10", "hom", 10.0, 5.99),
    Setting("cifar10", "het", 10.0, 5.65),
    Setting("cifar10", "hom", 100.0, 2.50),
    Setting("cifar10", "het", 100.0, 2.41),
    Setting("femnist", "hom", 10.0, 54.36),
    Setting("femnist", "het", 10.0, 52.70),
    Setting("femnist", "hom", 100.0, 19.40),
    Setting("femnist", "het", 100.0, 18.62),
)

GROUPS = {"cifar10": (10, 40, 50), "femnist": (500, 1500, 1597)}


def participants(setting: Setting, mean_gain_power: int, variant: str, seeds: Sequence[int]) -> Estimate:
    """M of a setting for mean gains 2·σ^power, over the preset's rounds (3,000, or 400 for FEMNIST)."""
    changes: dict[str, object] = {
        "policy.airtime_weight": setting.airtime_weight,
        "policy.variant": variant,
        "sampling.fallback": "published" if variant == "published" else "corrected",
    }
    if setting.network == "het":
        changes["channel.inner.mean_gain"] = [
            {"devices": devices, "value": 2 * sigma**mean_gain_power}
            for devices, sigma in zip(GROUPS[setting.data], SIGMAS, strict=True)
        ]
    return plan(config.load(f"paper/{setting.data}-{setting.network}", changes), seeds).mean_participants


def rows(seeds: Sequence[int]) -> Iterator[tuple[Setting, Estimate, Estimate, Estimate]]:
    """Each setting with M as published for 2σ² and for 2σ, and of the exact policy for 2σ²."""
    for setting in SETTINGS:
        yield (
            setting,
            participants(setting, 2, "published", seeds),
            participants(setting, 1, "published", seeds),
            participants(setting, 2, "exact", seeds),
        )


def page(numbers: Numbers) -> Page:
    """The table, and a verdict on each of the paper's values."""
    table, verdicts = [], []
    for setting, square, linear, exact in rows(range(5) if numbers.scale == "full" else range(2)):
        name = f"{setting.data} {setting.network}, λ = {setting.airtime_weight:g}"
        ours = [_against(square, setting.paper), _against(linear, setting.paper), f"{exact.value:.2f}"]
        table.append([name, f"{setting.paper:.2f}", *ours])
        if numbers.scale == "full":
            verdicts.append(Verdict(f"M, {name}", setting.paper, ours[0], square.ci))
    headings = ["participants a round", "paper", "published, E g = 2σ²", "published, E g = 2σ", "exact, 2σ²"]
    return Page(markdown.table(headings, table), {}, verdicts)


def _against(estimate: Estimate, paper: float) -> str:
    half = "" if estimate.ci is None else f" ±{(estimate.ci[1] - estimate.ci[0]) / 2:.1g}"
    return f"{estimate.value:.2f}{half} ({estimate.value / paper - 1:+.1%})"


STUDY = Study(
    name="participants",
    title="Participants a round",
    about="The mean number of devices a round, M, which the uniform baseline is matched to, over 3,000 rounds for "
    "CIFAR-10 and\n400 for FEMNIST; V = 1000. In brackets the difference from the paper's value.",
    quick="two seeds in place of five",
    lines=no_runs,
    page=page,
)
