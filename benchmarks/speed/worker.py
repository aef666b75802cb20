"""A side as a process that answers requests, with a time limit on every answer."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.speed.environments import FOLDER, ROOT, command, variables


class SideError(Exception):
    """A side failed; the message is the reason in one line."""


class Worker:
    """One process of a side; its output goes to a log under ``.bench``."""

    def __init__(self, side: str, limit: float) -> None:
        self.side, self.limit = side, limit
        FOLDER.mkdir(exist_ok=True)
        self.log = FOLDER / f"{side}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command(side),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=os.environ | variables(side),
                start_new_session=True,
            )
        self._pending = b""

    def ask(self, do: str, **details: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **details}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise SideError(f"{self.side} has ended: see {_shown(self.log)}") from error
        answer: dict[str, Any] = json.loads(self._line())
        if "error" in answer:
            raise SideError(f"{self.side}: {answer['error'].splitlines()[0]}")
        return answer

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not waiting.select(self.limit):
                    raise SideError(f"{self.side} gave no answer within {self.limit:g} s")
                part = os.read(self._process.stdout.fileno(), 1 << 20)
                if not part:
                    raise SideError(f"{self.side} has ended: see {_shown(self.log)}")
                self._pending += part
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ask it to quit, and kill its whole session if it does not."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            if kind is None and self._process.stdin is not None:
                self._process.stdin.write(b'{"do": "quit"}\n')
                self._process.stdin.close()
                self._process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT))
