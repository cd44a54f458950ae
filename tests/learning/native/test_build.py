"""Building the kernel: with a compiler, without one, and under the compiler's sanitizers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fadewise.learning.native import build

COMPILERS = list(filter(shutil.which, ("c++", "g++", "clang++")))
COMPILER = next(iter(COMPILERS), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler here")

SANITIZED = """
import numpy as np
from fadewise.learning.native import library
from tests.learning.native.members import member
from fadewise.learning.native.library import Kernel, Shape

rng = np.random.default_rng(0)
for target in library.targets():
    for shape in (
        Shape(4, 4, 1, 3, 1, 1, 1, 1, 1),
        Shape(8, 12, 3, 5, 17, 33, 31, 11, 5),
        Shape(12, 8, 1, 5, 16, 32, 32, 16, 33),
        Shape(20, 4, 3, 3, 5, 3, 40, 3, 16),
        Shape(16, 36, 1, 5, 20, 18, 7, 62, 3),
    ):
        one = member(shape, rng, steps=2)
        kernel = Kernel(shape, target)
        kernel.train(one.parameters, one.samples, one.rows, 0.05)
        kernel.train(one.parameters, one.samples, one.rows[:, :1], 0.05)
        kernel.evaluate(one.parameters, one.samples, np.arange(60))
        one.parameters[:] = np.nan
        kernel.train(one.parameters, one.samples, one.rows, 0.05)
print("clean")
"""


@needs_compiler
def test_clean_under_address_and_undefined_behaviour_sanitizers(tmp_path: Path) -> None:
    library = tmp_path / "kernel.so"
    build.build(library, ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
    assert COMPILER is not None
    runtime = subprocess.run([COMPILER, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    environment = os.environ | {
        # The library is sanitized and Python is not: the runtime has to be there before Python is.
        "LD_PRELOAD": runtime.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "FADEWISE_KERNEL": str(library),
    }
    script = (
        "import os; from pathlib import Path; from fadewise.learning.native import library\n"
        "library.LIBRARY = Path(os.environ['FADEWISE_KERNEL'])\n" + SANITIZED
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.strip() == "clean", result.stderr[-3000:]


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_compiles_without_a_warning(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiler not in COMPILERS:
        pytest.skip(f"there is no {compiler} here")
    monkeypatch.setenv("CXX", compiler)
    library = tmp_path / "kernel.so"
    build.build(library, ("-Wall", "-Wextra", "-Wshadow", "-Werror"))
    if shutil.which("nm") is None:
        return
    # Of two instantiations of one of std's templates the linker keeps any one, so perhaps that with instructions
    # that this processor lacks. So there must be none: each instruction set's code is in its own namespace.
    symbols = subprocess.run(["nm", "-C", library], capture_output=True, text=True, check=True).stdout
    assert "fadewise::portable::" in symbols
    assert not [line for line in symbols.splitlines() if " U " not in line and "std::" in line]


def test_a_processor_is_asked_for_all_that_its_code_is_compiled_with() -> None:
    # Else the kernel would die of an illegal instruction where a processor, or a virtual one, lacks a part of a level.
    interface = (build.SOURCES / "interface.cpp").read_text()
    for target, flags in build._X86_TARGETS.items():
        asked = re.search(rf'{{"{target}",(.*?){target}::create,', interface, re.DOTALL)
        assert asked is not None
        features = {flag.removeprefix("-m") for flag in flags if "=" not in flag}
        assert set(re.findall(r'supports\("(\w+)"\)', asked[1])) == features
        assert {flag.split("=")[0] for flag in flags if "=" in flag} <= {"-mprefer-vector-width", "-mtune"}


def test_no_compiler_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.NotBuiltError, match=r"^no C\+\+ compiler was found$"):
        build.build(tmp_path / "kernel.so")
    assert not (tmp_path / "kernel.so").exists()


def test_a_compiler_that_does_not_run_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(tmp_path / "no-compiler"))
    with pytest.raises(build.NotBuiltError, match="no-compiler does not run"):
        build.build(tmp_path / "kernel.so")


@needs_compiler
def test_a_compiler_that_fails_leaves_the_old_library(tmp_path: Path) -> None:
    library = tmp_path / "kernel.so"
    library.write_bytes(b"old")
    with pytest.raises(build.NotBuiltError, match=r"failed: .*error"):
        build.build(library, ("--no-such-flag",))
    assert library.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [library]
