"""Somebody else's system takes the halves without Flower, and a device without torch."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["fadewise", "fadewise.flower"])
def test_neither_flower_nor_torch_is_imported(module: str) -> None:
    heavy = {"flwr", "torch", "scipy", "matplotlib", "pydantic", "grpc"}
    code = f"import sys, {module}; print(*sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""
