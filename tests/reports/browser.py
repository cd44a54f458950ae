"""Headless Chromium, driven through a pipe in its DevTools protocol: JSON messages that end in a zero byte."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip

_FROM_3_TO_4 = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for end, number in zip(ends, (3, 4)):
    os.dup2(end, number)
os.execvp(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads its pipe from file 3 and writes to file 4, whatever their numbers are here."""


class Browser:
    """One page."""

    def __init__(self, to_chromium: int, from_chromium: int) -> None:
        self._to, self._from = to_chromium, from_chromium
        self._number, self._rest, self._session = 0, b"", ""
        self.complaints: list[str] = []
        """What the page's console said of errors and warnings, and exceptions that nobody caught."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, path: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Opens a file at a window's size."""
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Page.navigate", url=path.resolve().as_uri())
        self.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))"
        )
        self.settle()

    def resize(self, width: int, height: int) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def settle(self) -> None:
        """Waits until the page has been drawn again."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key: str, times: int = 1) -> None:
        """Presses a key on whatever has the focus."""
        codes = {"Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, " ": 32}
        about = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": codes[key]}
        for _ in range(times):
            self._call("Input.dispatchKeyEvent", type="keyDown", text=" " if key == " " else "", **about)
            self._call("Input.dispatchKeyEvent", type="keyUp", **about)
        self.settle()

    def drag(self, x: float, y: float, to_y: float) -> None:
        """Drags with the mouse, up or down."""
        self._call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
        for part in (0.5, 1.0):
            self._call(
                "Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y + part * (to_y - y), button="left", buttons=1
            )
        self._call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=to_y, button="left", clickCount=1)
        self.settle()

    def picture(self, path: Path) -> None:
        """The whole page as a PNG."""
        content = self._call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": content["width"], "height": content["height"], "scale": 1}
        data = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(data))

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._heard(answer)

    def _heard(self, event: dict[str, Any]) -> None:
        about = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(about["exceptionDetails"]))
        elif event["method"] == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(about["args"]))
        elif event["method"] == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(about["entry"]["text"])

    def _next(self) -> Any:
        while b"\0" not in self._rest:
            more = os.read(self._from, 1 << 16)
            assert more, "Chromium has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)


@contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium of its own, ended afterwards."""
    assert CHROMIUM is not None
    its_in, to_chromium = os.pipe()
    from_chromium, its_out = os.pipe()
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        words = [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            [sys.executable, "-c", _FROM_3_TO_4, str(its_in), str(its_out), *words],
            pass_fds=(its_in, its_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for file in (its_in, its_out):
            os.close(file)
        try:
            yield Browser(to_chromium, from_chromium)
        finally:
            for file in (to_chromium, from_chromium):
                os.close(file)  # at which it ends
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
