"""Which single reading of the paper gives all eight of its mean numbers of participants M?

    python -m fadewise.studies.readings

Every ambiguity of Algorithm 2 and of the experiments' description is a switch of `Reading`; each is turned
alone, then those that pull the right way together. The policy is transcribed here, apart from the library,
because most of these readings are wrong on purpose. M is the mean of Σq, plus the chance that a device has to
be asked, from an empty backlog.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from fadewise import root
from fadewise.config import parse_seeds
from fadewise.randomness import Stream
from fadewise.studies import run
from fadewise.studies.participants import GROUPS, SETTINGS, SIGMAS, Setting

Array = NDArray[np.float64]

LN2 = math.log(2)
BANDWIDTH_HZ, PENALTY_WEIGHT, PEAK_POWER, MEAN_POWER = 22e6, 1000.0, 100.0, 1.0
PARAMETERS = {"cifar10": 555_178, "femnist": 444_062}

MEAN_GAINS = {
    "2σ²": lambda s: 2 * s**2,  # σ is the Rayleigh parameter
    "2σ": lambda s: 2 * s,  # σ is its square
    "σ²": lambda s: s**2,
    "σ": lambda s: s,
    "σ/2": lambda s: s / 2,
    "4σ²/(4-π)": lambda s: 4 * s**2 / (4 - math.pi),  # σ² is the variance of |h|
    "4σ/(4-π)": lambda s: 4 * s / (4 - math.pi),  # σ is the variance of |h|
    "4σ²/π": lambda s: 4 * s**2 / math.pi,  # σ is the mean of |h|
}


@dataclass(frozen=True)
class Reading:
    """One way to read the paper; the defaults are what it prints."""

    mean_gain: str = "2σ²"
    bounds: Literal["clipped", "rejected", "none", "floor with P̄", "rejected, floor with P̄"] = "clipped"
    a_factor: float = LN2**2  # in A; the derivative has LN2
    else_branch: Literal["q at Pmax", "q at the root"] = "q at Pmax"
    queue: Literal["P·q", "P if sending", "P", "none"] = "P·q"
    rate: Literal["log2", "ln"] = "log2"
    bits: int = 32
    penalty_factor: float = 1.0
    femnist_groups: Literal["as printed", "as in CIFAR-10"] = "as printed"
    rounds: int = 3000

    def __str__(self) -> str:
        default = Reading()
        changed = [f"{f.name} {_short(getattr(self, f.name))}" for f in fields(self) if _differs(self, default, f.name)]
        return ", ".join(changed) or "as printed"


ALONE = (
    Reading(),
    *(Reading(mean_gain=name) for name in MEAN_GAINS if name != "2σ²"),
    Reading(bounds="rejected"),
    Reading(bounds="none"),
    Reading(bounds="floor with P̄"),
    Reading(bounds="rejected, floor with P̄"),
    Reading(a_factor=LN2),
    Reading(a_factor=1.0),
    Reading(a_factor=1 / LN2),
    Reading(a_factor=math.log10(2) ** 2),
    Reading(else_branch="q at the root"),
    Reading(queue="P if sending"),
    Reading(queue="P"),
    Reading(queue="none"),
    Reading(rate="ln"),
    Reading(bits=16),
    Reading(bits=64),
    Reading(penalty_factor=0.1),
    Reading(penalty_factor=10.0),
    Reading(femnist_groups="as in CIFAR-10"),
    Reading(rounds=100),
    Reading(rounds=500),
)
TOGETHER = (
    Reading(mean_gain="2σ", a_factor=LN2),
    Reading(mean_gain="2σ", a_factor=1.0),
    Reading(mean_gain="2σ", a_factor=1.0, rounds=500),
    Reading(a_factor=LN2, else_branch="q at the root"),
    Reading(a_factor=LN2, femnist_groups="as in CIFAR-10"),
    Reading(mean_gain="σ/2", rate="ln", bits=16),
    Reading(mean_gain="σ/2", rate="ln", bits=16, rounds=500),
    Reading(mean_gain="σ/2", rate="ln", bits=16, else_branch="q at the root", rounds=500),
)


def participants(reading: Reading, setting: Setting, seeds: list[int]) -> float:
    """M of one setting under a reading."""
    devices = sum(GROUPS[setting.data])
    groups: Array = np.array(GROUPS[setting.data], float)
    if setting.data == "femnist" and reading.femnist_groups == "as in CIFAR-10":
        groups = np.array([0.1, 0.4, 0.5]) * devices
    ends = np.round(np.cumsum(groups)).astype(int)
    sigma = np.repeat(SIGMAS, np.diff(ends, prepend=0)) if setting.network == "het" else np.ones(devices)
    mean_gain = np.broadcast_to(MEAN_GAINS[reading.mean_gain](sigma), (len(seeds), devices))
    # FEMNIST has 36 times as many devices, whose sum settles sooner.
    rounds = min(reading.rounds, 400) if setting.data == "femnist" else reading.rounds
    backlog, total = np.zeros((len(seeds), devices)), 0.0
    for t in range(rounds):
        words = np.array([Stream(seed, t).uniforms("rayleigh", devices) for seed in seeds])
        q, power = decide(reading, setting, devices, gains(reading, words, mean_gain), backlog)
        total += float(q.sum() + np.prod(1 - q, axis=1).sum())
        if t == 0 or reading.queue == "none":
            continue  # as printed, round 0 leaves the backlog at 0
        spent = {"P·q": power * q, "P": power}.get(reading.queue)
        if spent is None:
            spent = power * (np.array([Stream(seed, t).uniforms("draw", devices) for seed in seeds]) < q)
        backlog = np.maximum(backlog + spent - MEAN_POWER, 0)
    return total / rounds / len(seeds)


def gains(reading: Reading, words: Array, mean_gain: Array) -> Array:
    """Exponential gains by inversion, brought within the bounds."""
    floor = (2**0.25 - 1) / (MEAN_POWER if "floor" in reading.bounds else PEAK_POWER)
    ceiling = (2**10 - 1) / MEAN_POWER
    if reading.bounds.startswith("rejected"):
        # Drawing again until a gain is within the bounds is drawing from the distribution between them.
        above_floor, above_ceiling = np.exp(-floor / mean_gain), np.exp(-ceiling / mean_gain)
        return np.asarray(-mean_gain * np.log(above_floor + words * (above_ceiling - above_floor)))
    drawn = -mean_gain * np.log1p(-words)
    return np.maximum(drawn, 1e-12) if reading.bounds == "none" else np.clip(drawn, floor, ceiling)


def decide(reading: Reading, setting: Setting, devices: int, g: Array, backlog: Array) -> tuple[Array, Array]:
    """Algorithm 2 under a reading: q and P."""
    v, lam = PENALTY_WEIGHT * reading.penalty_factor, setting.airtime_weight
    seconds = reading.bits * PARAMETERS[setting.data] / BANDWIDTH_HZ
    per_log = 1 / LN2 if reading.rate == "log2" else 1.0

    def q_at(u: Array, power: Array | float) -> Array:
        return np.asarray((lam * seconds * devices / (per_log * u) + devices / v * backlog * power) ** -0.5)

    tiny = np.finfo(np.float64).tiny
    u = root.of_log(np.log(reading.a_factor * v * lam * seconds * g) - np.log(np.maximum(backlog, tiny)))
    power, u_peak = np.expm1(np.minimum(u, 700)) / g, np.log1p(g * PEAK_POWER)
    q, q_peak = q_at(u, power), q_at(u_peak, PEAK_POWER)
    interior = (power <= PEAK_POWER) & (q <= 1)
    otherwise = q if reading.else_branch == "q at the root" else q_peak
    q = np.where(interior, q, np.where(backlog > 0, otherwise, q_peak))
    return np.minimum(q, 1), np.where(interior, power, PEAK_POWER)


def main() -> None:
    """Prints the readings, the closest first."""
    parser = argparse.ArgumentParser(description="Readings of the paper against its mean numbers of participants.")
    parser.add_argument("--seeds", default="0-2", help="seeds, as in 0-2 (the default)")
    seeds = parse_seeds(parser.parse_args().seeds)
    paper = np.array([setting.paper for setting in SETTINGS])
    found = []
    for reading in track((*ALONE, *TOGETHER), "readings", transient=True):
        m = np.array([participants(reading, setting, seeds) for setting in SETTINGS])
        found.append((float(np.abs(m / paper - 1).max()), m, reading))
    print("worst  " + " ".join(f"{s.data[:5]}{s.airtime_weight:3.0f}{s.network}" for s in SETTINGS))
    print("paper  " + " ".join(f"{value:11.2f}" for value in paper))
    for worst, m, reading in sorted(found, key=lambda row: row[0]):
        print(f"{worst:5.1%}  " + " ".join(f"{value:11.2f}" for value in m) + f"  {reading}")


def _differs(reading: Reading, default: Reading, name: str) -> bool:
    return bool(getattr(reading, name) != getattr(default, name))


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    run(main)
