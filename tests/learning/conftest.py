"""No training reads or writes anything outside its test's own folder, or uses more threads than training does."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fadewise.simulation.engine import one_thread


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FADEWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FADEWISE_DATA", raising=False)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield
