"""The C library's memory allocator, told to keep what training frees."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
"""From glibc's malloc.h."""


def keep_freed_memory() -> None:
    """Raises glibc's thresholds, for this process.

    Each training step frees tens of megabytes and wants them back in the next. glibc returns them to the
    system in between, and the page faults take up to a third of the time (`benchmarks/training.py`).
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library
        return
    mallopt(_M_MMAP_THRESHOLD, 2**30)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_M_TOP_PAD, 2**28)
