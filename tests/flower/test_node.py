"""Nodes with their ClientApp in the same process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from flwr.clientapp import ClientApp
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

from fadewise.flower import node


def test_a_node_goes_on_when_an_exchange_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the SuperLink was killed in between: Flower's connection would otherwise be closed, the node gone."""
    looked: list[int] = []

    def receive() -> None:
        looked.append(len(looked))
        if len(looked) == 1:
            raise ObjectPushError("some", 1, "a session of before")

    @contextmanager
    def connection(*_: Any, **__: Any) -> Iterator[tuple[Any, ...]]:
        yield (1, receive, *[None] * 6)

    monkeypatch.setattr(node, "http_request_response", connection)
    node.serve("nowhere", ClientApp(), {"device": 0}, 0.0, lambda: len(looked) == 3)
    assert looked == [0, 1, 2]
