"""Ten steps in float32 against the same in float64: PyTorch and the native kernel, on random members of its family.

    python benchmarks/rounding.py --members 1000

Almost always all arithmetics are equally far from float64. Now and then two numbers of a pooling window, or a number
and ReLU's 0, are closer than rounding errors; one arithmetic takes the other branch, and its distance jumps. "The
other branch" counts the members whose distance is more than five times the smallest among all contestants'.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.learning.native.members import member, random_shape, trained

from fadewise import statistics
from fadewise.learning.native import library
from fadewise.learning.native.library import Kernel

STEP_SIZE = 0.05


def distances(seed: int, targets: list[str]) -> list[float]:
    """From float64, root mean square over the parameters: of PyTorch, then of the kernel on each instruction set."""
    rng = np.random.default_rng(seed)
    one = member(random_shape(rng), rng)
    exact, _ = trained(one, STEP_SIZE, torch.float64)
    found = [trained(one, STEP_SIZE, torch.float32)[0]]
    for target in targets:
        parameters = one.parameters.copy()
        Kernel(one.shape, target).train(parameters, one.samples, one.rows, STEP_SIZE)
        found.append(parameters.astype(np.float64))
    return [float(np.sqrt(np.square(parameters - exact).mean())) + 1e-10 for parameters in found]


def main() -> None:
    parser = argparse.ArgumentParser(description="Rounding of PyTorch and of the native kernel.")
    parser.add_argument("--members", type=int, default=1000)
    members = parser.parse_args().members
    torch.set_num_threads(1)
    targets = library.targets()
    found = np.array([distances(seed, targets) for seed in range(members)])
    print(f"{members} members, ten steps of {STEP_SIZE}\n")
    print(f"{'':22}{'distance over PyTorch’s':>25}{'the other branch':>24}")
    for name, column in zip(["PyTorch", *(f"native, {target}" for target in targets)], found.T, strict=True):
        share = statistics.of_samples((column > 5 * found.min(axis=1)).astype(float))
        assert share.ci is not None
        interval = f"{100 * share.value:.1f}% ({100 * max(share.ci[0], 0):.1f}-{100 * share.ci[1]:.1f})"
        print(f"{name:22}{np.median(column / found[:, 0]):>25.3f}{interval:>24}")


if __name__ == "__main__":
    main()
