"""A federation of four nodes on this machine, with TLS and node authentication, beside the simulator.

    python demo.py out/flower

Does what docs/flower.md does by hand, then trains the same fleet in the simulator and prints both.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

import fadewise as fw
from fadewise.errors import FadewiseError

HERE = Path(__file__).parent
TOOLS = Path(sys.executable).parent
PATIENCE_S = 900.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for found in sockets:
        found.bind(("127.0.0.1", 0))
    ports = [int(found.getsockname()[1]) for found in sockets]
    for found in sockets:
        found.close()
    return ports


class Fleet:
    """The processes, each with a log in the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, *self.node_ports = free_ports(1 + fleet().devices)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.environment = os.environ | {
            "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FADEWISE_CACHE": str(folder / "cache"),
        }

    def start(self, name: str, *words: str, **environment: str) -> None:
        """A process that goes on until the fleet is stopped."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [TOOLS / words[0], *words[1:]],
                    env=self.environment | environment,
                    cwd=self.folder,
                    stdout=log,
                    stderr=log,
                )
            )

    def call(self, *words: str) -> None:
        """A command, to its end."""
        result = subprocess.run(
            [TOOLS / words[0], *words[1:]], env=self.environment, cwd=self.folder, capture_output=True, text=True
        )
        if result.returncode:
            raise FadewiseError(f"`{' '.join(words)}` failed: {result.stdout}{result.stderr}")

    def stop(self) -> None:
        """Ends what was started, nodes first."""
        for process in reversed(self.processes):
            process.send_signal(signal.SIGINT)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def fleet() -> fw.Experiment:
    """The fleet that server and devices have."""
    return fw.load(str(HERE / "scheduled" / "fleet.toml"))


@contextmanager
def started(folder: Path) -> Iterator[Fleet]:
    """SuperLink, registered nodes, and a run that has begun."""
    running = Fleet(folder)
    keys, devices = folder / "credentials", fleet().devices
    running.call("python", str(HERE / "credentials.py"), str(keys), "--nodes", str(devices))
    (folder / "flwr").mkdir(exist_ok=True)
    (folder / "flwr" / "config.toml").write_text(
        f'[superlink]\ndefault = "fleet"\n\n[superlink.fleet]\naddress = "127.0.0.1:{running.port}"\n'
        f'root-certificates = "{keys / "ca.crt"}"\n'
    )
    try:
        tls = ["--ssl-ca-certfile", "ca.crt", "--ssl-certfile", "server.pem", "--ssl-keyfile", "server.key"]
        tls = [str(keys / word) if "." in word else word for word in tls]
        running.start("superlink", "flower-superlink", "--port", str(running.port), "--enable-supernode-auth", *tls)
        wait_for_port(running.port)
        for device in range(devices):
            running.call("flwr", "supernode", "register", str(keys / f"node-{device}.pub"), "fleet")
            running.start(
                f"node-{device}",
                "flower-supernode",
                *("--superlink", f"127.0.0.1:{running.port}", "--root-certificates", str(keys / "ca.crt")),
                *("--auth-supernode-private-key", str(keys / f"node-{device}")),
                *("--port", str(running.node_ports[device])),
                *("--node-config", f'device={device} state="{folder / "state"}"'),
                FLWR_HOME=str(folder / f"flwr-{device}"),
            )
        running.call("flwr", "run", str(HERE), "fleet", "--run-config", f'folder="{folder / "books"}"')
        yield running
    finally:
        running.stop()


def wait_for_port(port: int) -> None:
    """Until somebody listens there."""
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise FadewiseError(f"nobody listens on port {port}; see the SuperLink's log")


def lines_of(path: Path, count: int) -> list[dict[str, Any]]:
    """The lines of a file of records, once there are so many."""
    give_up_at = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up_at:
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) >= count:
            return [json.loads(line) for line in lines[:count]]
        time.sleep(0.5)
    raise FadewiseError(f"{path} has not come to {count} rounds; the logs beside it say why")


def main() -> None:
    """The command line."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/flower").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for left in ("books", "state"):  # by a demonstration before, which this one is not to go on with
        shutil.rmtree(folder / left, ignore_errors=True)
    experiment, console = fleet(), Console(width=130)
    with started(folder):
        console.print(f"{experiment.devices} nodes with TLS and keys; logs and books in {folder}")
        records = lines_of(folder / "books" / "rounds.jsonl", experiment.rounds)
        timing = lines_of(folder / "books" / "timing.jsonl", experiment.rounds)
    os.environ["FADEWISE_CACHE"] = str(folder / "cache")
    simulated = list(fw.simulate(experiment))
    console.print(table(records, timing, simulated))
    same = all(
        ours["participants"] == theirs.participants
        and ours["weights"] == theirs.weights
        and ours["power"] == theirs.power
        for ours, theirs in zip(records, simulated, strict=True)
    )
    console.print(f"participants, weights and powers are the simulator's, to the bit: {'yes' if same else 'NO'}")
    sys.exit(not same)


def table(records: list[dict[str, Any]], timing: list[dict[str, Any]], simulated: list[Any]) -> Table:
    """A line a round. Airtime is the network's, in which the devices decide; wall is this machine's."""
    caption = "left on devices, right in the simulator; air is the network's time, wall this machine's"
    result = Table(title="Flower beside the simulator", caption=caption, box=box.SIMPLE_HEAD)
    for heading in (
        "round",
        "sent",
        "weights",
        "air, ms",
        "accuracy",
        "sent",
        "weights",
        "air, ms",
        "accuracy",
        "wall, s",
    ):
        result.add_column(heading, justify="right", no_wrap=True)
    for ours, theirs, wall in zip(records, simulated, timing, strict=True):
        result.add_row(
            str(ours["round"]),
            *cells(ours["participants"], ours["weights"], ours["airtime_s"], ours["metrics"]["accuracy"]),
            *cells(theirs.participants, theirs.weights, theirs.airtime_s, theirs.accuracy),
            f"{wall['wall_s']:.1f}",
        )
    return result


def cells(participants: list[int], weights: list[float], airtime_s: float, accuracy: float) -> list[str]:
    """What Flower and the simulator both have."""
    return [
        " ".join(map(str, participants)),
        " ".join(f"{weight:.2f}" for weight in weights),
        f"{1e3 * airtime_s:.0f}",
        f"{accuracy:.3f}",
    ]


if __name__ == "__main__":
    main()
