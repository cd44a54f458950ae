"""The native kernel against PyTorch: on one core, on two, on AVX2 alone, and against what the core can multiply.

    python benchmarks/kernel.py           # --networks CIFAR-10,LEAF, --repeats 15

The work: ten steps of 32 from the same model on the same minibatches of random images, for the paper's two networks,
McMahan's and LEAF's. In one run, the contestants taking turns; every process computes with one thread and keeps the
memory that it frees. All must come to the same model.

native           the kernel, by instruction set
channels-last    a PyTorch loop with torch.optim.SGD; network and images with their channels last in memory
as written       the same with PyTorch's usual layout
fadewise         fadewise's own PyTorch backend

One core is counted in processor time. Two cores: two processes of each at the same time, by the clock. AVX2 alone:
both in a process where PyTorch may use no more. The peak is measured too; of it the share that the kernel reaches
counts only multiplications that are really done.

    perf record -e cpu-clock python benchmarks/kernel.py --only CIFAR-10     # the fastest kernel alone, for a profiler
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from fadewise.learning.memory import keep_freed_memory
from fadewise.learning.native import library
from fadewise.simulation.bench import NETWORKS, REFERENCE, Network, Work, backends, work_of

CHANNELS_LAST, AS_WRITTEN, FADEWISE = "PyTorch, channels-last", "PyTorch, as written", "PyTorch, fadewise"
AVX2_ALONE = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
"""What holds PyTorch's own loops, oneDNN and MKL to AVX2. Read as they are loaded."""

PARTICIPANTS_AT_ONCE = 6
"""Of each of two processes, between two waits for each other."""

Times = dict[str, list[float]]


class Loop:
    """PyTorch as people write it."""

    def __init__(self, network: Network, work: Work, *, channels_last: bool) -> None:
        federation, model = work.federation, network.model
        height, width, channels = network.image_shape
        self._layers = nn.Sequential(
            nn.Conv2d(channels, model.first_maps, model.kernel, padding="same"),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(model.first_maps, model.second_maps, model.kernel, padding="same"),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(model.second_maps * (height // 4) * (width // 4), model.hidden),
            nn.ReLU(),
            nn.Linear(model.hidden, network.classes),
        )
        sizes = [parameter.numel() for parameter in self._layers.parameters()]
        values = torch.split(torch.from_numpy(work.model), sizes)
        self._server = {
            name: value.view(parameter.shape)
            for (name, parameter), value in zip(self._layers.named_parameters(), values, strict=True)
        }
        shard = federation.shard(0)
        self._images = torch.from_numpy(shard.images)
        if channels_last:
            self._layers = self._layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        else:
            self._images = self._images.permute(0, 3, 1, 2).contiguous()
        self._channels_last = channels_last
        self._labels = torch.from_numpy(shard.labels.astype(np.int64))
        self._mean = torch.from_numpy(federation.mean)[:, None, None]
        self._scale = 1 / torch.from_numpy(federation.deviation)[:, None, None]
        self._batches = torch.from_numpy(work.batches)
        self._step_size = work.training.step_size

    def participant(self) -> NDArray[np.float32]:
        self._layers.load_state_dict(self._server)
        criterion = nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(self._layers.parameters(), lr=self._step_size)
        for rows in self._batches:
            optimizer.zero_grad()
            criterion(self._layers(self._normalised(rows)), self._labels[rows]).backward()
            optimizer.step()
        return torch.cat([p.detach().reshape(-1) for p in self._layers.parameters()]).numpy()

    def nonzeros(self) -> tuple[float, float]:
        """A step's outputs of the first and of the second pooling that ReLU lets through."""
        self._layers.load_state_dict(self._server)
        with torch.inference_mode():
            first, second = (
                sum(int((self._layers[:end](self._normalised(rows)) > 0).sum()) for rows in self._batches)
                for end in (3, 6)
            )
        return first / len(self._batches), second / len(self._batches)

    def _normalised(self, rows: Tensor) -> Tensor:
        images = self._images[rows]
        if self._channels_last:
            images = images.permute(0, 3, 1, 2)
        return images.float().sub_(self._mean).mul_(self._scale)


@functools.cache
def participants(network: Network) -> dict[str, Callable[[], NDArray[np.float32]]]:
    """A participant's work as each contestant does it, in this process; all have done it once."""
    work = work_of(network)
    found = backends(work, network)
    ours = {name: functools.partial(work.done_by, backend) for name, backend in found.items()}
    calls: dict[str, Callable[[], NDArray[np.float32]]] = {k: v for k, v in ours.items() if k.startswith("native")}
    calls[CHANNELS_LAST] = Loop(network, work, channels_last=True).participant
    calls[AS_WRITTEN] = Loop(network, work, channels_last=False).participant
    calls[FADEWISE] = ours[REFERENCE]
    expected = calls[AS_WRITTEN]()
    for call in calls.values():
        np.testing.assert_allclose(call(), expected, atol=1e-3)
    return calls


def seconds(network: Network, name: str, count: int) -> float:
    """Of the processor: what others on the machine do does not count."""
    call = participants(network)[name]
    began = time.process_time()
    for _ in range(count):
        call()
    return time.process_time() - began


def peak(target: str) -> float:
    """Multiply-adds a second."""
    began = time.process_time()
    count = library.multiply_adds(target, 5_000_000)
    return count / (time.process_time() - began)


def multiplications(network: Network) -> dict[str, float]:
    """Of a step, part by part: those that the kernel really does (additions of the transforms do not count)."""
    work, model = work_of(network), network.model
    height, width, channels = network.image_shape
    k, maps1, maps2 = model.kernel, model.first_maps, model.second_maps
    batch, windows1, windows2 = work.training.batch_size, height * width // 4, height * width // 16
    nonzeros1, nonzeros2 = Loop(network, work, channels_last=True).nonzeros()
    second = batch * windows2 * (k + 1) ** 2 * maps1 * maps2
    dense = batch * (maps2 * windows2 * model.hidden + model.hidden * network.classes)
    return {
        "first convolution": batch * windows1 * 2 * (k + 1) * k * channels * maps1,
        "second convolution": second,
        "its input's gradient": second,
        "its weights' gradient": nonzeros2 * k**2 * maps1,
        "first weights' gradient": nonzeros1 * k**2 * channels,
        "dense layers": 3 * dense,
    }


def direct_multiplications(network: Network) -> float:
    """Of a step by the definition, no trick: what a floating-point count of the network would say."""
    height, width, channels = network.image_shape
    model, batch = network.model, 32
    first = height * width * model.kernel**2 * channels * model.first_maps
    second = height * width // 4 * model.kernel**2 * model.first_maps * model.second_maps
    dense = (model.second_maps * (height * width // 16) + network.classes) * model.hidden
    return batch * (2 * first + 3 * second + 3 * dense)


class Worker:
    """A process that computes when it is asked to."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        with mock.patch.dict(os.environ, environment or {}):
            self._process = context.Process(target=serve, args=(there,), daemon=True)
            self._process.start()
        there.close()

    def begin(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._pipe.send((function, arguments))

    def end(self) -> Any:
        return self._pipe.recv()

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.begin(function, *arguments)
        return self.end()


def serve(pipe: Any) -> None:
    keep_freed_memory()
    torch.set_num_threads(1)
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        pipe.send(function(*arguments))


def warm_up(workers: list[Worker], network: Network) -> list[str]:
    """Makes the contestants; their names."""
    for worker in workers:
        worker.begin(names, network)
    found: list[str] = [worker.end() for worker in workers].pop()
    return found


def names(network: Network) -> list[str]:
    return list(participants(network))


def one_core(worker: Worker, network: Network, names: list[str], repeats: int) -> tuple[Times, Times]:
    """Seconds for a participant of each contestant, and the peak of each instruction set, turn by turn."""
    times: Times = {name: [] for name in names}
    peaks: Times = {target: [] for target in library.targets()}
    for _ in range(repeats):
        for name in names:
            times[name].append(worker.ask(seconds, network, name, 1))
        for target in peaks:
            peaks[target].append(worker.ask(peak, target))
    return times, peaks


def two_cores(workers: list[Worker], network: Network, names: list[str], repeats: int) -> Times:
    """Seconds by the clock in which every worker has trained some participants, turn by turn."""
    times: Times = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            began = time.perf_counter()
            for worker in workers:
                worker.begin(seconds, network, name, PARTICIPANTS_AT_ONCE)
            for worker in workers:
                worker.end()
            times[name].append(time.perf_counter() - began)
    return times


def ratio(numerators: list[float], denominators: list[float], form: str = ".2f") -> str:
    """The median over the turns, and their range."""
    ratios = sorted(a / b for a, b in zip(numerators, denominators, strict=True))
    return f"{statistics.median(ratios):{form}} ({ratios[0]:{form}}-{ratios[-1]:{form}})"


def ms(participant_s: list[float], steps: int) -> str:
    return f"{1000 * statistics.median(participant_s) / steps:.2f}"


def new_table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column(headings[0], no_wrap=True)
    for heading in headings[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def table_of_one_core(network: Network, times: Times, peaks: Times, steps: int) -> Table:
    table = new_table(f"{network.name}, one core", "", "ms a step", "times channels-last", "% of the peak")
    percent = 100 * sum(multiplications(network).values()) * steps
    for name, participant_s in times.items():
        reached = ""
        if name.startswith("native"):
            peak_s = [percent / each for each in peaks[name.removeprefix("native, ")]]
            reached = ratio(peak_s, participant_s, ".1f")
        table.add_row(name, ms(participant_s, steps), ratio(times[CHANNELS_LAST], participant_s), reached)
    return table


def table_of_multiplications(networks: list[Network]) -> Table:
    table = new_table("Millions of multiplications a step", "", *(network.name for network in networks))
    parts = [multiplications(network) for network in networks]
    for part in parts[0]:
        table.add_row(part, *(f"{of[part] / 1e6:.1f}" for of in parts))
    table.add_row("all", *(f"{sum(of.values()) / 1e6:.1f}" for of in parts))
    table.add_row("by the definition", *(f"{direct_multiplications(network) / 1e6:.1f}" for network in networks))
    return table


def compared(console: Console, networks: list[Network], repeats: int) -> None:
    targets = library.targets()
    fastest = f"native, {targets[0]}"
    pair, limited = [Worker(), Worker()], Worker(AVX2_ALONE)
    both = new_table("Two cores, steps a second", "", fastest, "channels-last", "times")
    avx2 = new_table("AVX2 alone, one core, ms a step", "", "native", "channels-last", "times", "fadewise")
    peaks_seen: Times = {target: [] for target in targets}
    for network in networks:
        steps = work_of(network).training.steps
        contestants = warm_up(pair, network)
        times, peaks = one_core(pair[0], network, contestants, repeats)
        console.print(table_of_one_core(network, times, peaks, steps))
        for target in targets:
            peaks_seen[target] += peaks[target]
        times = two_cores(pair, network, [fastest, CHANNELS_LAST], repeats)
        done = len(pair) * PARTICIPANTS_AT_ONCE * steps
        rates = [f"{done / statistics.median(times[name]):.0f}" for name in (fastest, CHANNELS_LAST)]
        both.add_row(network.name, *rates, ratio(times[CHANNELS_LAST], times[fastest]))
        if "avx2" in targets:
            warm_up([limited], network)
            times, _ = one_core(limited, network, ["native, avx2", CHANNELS_LAST, FADEWISE], repeats)
            ours, theirs, backend = times.values()
            avx2.add_row(network.name, ms(ours, steps), ms(theirs, steps), ratio(theirs, ours), ms(backend, steps))
    console.print(both)
    if "avx2" in targets:
        console.print(avx2)
        print(f"there PyTorch says that it uses {limited.ask(torch.backends.cpu.get_cpu_capability)}")
    console.print(table_of_multiplications(networks))
    for target, found in peaks_seen.items():
        print(f"peak, {target}: {statistics.median(found) / 1e9:.1f} ({min(found) / 1e9:.1f}-{max(found) / 1e9:.1f}) "
              "thousand million multiply-adds a second")  # fmt: skip


def alone(network: Network, participants_: int) -> None:
    """For a profiler to look at."""
    work = work_of(network)
    target = library.targets()[0]
    backend = backends(work, network)[f"native, {target}"]
    for _ in range(participants_):
        work.done_by(backend)


def main() -> None:
    by_name = {network.name: network for network in NETWORKS}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--networks", default=",".join(by_name), help="some of them, as in CIFAR-10,LEAF")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--only", choices=by_name, help="train this one by the fastest kernel, for a profiler")
    arguments = parser.parse_args()
    if not library.targets():
        parser.error("this installation has no native kernel")
    if unknown := set(arguments.networks.split(",")) - set(by_name):
        parser.error(f"there is no network {', '.join(unknown)}; there are {', '.join(by_name)}")
    if arguments.only:
        alone(by_name[arguments.only], 20 * arguments.repeats)
    else:
        compared(Console(), [by_name[name] for name in arguments.networks.split(",")], arguments.repeats)


if __name__ == "__main__":
    main()
