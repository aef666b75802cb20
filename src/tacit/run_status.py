"""``status.json``: which process works on a run's folder now, and how far it is.

    state     running, finished, stopped (interrupted) or failed, as the process itself said it
    process   its number, when it started, and its machine: a number may be given to another process
    round     of how many rounds

The file is for people who look on. No run reads it, and nothing is lost with it. So it is replaced
at most once a second, without waiting for the disk, and a disk that is full stops no training. A
killed process leaves "running" behind; ``works`` sees that its process is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from tacit.errors import TacitError

STATUS = "status.json"
VERSION = 1
_EVERY = 1.0  # seconds between two writes
Kind = Literal["simulated", "deployed"]


class RunStatus:
    """The status of one run; without a folder, or before ``begin``, nothing is written."""

    def __init__(self, folder: Path | None, kind: Kind = "simulated") -> None:
        self._path = None if folder is None else folder / STATUS
        self._kind, self._written = kind, 0.0
        self._facts: dict[str, Any] = {}

    def begin(self, rounds: int, *, delta: float, epsilon: float | None, round_: int = 0) -> None:
        """From now on this process works on the folder, within epsilon at delta."""
        self._facts = {
            "version": VERSION,
            "state": "running",
            "kind": self._kind,
            "process": this_process(),
            "stoppable": self._kind == "simulated" and _interrupts_arrive(),
            "started": time.time(),
            "round": round_,
            "rounds": rounds,
            "epsilon": epsilon,
            "delta": delta,
            "said": "starting",
        }
        self._write()

    def at(self, round_: int, said: str = "", *, rounds: int | None = None) -> None:
        """So many rounds are done; called after every stretch, written now and then."""
        if not self._facts:
            return
        self._facts["round"], self._facts["said"] = round_, said[:500]
        if rounds is not None:  # the first rounds begin
            self._facts["rounds"], self._written = rounds, 0.0
        if time.monotonic() - self._written >= _EVERY:
            self._write()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._facts:
            return
        state, said = "finished", ""
        if kind is not None:
            state = "failed" if issubclass(kind, Exception) else "stopped"
            # The text of other errors is for the log: it may hold anything.
            said = str(error) if isinstance(error, TacitError) else kind.__name__
        self._facts |= {"state": state, "said": said[:500], "stoppable": False}
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        self._written = time.monotonic()
        beside = self._path.with_name(f".{STATUS}.new")
        with contextlib.suppress(OSError):
            beside.write_text(json.dumps(self._facts) + "\n", encoding="utf-8")
            beside.replace(self._path)


def this_process() -> dict[str, Any]:
    """This process, such that another one is never taken for it."""
    process = os.getpid()
    return {"pid": process, "began": began(process), "host": socket.gethostname()}


def works(process: Mapping[str, Any]) -> bool | None:
    """Whether this very process still exists; None if it belongs to another machine."""
    if process["host"] != socket.gethostname():
        return None
    return process["began"] is not None and began(int(process["pid"])) == process["began"]


def began(process: int) -> str | None:
    """When a process started, and since which start of the machine; None if it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else f"{_boot()}/{fields[19]}"
    except (OSError, IndexError):
        return None if Path("/proc/self/stat").exists() else _began_elsewhere(process)


def _boot() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _began_elsewhere(process: int) -> str | None:
    """The same on systems without ``/proc``."""
    with contextlib.suppress(OSError):
        done = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(process)], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() or None
    return None


def _interrupts_arrive() -> bool:
    """Whether SIGINT stops this training: not in other threads, nor where a script ignores it."""
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
