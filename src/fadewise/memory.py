"""Whether what somebody asks for fits into this machine: said before the work, not by the system's killer."""

from __future__ import annotations

import os

from fadewise.errors import FadewiseError


def needed(numbers: int, what: str) -> None:
    """Refuses `what` if it takes that many 64-bit numbers at once and the machine has no place for them."""
    has = _physical_bytes()
    if has is not None and 8 * numbers > has:
        raise FadewiseError(
            f"{what} needs about {8 * numbers / 2**30:,.0f} GB of memory; this machine has {has / 2**30:,.0f}"
        )


def _physical_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # a system that does not say
        return None
