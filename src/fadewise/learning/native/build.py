"""Compiles the native kernel into a shared library: one source, once for each instruction set.

Imports nothing but the standard library, because it runs while fadewise is being installed (`hatch_build.py`).
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCES = Path(__file__).parent
LIBRARY = SOURCES / "kernel.so"

_AVX2 = ("-mavx2", "-mfma", "-mbmi", "-mbmi2", "-mpopcnt")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq")
_X86_TARGETS = {
    "avx512": (*_AVX512, "-mprefer-vector-width=512", "-mtune=icelake-server"),
    "avx2": _AVX2,
    "portable": (),
}
_TARGETS: dict[str, tuple[str, ...]] = (
    _X86_TARGETS if platform.machine().lower() in ("x86_64", "amd64") else {"portable": ()}
)
"""Instruction sets, each with what the compiler has to be told. `interface.cpp` chooses among them, and asks the
processor for what is named here one by one: -march=x86-64-v4 would let the compiler use more than is asked for."""

_FLAGS = ("-std=c++17", "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fPIC", "-fvisibility=hidden", "-Wno-psabi")
"""a·b + c may become one instruction, which rounds once; nothing else about numbers is left to the compiler."""

_GCC_FLAGS = ("-fno-predictive-commoning",)
"""GCC would carry numbers from one step of an inner loop to a later one through memory. Clang takes no such flag."""


class NotBuiltError(Exception):
    """Why there is no library: a sentence."""


def build(library: Path = LIBRARY, extra_flags: Sequence[str] = ()) -> None:
    """Compiles `library`, with the compiler that CXX names or the first that is found."""
    if sys.platform not in ("linux", "darwin"):
        raise NotBuiltError(f"the native kernel is not made for {sys.platform}")
    named = os.environ.get("CXX") or next(filter(shutil.which, ("c++", "g++", "clang++")), None)
    if named is None:
        raise NotBuiltError("no C++ compiler was found")
    compiler = named.split()
    flags_of_its_own = () if "__clang__" in _run([*compiler, "-dM", "-E", "-x", "c++", os.devnull]) else _GCC_FLAGS
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder)
        compile_ = [*compiler, *_FLAGS, *flags_of_its_own, *extra_flags, "-c"]
        objects = [into / f"{name}.o" for name in ("interface", *_TARGETS)]
        commands = [[*compile_, str(SOURCES / "interface.cpp"), "-o", str(objects[0])]]
        for (target, flags), path in zip(_TARGETS.items(), objects[1:], strict=True):
            source = [f"-DFADEWISE_TARGET={target}", str(SOURCES / "kernel.cpp")]
            commands.append([*compile_, *flags, *source, "-o", str(path)])
        with ThreadPoolExecutor() as pool:
            list(pool.map(_run, commands))
        linked = into / library.name
        _run([*compiler, *extra_flags, "-shared", *map(str, objects), "-o", str(linked)])
        # Renamed into place: a process that has the old library in memory keeps it.
        partial = library.with_suffix(".partial")
        shutil.copyfile(linked, partial)
        partial.replace(library)


def _run(command: Sequence[str]) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise NotBuiltError(f"the compiler {command[0]} does not run: {error.strerror}") from None
    if result.returncode:
        first = next((line for line in result.stderr.splitlines() if "error" in line), "it does not say why")
        raise NotBuiltError(f"the compiler {command[0]} failed: {first}")
    return result.stdout


if __name__ == "__main__":
    build()
