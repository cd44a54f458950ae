"""Who has which samples: how a pool of training samples comes into devices' hands."""

# ruff: noqa: ARG002  (a partition takes what every partition takes)

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise import checks
from fadewise.data.base import Labels
from fadewise.errors import FadewiseError, SettingError
from fadewise.randomness import Stream
from fadewise.registry import exported

Owners = NDArray[np.int32]
Indices = NDArray[np.int64]

_NOBODYS = -1


class Holdings(NamedTuple):
    """The samples of all devices in two arrays: device n has rows[starts[n]:starts[n + 1]], in rising order."""

    starts: Indices
    rows: Indices

    def of(self, device: int) -> Indices:
        return self.rows[self.starts[device] : self.starts[device + 1]]


class Partition(ABC):
    """A way to share samples out. Frozen dataclasses; their fields are settings.

    No sample is in two devices' hands, and every device gets at least one or the partition is refused.
    """

    kind: ClassVar[str]

    @abstractmethod
    def holders(self, labels: Labels, owners: Owners | None, devices: int, seed: int) -> Indices:
        """The device that has each sample, -1 where none has it."""

    def rows(self, labels: Labels, owners: Owners | None, devices: int, seed: int) -> Holdings:
        """The samples of each device."""
        devices = checks.whole("devices", devices, least=1)
        holders = self.holders(labels, owners, devices, seed)
        order = np.argsort(holders, kind="stable")
        held = holders[holders >= 0]
        sizes = np.bincount(held, minlength=devices)
        empty = np.flatnonzero(sizes == 0)
        if len(empty):
            raise FadewiseError(
                f"device {empty[0]} has no training samples; {len(labels)} samples shared out by partition "
                f"{self.kind} leave {len(empty)} of {devices} devices without any"
            )
        starts = np.zeros(devices + 1, np.int64)
        np.cumsum(sizes, out=starts[1:])
        return Holdings(starts, order[len(labels) - len(held) :])


@dataclass(frozen=True)
class IID(Partition):
    """Samples are dealt out at random: the devices' numbers of samples are equal up to one."""

    kind: ClassVar[str] = "iid"

    def holders(self, labels: Labels, owners: Owners | None, devices: int, seed: int) -> Indices:
        holders = np.empty(len(labels), np.int64)
        holders[_shuffled(len(labels), seed)] = np.arange(len(labels)) % devices
        return holders


@dataclass(frozen=True)
class ByOwner(Partition):
    """Device n has what owner n of the data set made; of more owners than devices, the first ones are taken."""

    kind: ClassVar[str] = "by-owner"

    def holders(self, labels: Labels, owners: Owners | None, devices: int, seed: int) -> Indices:
        if owners is None:
            raise SettingError(
                "partition",
                f"is {self.kind}, but this data set does not say whose its samples are; it must be one of "
                + ", ".join(sorted(kind for kind in PARTITIONS if kind != self.kind)),
            )
        known = int(owners.max(initial=-1)) + 1
        if devices > known:
            raise SettingError(
                "devices", f"is {devices}, but the data set has {known} owners; with partition {self.kind} "
                f"it must be at most {known}"
            )  # fmt: skip
        return np.where(owners < devices, owners, _NOBODYS).astype(np.int64)


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Each class is split among the devices in proportions drawn from a symmetric Dirichlet distribution.

    Small alpha: each device has few classes, and the devices' numbers of samples differ much. Devices that
    the draw leaves without a sample then get one each, taken at random from the devices that have most.
    Unlike drawing again until nobody is empty, this ends for any alpha and any number of devices, and
    moves no more samples than there are empty devices.
    """

    kind: ClassVar[str] = "dirichlet"
    alpha: float

    def __post_init__(self) -> None:
        checks.number("alpha", self.alpha, above=0)

    def holders(self, labels: Labels, owners: Owners | None, devices: int, seed: int) -> Indices:
        order = _shuffled(len(labels), seed)
        holders = np.empty(len(labels), np.int64)
        for label in np.unique(labels):
            samples = order[labels[order] == label]
            bounds = np.cumsum(self._proportions(int(label), devices, seed))
            # The last bound is the whole class, whatever the sum's rounding error.
            ends = np.minimum(np.rint(bounds / bounds[-1] * len(samples)), len(samples)).astype(np.int64)
            holders[samples] = np.repeat(np.arange(devices), np.diff(ends, prepend=0))
        if devices <= len(labels):  # else nothing helps
            _fill_empty(holders, order, devices)
        return holders

    def _proportions(self, label: int, devices: int, seed: int) -> NDArray[np.float64]:
        """Up to a common factor: the devices' proportions of one class.

        A gamma variate has no inverse in NumPy, so a generator of NumPy's own is keyed from the address; no
        device could draw its share alone anyway, since it takes everyone's to make proportions of them.
        Gamma(a) is Gamma(a + 1)·U^(1/a), in logarithms since for small a it is below the smallest float.
        """
        address = Stream(seed, label)
        key = int(address.uniforms("partition dirichlet key", 1)[0] * 2**53)
        gammas = np.random.Generator(np.random.Philox(key=key)).standard_gamma(self.alpha + 1, devices)
        powers = np.log1p(-address.uniforms("partition dirichlet power", devices)) / self.alpha
        logs = np.log(gammas) + powers
        return np.asarray(np.exp(logs - logs.max()), np.float64)


@dataclass(frozen=True)
class Classes(Partition):
    """Each device has samples of `per_device` classes, and each class is shared evenly among its holders.

    The numbers of holders of two classes differ by at most one, so every class is held as soon as there are
    enough devices for that; with fewer, the samples of some classes are in nobody's hands.
    """

    kind: ClassVar[str] = "classes"
    per_device: int

    def __post_init__(self) -> None:
        checks.whole("per_device", self.per_device, least=1)

    def holders(self, labels: Labels, owners: Owners | None, devices: int, seed: int) -> Indices:
        present, label = np.unique(labels, return_inverse=True)
        if self.per_device > len(present):
            raise SettingError(
                "per_device", f"is {self.per_device}, but the samples have {len(present)} classes; "
                f"it must be at most {len(present)}"
            )  # fmt: skip
        chosen = self._chosen(len(present), devices, seed).ravel()
        slots = np.argsort(chosen, kind="stable")
        bounds = np.searchsorted(chosen[slots], np.arange(len(present) + 1))
        order = _shuffled(len(labels), seed)
        holders = np.full(len(labels), _NOBODYS, np.int64)
        surplus = np.zeros(devices)  # what each has beyond its exact shares of the classes so far
        for number in range(len(present)):
            held_by = slots[bounds[number] : bounds[number + 1]] // self.per_device
            if not len(held_by):
                continue
            # What cannot be shared evenly goes to those that came off worst so far.
            held_by = held_by[np.argsort(surplus[held_by], kind="stable")]
            samples = order[label[order] == number]
            each, left = divmod(len(samples), len(held_by))
            shares = each + (np.arange(len(held_by)) < left)
            holders[samples] = np.repeat(held_by, shares)
            surplus[held_by] += shares - len(samples) / len(held_by)
        return holders

    def _chosen(self, classes: int, devices: int, seed: int) -> Indices:
        """The classes of each device, a row a device.

        In laps: in each, devices take turns at a random order of the classes, repeated until a device's
        turn ends where the order does. So no device meets a class twice, and a lap favours no class.
        """
        lap = classes // math.gcd(classes, self.per_device)
        laps = -(-devices // lap)
        keys = Stream(seed, 0).uniforms("partition classes", laps * classes).reshape(laps, classes)
        turns = np.arange(lap * self.per_device) % classes
        slots = np.argsort(keys, axis=1, kind="stable")[:, turns]
        return slots.reshape(-1, self.per_device)[:devices]


@dataclass(frozen=True)
class OwnClasses(Partition):
    """The first devices share the samples of the first classes, which nobody else has; the others share the rest.

    Both are dealt out at random, as evenly as can be. With channels given in groups, the first devices are those
    of the first group: choose it to see what becomes of classes that only devices with weak links have.

    first_devices: how many have classes of their own. classes: how many classes these are, from class 0 on.
    """

    kind: ClassVar[str] = "own-classes"
    first_devices: int
    classes: int = 1

    def __post_init__(self) -> None:
        checks.whole("first_devices", self.first_devices, least=1)
        checks.whole("classes", self.classes, least=1)

    def holders(self, labels: Labels, owners: Owners | None, devices: int, seed: int) -> Indices:
        if self.first_devices >= devices:
            raise SettingError(
                "first_devices", f"is {self.first_devices} and there are {devices} devices; it must be fewer, "
                "as the others have the other classes"
            )  # fmt: skip
        holders = np.empty(len(labels), np.int64)
        order = _shuffled(len(labels), seed)
        own = labels[order] < self.classes
        first, others = order[own], order[~own]
        holders[first] = np.arange(len(first)) % self.first_devices
        holders[others] = self.first_devices + np.arange(len(others)) % (devices - self.first_devices)
        return holders


def _shuffled(samples: int, seed: int) -> Indices:
    """All samples in random order."""
    return np.argsort(Stream(seed, 0).uniforms("partition order", samples), kind="stable")


def _fill_empty(holders: Indices, order: Indices, devices: int) -> None:
    """Gives each device without a sample one from the devices that have most: in place."""
    sizes = np.bincount(holders, minlength=devices)
    empty = np.flatnonzero(sizes == 0)
    if not len(empty):
        return
    # Lower the largest devices to the level at which they have given up just enough: `most` at the end is the
    # lowest level at which they give up no more than is needed, and what is still missing comes one each from it.
    least, most = 1, int(sizes.max())
    while least < most:
        level = (least + most) // 2
        if np.maximum(sizes - level, 0).sum() > len(empty):
            least = level + 1
        else:
            most = level
    kept = np.minimum(sizes, most)
    missing = len(empty) - int((sizes - kept).sum())
    kept[np.flatnonzero(kept == most)[:missing]] -= 1
    by_holder = order[np.argsort(holders[order], kind="stable")]  # each device's samples, at random
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    given = by_holder[rank >= np.repeat(kept, sizes)]
    holders[given] = empty


PARTITIONS: dict[str, type[Partition]] = exported(globals(), Partition)
"""Every partition by its kind, the name it has in configurations."""
