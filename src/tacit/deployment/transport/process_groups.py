"""The processes of a deployment: each has its own process group, is recorded, and stops as a whole.

The file ``pid`` in a folder names the process group that works for it. The system may reuse a
process number, so the file also holds the start time of the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tacit.deployment.setup.private_files import write_private
from tacit.errors import TacitError

PID = "pid"


def start(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in its own process group; its output goes to a file."""
    with log.open("ab") as said:
        os.fchmod(said.fileno(), 0o600)
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )


def remember(folder: Path, process: int) -> None:
    """Record that this process (and its group) works for the folder."""
    text = json.dumps({"pid": process, "began": _began(process)})
    write_private(folder / PID, text.encode())


def forget(folder: Path) -> None:
    """Remove the record: no process works for the folder any more."""
    (folder / PID).unlink(missing_ok=True)


def working(folder: Path) -> int | None:
    """The process that works for a folder; None if there is none."""
    try:
        known = json.loads((folder / PID).read_text())
        process, began = int(known["pid"]), known["began"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return process if began is not None and _began(process) == began else None


def stop_folder(folder: Path, patience: float = 10.0) -> bool:
    """Stop the process group of a folder; returns whether there was one."""
    process = working(folder)
    if process is not None:
        stop_group(process, patience)
    forget(folder)
    return process is not None


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the group of a child process, and wait for its end."""
    if process.poll() is None:
        stop_group(process.pid)
    process.wait()


def stop_group(process: int, patience: float = 10.0) -> None:
    """Ask a process group to end, wait, and kill what remains."""
    members = group_members(process)
    for kind in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process, kind)
        until = time.monotonic() + patience
        while time.monotonic() < until:
            members = [m for m in members if alive(m)]
            if not members and not group_members(process):
                return
            time.sleep(0.1)


def stop_marked(mark: str, patience: float = 10.0) -> None:
    """Stop every process that was started with this ``NAME=value`` in its environment.

    Flower's programs detach their children from the group, so they survive a killed parent.
    """
    for kind in (signal.SIGTERM, signal.SIGKILL):
        for process in marked(mark):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, kind)
        until = time.monotonic() + patience
        while time.monotonic() < until:
            if not marked(mark):
                return
            time.sleep(0.1)


def marked(mark: str) -> list[int]:
    """The processes with a mark, except this one."""
    wanted, found = mark.encode(), []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            process = int(entry.parent.name)
            carries = wanted in entry.read_bytes().split(b"\0")
            if carries and process != os.getpid() and alive(process):
                found.append(process)
    return found


def runs(mark: str, name: bytes) -> bool:
    """Whether a marked process has this name in its command."""
    for process in marked(mark):
        with contextlib.suppress(OSError):
            if name in Path(f"/proc/{process}/cmdline").read_bytes():
                return True
    return False


def group_members(group: int) -> list[int]:
    """The processes of a group, if the system can list them."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = entry.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(entry.parent.name))
    return found


def alive(process: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(host: str, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a program listens on the port, or raise an error that names its log."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection((host, port), 1):
            return
        time.sleep(0.1)
    raise TacitError(f"nothing listens on {host}:{port}; see {log}.")


def _began(process: int) -> str | None:
    """The start time of a process in ticks since boot; None if it does not exist."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]
