"""The paper's numbers and figures, and comparisons beyond it: one readable file each, with its result in docs/results.

`fadewise reproduce` makes those of `by_name`; the others are commands of their own (`python -m`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fadewise.errors import FadewiseError

if TYPE_CHECKING:
    from fadewise.reproduction.study import Study


def by_name() -> dict[str, Study]:
    """The studies that `fadewise reproduce` knows, in the order in which it makes them."""
    from fadewise.studies import by_writer, cifar10, corrections, heterogeneous, participants, power, prediction, saving

    listed = [
        participants.STUDY,
        power.STUDY,
        saving.STUDY,
        cifar10.STUDY,
        by_writer.MNIST,
        by_writer.HANDWRITING,
        by_writer.FEMNIST,
        corrections.STUDY,
        heterogeneous.STUDY,
        prediction.STUDY,
    ]
    return {study.name: study for study in listed}


def run(study: Callable[[], None]) -> None:
    """Runs a study that is a command of its own: what it cannot use is said in one sentence."""
    try:
        study()
    except FadewiseError as error:
        raise SystemExit(f"fadewise: {error}") from None
    except ModuleNotFoundError as error:
        raise SystemExit(f"fadewise: figures need {error.name}: pip install 'fadewise[plots]'") from None
