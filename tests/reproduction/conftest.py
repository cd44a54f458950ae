"""No training reads or writes anything outside its test's own folder."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FADEWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FADEWISE_DATA", raising=False)
