"""The built-in handwriting set to look at: the same characters by several writers, a row each.

python -m fadewise.studies.handwriting --picture docs/handwriting.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fadewise.data import strokes, writers
from fadewise.data.base import Images
from fadewise.reports import plots

CHARACTERS = "01234579ABEGHMQRSabdefghknrtuy"


def row(seed: int, writer: int) -> Images:
    """A writer's first sample of each character, side by side; blank paper where that takes too long to come."""
    images, labels = writers.samples(seed, writer, 0, 20_000)
    blank = np.full_like(images[0], 255)
    found = (np.flatnonzero(labels == strokes.CHARACTERS.index(character)) for character in CHARACTERS)
    return np.concatenate([images[samples[0]] if len(samples) else blank for samples in found], axis=1)


def picture(seed: int, count: int) -> Figure:
    """The first writers' rows."""
    page = np.concatenate([row(seed, writer) for writer in range(count)])[..., 0]
    figure = Figure(figsize=(9.5, 9.5 * page.shape[0] / page.shape[1] + 0.1), layout="constrained")
    axes = figure.subplots()
    axes.imshow(page, cmap="gray", vmin=0, vmax=255)
    axes.set_yticks((np.arange(count) + 0.5) * strokes.SIDE, [str(writer) for writer in range(count)])
    axes.set_xticks([])
    axes.set_ylabel("writer")
    axes.grid(False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


def main() -> None:
    """Draws the picture."""
    parser = argparse.ArgumentParser(description="Samples of several writers of the built-in handwriting set.")
    parser.add_argument("--picture", type=Path, required=True, help="where to draw it (.png, .svg or .pdf)")
    parser.add_argument("--writers", type=int, default=12, help="how many of them (12)")
    parser.add_argument("--seed", type=int, default=0, help="the data set's seed (0)")
    arguments = parser.parse_args()
    plots.check_writable(arguments.picture)
    plots.save(picture(arguments.seed, arguments.writers), arguments.picture)
    print(f"Picture: {arguments.picture}")


if __name__ == "__main__":
    main()
