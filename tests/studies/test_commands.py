"""The scheduler's studies as commands: what is wrong is said in a sentence, before any work."""

import sys
from collections.abc import Callable

import pytest

from fadewise import studies
from fadewise.studies import coverage, frontier, readings


@pytest.mark.parametrize(
    ("main", "words", "said"),
    [
        (readings.main, ("--seeds", "3-1"), "--seeds is '3-1'; it must be seeds or ranges of them"),
        (coverage.main, ("--seeds", "1"), "--seeds is 1; it must be a whole number at least 2"),
        (
            frontier.main,
            ("--plot", "no/folder.svg"),
            "the figure cannot be written to no/folder.svg: no is not a folder",
        ),
        (frontier.main, ("--plot", "figure.jpg"), "the figure's file is 'figure.jpg'; it must be a name ending in"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    main: Callable[[], None], words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["study", *words])
    with pytest.raises(SystemExit) as ended:
        studies.run(main)
    assert str(ended.value.code).startswith(f"fadewise: {said}")


def test_a_figure_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "fadewise.reports.plots", raising=False)
    monkeypatch.delattr("fadewise.reports.plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(sys, "argv", ["study", "--plot", "frontier.svg"])
    with pytest.raises(SystemExit, match=r"figures need matplotlib: pip install 'fadewise\[plots\]'"):
        studies.run(frontier.main)
