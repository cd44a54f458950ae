"""The fleet, as the server and every device have it. Without torch, so that a decision takes no longer than it must."""

from pathlib import Path

import fadewise as fw

EXPERIMENT = fw.load(str(Path(__file__).with_name("fleet.toml")))
