"""A process that is one rank of one run: `python -m fadewise.simulation.worker FD`, started by `launch`.

It reads a line with its task from stdin and writes a line for all that happens to the pipe FD, both in JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

from fadewise.errors import FadewiseError

_PR_SET_PDEATHSIG = 1
"""From Linux's prctl.h."""


def main() -> None:
    """Takes a task, does it, and exits."""
    task = json.loads(sys.stdin.readline())
    tell = partial(_tell, os.fdopen(int(sys.argv[1]), "w", encoding="utf-8"))
    _die_with(task["parent"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started this process
    try:
        _do(task, tell)
    except FadewiseError as error:
        tell(error=str(error), lost=type(error).__name__ == "LostRank")
        os._exit(2)  # not through torch's farewell, which waits for ranks that are gone
    except MemoryError:
        tell(error="there is not enough memory for this run", lost=False)
        os._exit(2)
    except Exception as error:
        if os.environ.get("FADEWISE_DEBUG"):
            raise
        sentence = f"internal error: {type(error).__name__}: {error}; FADEWISE_DEBUG=1 shows where, please report it"
        tell(error=sentence, lost=False)
        os._exit(2)


def _do(task: dict[str, Any], tell: Callable[..., None]) -> None:
    from fadewise import config
    from fadewise.simulation.progress import Hearer
    from fadewise.simulation.ranks import join, leave
    from fadewise.simulation.run import run

    experiment = config.experiment(task["settings"], task["source"])
    ranks = join(task["store"], task["rank"], task["ranks"])
    hearer = Hearer(lambda progress: tell(progress=progress), lambda sentence: tell(say=sentence))
    run(experiment, Path(task["folder"]), ranks, hearer)
    leave()


def _tell(pipe: IO[str], **what: Any) -> None:
    try:
        print(json.dumps(what), file=pipe, flush=True)
    except BrokenPipeError:  # nobody is left to tell
        os._exit(1)


def _die_with(parent: int) -> None:
    """Ends this process when its parent ends, however it ends."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main()
