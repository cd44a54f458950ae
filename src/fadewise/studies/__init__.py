"""The paper's tables and figures: one readable file each, with its result in docs/results."""

from __future__ import annotations

from collections.abc import Callable

from fadewise.errors import FadewiseError


def run(study: Callable[[], None]) -> None:
    """Runs a study as a command: what it cannot use is said in one sentence."""
    try:
        study()
    except FadewiseError as error:
        raise SystemExit(f"fadewise: {error}") from None
    except ModuleNotFoundError as error:
        raise SystemExit(f"fadewise: figures need {error.name}: pip install 'fadewise[plots]'") from None
