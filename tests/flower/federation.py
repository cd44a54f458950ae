"""A federation of real processes on loopback: a SuperLink, a ServerApp, and a process for each device."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

APP = Path(__file__).parent / "app"
CREDENTIALS = Path(__file__).parents[2] / "examples" / "flower" / "credentials.py"
PATIENCE_S = 180.0
"""How long to wait for what must come, on a machine that has much else to do."""

EXPERIMENT = """
devices = 6
rounds = 20
seed = 3

[link]
bandwidth_hz = 22e6
payload_bits = 1.7e6

[channel]
kind = "rayleigh"
mean_gain = 2.0

[policy]
kind = "lyapunov"
airtime_weight = 100.0
"""


def until(true: Callable[[], bool], what: str) -> None:
    """Waits for something that must come."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < give_up_at, f"{what} has not come"
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Federation:
    """The processes of a federation, in a folder of their own. Each writes its log there."""

    def __init__(self, folder: Path, experiment: str = EXPERIMENT, secured: bool = False) -> None:
        self.folder = folder
        self.secured = secured
        self.keys = folder / "credentials"
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.books = folder / "books"
        self.state = folder / "state"
        self.state.mkdir()
        self.experiment = folder / "fleet.toml"
        self.experiment.write_text(experiment)
        (folder / "home").mkdir()
        trust = f'root-certificates = "{self.keys / "ca.crt"}"' if secured else "insecure = true"
        (folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "{self.address}"\n{trust}\n'
        )
        if secured:
            subprocess.run([sys.executable, CREDENTIALS, self.keys, "--nodes", "2"], check=True)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def environment(self) -> dict[str, str]:
        tools = str(Path(sys.executable).parent)
        return os.environ | {
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(APP), *sys.path]),
            "FLWR_HOME": str(self.folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
            "FADEWISE_CACHE": str(self.folder / "cache"),
            "OMP_NUM_THREADS": "1",
        }

    def started(self, name: str, *words: str) -> None:
        """Starts a process, as the leader of a group that can be killed as one."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                words, env=self.environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )

    def killed(self, name: str) -> None:
        """kill -9, the process and what it has started."""
        process = self._processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if name == "superlink":
            # Flower starts what runs the ServerApp in sessions of their own, which would outlive it. One that is
            # just being started may not be seen the first time.
            seen_none = 0
            while seen_none < 3:
                found = self._server_apps()
                seen_none = 0 if found else seen_none + 1
                for number in found:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(number, signal.SIGKILL)
                time.sleep(0.05)

    def _server_apps(self) -> list[int]:
        home = f"FLWR_HOME={self.folder / 'home'}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                words = (process / "cmdline").read_bytes()
                is_server = b"serverapp" in words or b"superexec" in words
                if is_server and home in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
        return found

    def close(self) -> None:
        for name in list(self._processes):
            self.killed(name)

    def __enter__(self) -> Federation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def superlink(self, *words: str) -> None:
        """The SuperLink; secured, with TLS, and it lets in only nodes whose keys are registered."""
        tool = str(Path(sys.executable).with_name("flower-superlink"))
        trust = ["--insecure"]
        if self.secured:
            files = {"--ssl-ca-certfile": "ca.crt", "--ssl-certfile": "server.pem", "--ssl-keyfile": "server.key"}
            trust = ["--enable-supernode-auth"]
            trust += [word for option, file in files.items() for word in (option, str(self.keys / file))]
        self.started("superlink", tool, "--port", str(self.port), *trust, *words)
        until(self._healthy, "the SuperLink")

    def _healthy(self) -> bool:
        context = ssl.create_default_context(cafile=self.keys / "ca.crt") if self.secured else None
        scheme = "https" if self.secured else "http"
        try:
            with urllib.request.urlopen(f"{scheme}://{self.address}/health", timeout=5, context=context):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def devices(self, name: str, numbers: str, config: str = "", before: str = "", state: Path | None = None) -> None:
        """A process with a node for each of these devices, as in 0-5; `before` is code that it executes first."""
        code = f"{before}\nfrom fadewise.flower.node import main\nmain()"
        words = ["--superlink", self.address, "--app", "rehearsal.client_app:app", "--devices", numbers]
        config = f'state="{state or self.state}" {config}'
        self.started(name, sys.executable, "-c", code, *words, "--node-config", config, "--poll", "0.2")

    def supernode(self, name: str, device: int, key: str) -> None:
        """Flower's own SuperNode, with a key: slower, as it looks every three seconds and starts processes."""
        tool = str(Path(sys.executable).with_name("flower-supernode"))
        words = ["--superlink", self.address, "--root-certificates", str(self.keys / "ca.crt")]
        words += ["--auth-supernode-private-key", str(self.keys / key), "--port", str(free_port())]
        self.started(name, tool, *words, "--node-config", f'device={device} state="{self.state}"')

    def until_ended(self, name: str) -> None:
        """Waits for a process that gives up."""
        until(lambda: self._processes[name].poll() is not None, f"the end of {name}")

    def flwr(self, *words: str) -> None:
        """A command of Flower's, to its end."""
        result = subprocess.run(
            [Path(sys.executable).with_name("flwr"), *words],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert result.returncode == 0, result.stdout + result.stderr

    def run(self, **config: Any) -> None:
        """`flwr run`, which returns once the run has begun."""
        settings = {"experiment": str(self.experiment), "folder": str(self.books)} | config
        words = [f"{name.replace('_', '-')}={json.dumps(value)}" for name, value in settings.items()]
        self.flwr("run", str(APP), "--run-config", " ".join(words))

    def records(self) -> list[dict[str, Any]]:
        """The records of the rounds so far."""
        path = self.books / "rounds.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def until_round(self, number: int) -> list[dict[str, Any]]:
        """The records once so many rounds have been played and saved."""
        try:
            until(lambda: self._rounds_saved() >= number, f"round {number} of {self.folder}")
        except AssertionError as error:
            raise AssertionError(f"{error}; the SuperLink's log ends with\n{self.log('superlink')[-3000:]}") from None
        return self.records()

    def _rounds_saved(self) -> int:
        try:
            with np.load(self.books / "checkpoint.npz") as arrays:
                return int(arrays["memory.round"])
        except FileNotFoundError:  # none yet, or just then renamed
            return 0

    def hold(self, point: str, device: int) -> None:
        """Makes a device stop at a point until it is let go."""
        (self.state / f"hold-{point}-{device}").touch()

    def let_go(self, point: str, device: int) -> None:
        (self.state / f"hold-{point}-{device}").unlink()

    def until_held(self, point: str, device: int) -> None:
        """Waits until a device has come to the point at which it is held."""
        until((self.state / f"held-hold-{point}-{device}").exists, f"device {device} at {point}")
