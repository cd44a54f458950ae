"""How fast a round is decided, against the textbook formula, an optimiser and the memory itself.

    python benchmarks/decide.py

Side by side in one run, the contestants taking turns, so that each ratio is of times measured together:

ours       Lyapunov.decide: probability, power and next backlog of all devices
textbook   the same formula as it stands, with scipy.special.lambertw
optimiser  scipy.optimize.minimize_scalar for each device (on 1,000 devices)
one pass   three arrays written from the two that are read, by one NumPy operation each: the memory bound

Every device has the paper's problem (heterogeneous CIFAR-10 network, λ = 100, V = 1000): for N devices λ·N
and V/N are kept, and the backlogs are those of the paper's network after 3,000 rounds. In the first round, or
under a budget that does not bind, all backlogs are 0 and all send at peak power, which no table holds: "empty queues".
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize_scalar
from scipy.special import lambertw

import fadewise as fw
from fadewise import config
from fadewise.ledger import Ledger
from fadewise.policies.lyapunov import Backlog

Array = NDArray[np.float64]
Problem = tuple[fw.Lyapunov, Backlog, Array]
PAPER = "paper/cifar10-het"


def paper_policy(devices: int) -> fw.Lyapunov:
    """The paper's policy such that each of any number of devices has the problem that it has among 100."""
    policy = config.load(PAPER).policy
    assert isinstance(policy, fw.Lyapunov)
    scale = devices / policy.population
    return replace(
        policy,
        population=devices,
        airtime_weight=policy.airtime_weight / scale,
        penalty_weight=policy.penalty_weight * scale,
    )


def settled_network() -> tuple[Array, Array]:
    """Backlogs and gains of the paper's network after 3,000 rounds."""
    experiment = config.load(PAPER)
    states = fw.begin(experiment)
    for number in range(3000):
        played, states = fw.play(experiment, states, number)
    return states.policy.backlog, played.gains


def problem(devices: int, network: tuple[Array, Array]) -> Problem:
    """That network repeated for any number of devices."""
    backlog, gains = (np.resize(values, devices) for values in network)
    # No two devices alike: caches and branch predictors would see through repetition.
    gains = gains * (1 + 0.1 * np.random.default_rng(0).random(devices))
    return paper_policy(devices), Backlog(backlog), gains


def textbook(policy: fw.Lyapunov, state: Backlog, gains: Array) -> tuple[Array, Array, Array]:
    """The closed form as one would write it down."""
    link, v, lam, z = policy.link, policy.penalty_weight, policy.airtime_weight, state.backlog
    n, bits, width = policy.population, link.payload_bits, link.bandwidth_hz
    gain_over_noise = gains / link.noise_power
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        a = v * lam * bits * gain_over_noise * np.log(2) / (width * z)
        x = np.exp(2 * lambertw(np.sqrt(a / 4)).real)
        power = np.where(z > 0, np.minimum((x - 1) / gain_over_noise, link.peak_power), link.peak_power)
        capacity = width * np.log2(1 + gain_over_noise * power)
        q = np.minimum(1, 1 / np.sqrt(n * (lam * bits / capacity + z * power / v)))
    return q, power, np.maximum(z + power * q - link.mean_power, 0)


def optimiser(policy: fw.Lyapunov, state: Backlog, gains: Array) -> list[float]:
    """The power of each device by a bounded search, as one would who has no closed form."""
    link, v, lam = policy.link, policy.penalty_weight, policy.airtime_weight
    seconds = link.payload_bits / link.bandwidth_hz
    best, peak_power = [], float(np.max(link.peak_power))
    for g, z in zip(gains.tolist(), state.backlog.tolist(), strict=True):

        def cost(power: float, g: float, z: float) -> float:
            return v * lam * seconds / math.log2(1 + g * power / link.noise_power) + z * power

        best.append(float(minimize_scalar(cost, args=(g, z), bounds=(0.0, peak_power), method="bounded").x))
    return best


def one_pass(gains: Array, backlog: Array) -> tuple[Array, Array, Array]:
    """What has to be read is read and what has to be written is written, with a single operation each."""
    q, power, z_next = np.empty((3, len(gains)))
    np.add(gains, backlog, out=q)
    np.subtract(gains, backlog, out=power)
    np.maximum(gains, backlog, out=z_next)
    return q, power, z_next


def seconds_of(contestants: dict[str, Callable[[], object]], turns: int, calls: int) -> dict[str, list[float]]:
    """The time of one call of each, in every turn; all take part in each turn."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for call in contestants.values():
        call()
    gc.disable()
    for _ in range(turns):
        for name, call in contestants.items():
            start = time.perf_counter()
            for _ in range(calls):
                call()
            times[name].append((time.perf_counter() - start) / calls)
    gc.enable()
    return times


def ratio(times: dict[str, list[float]], of: str, to: str) -> str:
    """How many times as long one takes as the other: the median over turns, and their range."""
    ratios = sorted(a / b for a, b in zip(times[of], times[to], strict=True))
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"


def duration(seconds: float) -> str:
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def decisions(sizes: list[int], turns: int, console: Console) -> None:
    network = settled_network()
    table = Table(title="Deciding a round (medians; ratios with their range over the turns)", box=box.SIMPLE_HEAD)
    for heading in ("devices", "ours", "a device", "textbook / ours", "ours / one pass"):
        table.add_column(heading, justify="right")
    for devices in sizes:
        policy, state, gains = problem(devices, network)
        _check_agreement(policy, state, gains)
        times = seconds_of(
            {
                "ours": lambda p=policy, s=state, g=gains: p.decide(s, g),  # type: ignore[misc]
                "textbook": lambda p=policy, s=state, g=gains: textbook(p, s, g),  # type: ignore[misc]
                "one pass": lambda s=state, g=gains: one_pass(g, s.backlog),  # type: ignore[misc]
            },
            turns if devices <= 10**6 else max(3, turns // 4),
            max(1, 20_000 // devices),
        )
        ours = statistics.median(times["ours"])
        table.add_row(
            f"{devices:,}",
            duration(ours),
            duration(ours / devices),
            ratio(times, "textbook", "ours"),
            ratio(times, "ours", "one pass"),
        )
    console.print(table)
    devices = min(10**6, sizes[-1])
    policy, settled, gains = problem(devices, network)
    empty = Backlog(np.zeros(devices))
    times = seconds_of(
        {"settled": lambda: policy.decide(settled, gains), "empty": lambda: policy.decide(empty, gains)},
        turns,
        max(1, 20_000 // devices),
    )
    console.print(
        f"{devices:,} devices with empty queues, all at peak power: {duration(statistics.median(times['empty']))}, "
        f"{ratio(times, 'empty', 'settled')} times as long as with settled ones"
    )
    policy, state, gains = problem(1000, network)
    times = seconds_of(
        {"ours": lambda: policy.decide(state, gains), "optimiser": lambda: optimiser(policy, state, gains)}, 5, 1
    )
    console.print(
        f"An optimiser for each of 1,000 devices: {duration(statistics.median(times['optimiser']))}, "
        f"{ratio(times, 'optimiser', 'ours')} times ours"
    )


def _check_agreement(policy: fw.Lyapunov, state: Backlog, gains: Array) -> None:
    """The contestants must have solved the same problem."""
    decision, after = policy.decide(state, gains)
    for ours, theirs in zip(
        (decision.probability, decision.power, after.backlog), textbook(policy, state, gains), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)


def whole_rounds(devices: int, rounds: int, console: Console) -> None:
    """Draw gains, decide, sample, account: a round without training, on one core."""
    experiment = replace(
        config.load(PAPER, {"devices": devices, "channel.inner.mean_gain": 2.0}), policy=paper_policy(devices)
    )
    gains, backlog = np.random.default_rng(0).random((2, devices))
    ledger = Ledger(experiment.policy, experiment.access)
    states = fw.begin(experiment)
    ours, passes = [], []
    for number in range(rounds):
        start = time.perf_counter()
        played, states = fw.play(experiment, states, number)
        ledger.enter(played)
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        one_pass(gains, backlog)
        passes.append(time.perf_counter() - start)
    tracemalloc.start()
    played, states = fw.play(experiment, states, rounds)
    ledger.enter(played)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    settled = slice(rounds // 2, None)  # the first rounds have no backlog and are another problem
    console.print(
        f"A whole round of {devices:,} devices: {duration(statistics.median(ours[settled]))}, "
        f"{devices / statistics.median(ours[settled]) / 1e6:.1f} million device-rounds a second, "
        f"{ratio({'ours': ours[settled], 'pass': passes[settled]}, 'ours', 'pass')} times one pass; "
        f"memory at its peak {peak / devices:.0f} bytes a device"
    )


def many_rounds(console: Console) -> None:
    """10,000 rounds of the paper's 100 devices: Python's own overheads."""
    experiment = config.load(PAPER, {"rounds": 10_000})
    ledger = Ledger(experiment.policy, experiment.access)
    start = time.perf_counter()
    for played in fw.play_all(experiment):
        ledger.enter(played)
    seconds = time.perf_counter() - start
    console.print(f"10,000 whole rounds of 100 devices: {duration(seconds)}, {duration(seconds / 10_000)} a round")


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast a round is decided.")
    parser.add_argument("--turns", type=int, default=15, help="how often each contestant is timed (15)")
    parser.add_argument("--most-devices", type=int, default=10**7, help="leave out larger sizes")
    arguments = parser.parse_args()
    console = Console(width=100, highlight=False)
    sizes = [n for n in (1, 100, 3597, 10**6, 10**7) if n <= arguments.most_devices]
    decisions(sizes, arguments.turns, console)
    whole_rounds(min(10**6, arguments.most_devices), 30, console)
    many_rounds(console)


if __name__ == "__main__":
    main()
