"""What scheduling saves, in a minute and with nothing to download: the paper's policy against uniform choice.

    fadewise reproduce saving --seeds 0

Trains on the built-in handwriting set, 100 writers over heterogeneous channels, with as many devices a round
on average and the same average power for both.
"""

from __future__ import annotations

from fadewise.reports import markdown, plots
from fadewise.reports.plots import Panel
from fadewise.reproduction.study import Line, Numbers, Page, Scale, Study

TARGETS = (0.5, 0.6, 0.65)


def lines(scale: Scale) -> list[Line]:
    """Both policies; at full scale under more seeds."""
    seeds = 1 if scale == "quick" else 5
    return [
        Line("uniform choice", "handwriting/het-uniform", {}, rounds=120, seeds=seeds),
        Line("the paper's policy", "handwriting/het", {}, rounds=120, seeds=seeds),
    ]


def page(numbers: Numbers) -> Page:
    """Accuracy over airtime, and what each target costs."""
    arms = numbers.arms(lines(numbers.scale))
    text = ["![Accuracy over airtime](saving.svg)"]
    text += [markdown.of_targets(arms, TARGETS, cost) for cost in ("airtime_s", "rounds")]
    panels = [Panel("Accuracy over airtime", arms, "accuracy", "airtime_s", TARGETS[-1])]
    panels.append(Panel("Accuracy over rounds", arms, "accuracy", "rounds", TARGETS[-1]))
    return Page("\n\n".join(text), {"saving": plots.of_arms(panels, numbers.note, numbers.moving_average)})


STUDY = Study(
    name="saving",
    title="What scheduling saves",
    about="The built-in handwriting set (not FEMNIST), 100 writers over heterogeneous channels, a tenth of the paper's "
    "network:\nairtime to the same accuracy for the paper's policy and for uniform choice of as many devices.",
    quick="one seed",
    lines=lines,
    page=page,
)
