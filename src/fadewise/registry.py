"""The parts that configurations can name: whatever a package exports that has a kind."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any


def exported(names: Mapping[str, object], base: Any) -> dict[str, Any]:
    """The concrete subclasses of `base` among a module's names, by their `kind`."""
    parts = (
        part
        for part in names.values()
        if isinstance(part, type) and issubclass(part, base) and not inspect.isabstract(part)
    )
    return {vars(part)["kind"]: part for part in parts if "kind" in vars(part)}
