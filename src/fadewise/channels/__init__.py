"""How good the links are this round: one file a channel. A new one is a file and an export line here."""

from typing import Any

from fadewise.channels.base import Channel as Channel
from fadewise.channels.bounded import Bounded as Bounded
from fadewise.channels.rayleigh import Rayleigh as Rayleigh
from fadewise.channels.switched import Switched as Switched
from fadewise.channels.trace import Trace as Trace
from fadewise.registry import exported

CHANNELS: dict[str, type[Channel[Any]]] = exported(globals(), Channel)
"""Every channel by its kind, the name it has in configurations."""
