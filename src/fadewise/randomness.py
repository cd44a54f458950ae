"""Randomness that is addressed, not carried: every word has an address and no generator has a state.

The address is (seed, purpose, round, device). Under it lies the counter-based generator Philox 4x64:
seed and purpose are its key, round and device its counter, and device n owns word n of its round's
stream (and a page of its own, where it needs more than one word). So round 700 can be replayed alone, a
device alone draws what it would draw among a million, two policies compared under one seed see the same
channels, and nothing needs saving.
"""

from __future__ import annotations

import functools
import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise import checks

_WORDS_PER_BLOCK = 4
LARGEST_SEED = 2**64 - 1


class Stream(NamedTuple):
    """The random words of one round, for all devices from `first_device` on."""

    seed: int
    round: int
    first_device: int = 0

    def uniforms(self, purpose: str, count: int) -> NDArray[np.float64]:
        """`count` numbers uniform on [0, 1), one a device. Another purpose, other numbers."""
        block, skip = divmod(self.first_device, _WORDS_PER_BLOCK)
        generator = self._generator(purpose, block, 0)
        return generator.random(skip + count)[skip:] if skip else generator.random(count)

    def uniforms_of(self, device: int, purpose: str, count: int) -> NDArray[np.float64]:
        """`count` numbers uniform on [0, 1) for one device that needs many in a round."""
        return self._generator(purpose, 0, device + 1).random(count)

    def _generator(self, purpose: str, block: int, page: int) -> np.random.Generator:
        """Page 0 of a round has a word for each device, page n + 1 is device n's own."""
        return np.random.Generator(
            np.random.Philox(
                key=np.array((self.seed, _key(purpose)), np.uint64),
                counter=np.array((block, self.round, page, 0), np.uint64),
            )
        )


def stream(seed: int, round: int, first_device: int = 0) -> Stream:
    """A stream from numbers that a person gave."""
    return Stream(
        checks.whole("seed", seed, least=0, most=LARGEST_SEED),
        checks.whole("round", round, least=0, most=LARGEST_SEED),
        checks.whole("device", first_device, least=0, most=2**63),
    )


@functools.cache
def _key(purpose: str) -> int:
    return int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "little")
