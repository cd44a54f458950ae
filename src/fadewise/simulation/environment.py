"""On what a run was made."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import torch

import fadewise


def environment(ranks: int, backend: str) -> dict[str, Any]:
    """Versions and machine, for `environment.json`."""
    return {
        "fadewise": fadewise.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "system": platform.platform(),
        "processor": _processor(),
        "backend": backend,
        "ranks": ranks,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
