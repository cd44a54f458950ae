"""fadewise itself, as a peer among peers: everything that `fadewise run` does in a round, its files included."""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from pathlib import Path

import numpy as np
from protocol import SHAPES, Pacer, Shape

import fadewise as fw
from fadewise.data import Arrays
from fadewise.learning.memory import keep_freed_memory
from fadewise.learning.models import CNN
from fadewise.learning.training import Training
from fadewise.simulation import ranks as groups
from fadewise.simulation.engine import Simulation, one_thread
from fadewise.simulation.folder import RunFolder
from fadewise.simulation.run import written

SEED = 20


def experiment(shape: Shape, rounds: int, backend: str, precision: str) -> fw.Experiment:
    """The work of all peers: uniform choice of a fixed number, 10 steps of 32, nothing evaluated."""
    random = np.random.default_rng(SEED)
    count = shape.devices * shape.samples
    data = Arrays(
        random.integers(0, 256, (count, shape.side, shape.side, shape.channels), np.uint8),
        random.integers(0, shape.classes, count),
        owners=np.repeat(np.arange(shape.devices), shape.samples),
        test_images=np.zeros((1, shape.side, shape.side, shape.channels), np.uint8),
        test_labels=np.zeros(1, np.int64),
        classes=shape.classes,
    )
    policy = fw.Uniform(fw.Link(22e6, 1e6), shape.devices, participants=float(shape.participants))
    training = Training(data, CNN(), evaluate_every=10**6, backend=backend, precision=precision)  # type: ignore[arg-type]
    return fw.Experiment(shape.devices, fw.Rayleigh(1.0), policy, rounds=rounds, seed=SEED, training=training)


def rank(number: int, of: int, store: str, folder: Path | None, options: argparse.Namespace) -> None:
    """One rank; the first holds the others back while no round is asked for."""
    pacer = Pacer(options.rounds) if number == 0 else None
    keep_freed_memory()
    group = groups.join(store, number, of)
    files = None if folder is None else RunFolder(folder)
    if files is not None:
        files.go_on_from(None)
    with one_thread():
        simulation = Simulation(
            experiment(SHAPES[options.shape], options.rounds, options.backend, options.precision), group
        )
        group.from_first(None)  # the data take a while to be made
        if pacer is not None:
            pacer.start()
        for _ in written(simulation, files):
            trained_ns = np.zeros(of, np.int64)
            trained_ns[number] = round(1e9 * simulation.walltime.training_s)
            group.add(trained_ns)
            more = {"round_s": simulation.walltime.wall_s, "slowest_rank_s": float(trained_ns.max()) / 1e9}
            if not group.from_first(pacer is not None and pacer.another(more)):
                break
    groups.leave()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--backend", choices=["native", "pytorch"], default="native")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        store = str(Path(scratch) / "store")
        start = multiprocessing.get_context("spawn").Process
        others = [
            start(target=rank, args=(n, options.workers, store, None, options)) for n in range(1, options.workers)
        ]
        for other in others:
            other.start()
        rank(0, options.workers, store, Path(scratch) / "run", options)
        for other in others:
            other.join()


if __name__ == "__main__":
    main()
