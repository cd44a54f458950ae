"""How one server bears a fleet: the time of an exchange and memory as nodes grow in number, beside FedAvg.

    python benchmarks/fleet.py                      # 10, 30, 100, 300 nodes, 5 rounds of each
    python benchmarks/fleet.py --nodes 10 --rounds 2

A SuperLink and a ServerApp as anywhere, on loopback without TLS. The nodes are not SuperNodes, of which each is
a process and starts one more for every message, but `fadewise.flower.node`: threads of one process, over the
SuperNode's own connection. Each looks for messages every `--poll` seconds; FedAvg samples as many nodes as take part
with fadewise on average, or all, through fadewise's own wait for replies, so that the strategies are what differs.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

TOOLS = Path(sys.executable).parent
APP = Path(__file__).parent / "fleet_app"
NODES = (10, 30, 100, 300)
PATIENCE_S = 1800.0
"""For one fleet."""
STRATEGIES = {
    "fadewise, 2 exchanges": ("scheduled", 2),
    "fadewise, 1 exchange": ("scheduled", 1),
    "FedAvg": ("fedavg", 1),
    "FedAvg, all train": ("fedavg-all", 1),
}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def resident_mb(pid: int) -> float:
    """The most memory that a process has had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


def measured(nodes: int, rounds: int, poll_s: float, numbers: int, strategy: str, exchanges: int) -> dict[str, float]:
    """One fleet under one strategy, in processes of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, port = Path(scratch), free_port()
        (folder / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
        )
        environment = os.environ | {
            "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(APP), *sys.path]),
            "FLWR_HOME": str(folder),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
        }
        processes: list[subprocess.Popen[bytes]] = []

        def start(*words: str) -> subprocess.Popen[bytes]:
            log = (folder / f"{len(processes)}.log").open("wb")
            process = subprocess.Popen(words, env=environment, cwd=folder, stdout=log, stderr=log)
            processes.append(process)
            return process

        try:
            superlink = start(str(TOOLS / "flower-superlink"), "--insecure", "--port", str(port))
            wait(lambda: listening(port), "the SuperLink")
            fleet = start(
                sys.executable,
                *("-P", "-m", "fadewise.flower.node", "--superlink", f"127.0.0.1:{port}"),
                *("--app", "swarm.client_app:app", "--devices", f"0-{nodes - 1}", "--poll", str(poll_s)),
                *("--node-config", f'state="{folder / "state"}"'),
            )
            config = {
                "nodes": nodes,
                "rounds": rounds,
                "strategy": strategy,
                "exchanges": exchanges,
                "numbers": numbers,
            }
            config["report"] = str(folder / "report.json")
            words = " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
            subprocess.run(
                [TOOLS / "flwr", "run", APP, "--run-config", words], env=environment, check=True, capture_output=True
            )
            report = folder / "report.json"
            wait(report.exists, f"the end of {nodes} nodes")
            result: dict[str, Any] = json.loads(report.read_text())
            return {
                "round_s": statistics.median(result["wall_s"][1:]),
                "decide_s": statistics.median(result["decide_s"][1:]),
                "train_s": statistics.median(result["train_s"][1:]),
                "participants": statistics.mean(result["participants"]),
                "server_mb": result["memory_mb"],
                "superlink_mb": resident_mb(superlink.pid),
                "nodes_mb": resident_mb(fleet.pid),
            }
        finally:
            for process in reversed(processes):
                process.send_signal(signal.SIGTERM)
            for process in processes:
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait(true: Any, what: str) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > give_up_at:
            sys.exit(f"{what} has not come")
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--rounds", type=int, default=5, help="the first, in which nodes connect, is not counted")
    parser.add_argument("--poll", type=float, default=3.0, help="how often a node looks, in s; a SuperNode's is 3")
    parser.add_argument("--numbers", type=int, default=50_000, help="parameters of the model")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error(f"--rounds is {arguments.rounds}; it must be at least 2, as the first is not counted")
    table = Table(
        title=f"{arguments.numbers:,} parameters, nodes look every {arguments.poll:g} s, median rounds",
        box=box.SIMPLE_HEAD,
    )
    for heading in (
        "nodes",
        "strategy",
        "sent",
        "round, s",
        "decide",
        "train",
        "ServerApp, MB",
        "SuperLink",
        "all nodes",
    ):
        table.add_column(heading, justify="left" if heading == "strategy" else "right")
    found: dict[str, Any] = {}
    for nodes in arguments.nodes:
        for name, (strategy, exchanges) in STRATEGIES.items():
            result = measured(nodes, arguments.rounds, arguments.poll, arguments.numbers, strategy, exchanges)
            found[f"{nodes} nodes, {name}"] = result
            cells = ("participants", "round_s", "decide_s", "train_s", "server_mb", "superlink_mb", "nodes_mb")
            digits = (1, 1, 1, 1, 0, 0, 0)
            table.add_row(f"{nodes:,}", name, *(f"{result[c]:.{d}f}" for c, d in zip(cells, digits, strict=True)))
            if arguments.json:
                arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
