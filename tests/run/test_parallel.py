"""Work over the cores: everything arrives, and nothing outlives the process that asked for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from tacit.run.parallel import over_cores


def test_every_item_comes_back_with_its_answer() -> None:
    assert dict(over_cores(abs, [-1, 2, -3], jobs=2)) == {-1: 1, 2: 2, -3: 3}
    assert dict(over_cores(abs, [-1, 2], jobs=1)) == {-1: 1, 2: 2}


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(
        textwrap.dedent(
            """
            import os, pathlib, sys, time

            from tacit.run.parallel import over_cores

            def work(name):
                pathlib.Path(name).write_text(str(os.getpid()))
                time.sleep(600)

            if __name__ == "__main__":
                list(over_cores(work, ["one.pid", "two.pid"], jobs=2))
            """
        )
    )
    parent = subprocess.Popen([sys.executable, "endless.py"], cwd=tmp_path)
    try:
        files = [tmp_path / name for name in ("one.pid", "two.pid")]
        assert _within(120, lambda: all(file.exists() and file.read_text() for file in files))
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    workers = [int(file.read_text()) for file in files]
    assert _within(30, lambda: not any(map(_alive, workers)))


def _within(seconds: float, true: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has ended stays in the table until init has seen it.
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"
