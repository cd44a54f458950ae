"""PyTorch with one thread: the networks are so small that more would wait for each other."""

from collections.abc import Iterator

import pytest

from fadewise.simulation.engine import one_thread


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield
