"""The server's processes: Flower's SuperLink, the sites' keys, and Tacit's app on Flower's grid.

Every start uses an empty SuperLink. Everything that must not be lost is in Tacit's own folder, and
a request of an earlier run is never delivered late. A killed server is started again with the same
command and continues from its last round.
"""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from tacit.deployment.setup.keys import CA, CERTIFICATE
from tacit.deployment.setup.private_files import private_folder, write_private
from tacit.deployment.setup.settings import Public
from tacit.deployment.transport.process_groups import (
    forget,
    remember,
    runs,
    start,
    stop,
    stop_marked,
    wait_for_port,
    working,
)
from tacit.errors import TacitError

FOLDER = "TACIT_SERVER_FOLDER"
PROGRESS = "progress.json"
_LINK = "link"
_APP = """[project]
name = "tacit-app"
version = "1.0.0"
description = "Tacit's server on Flower"
license = "Apache-2.0"
dependencies = []

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
packages = ["tacit_app"]

[tool.flwr.app]
publisher = "tacit"

[tool.flwr.app.components]
serverapp = "tacit_app.server:app"
clientapp = "tacit_app.client:app"

[tool.flwr.app.config]
"""
_SERVER = '"""Our loop on Flower\'s grid."""\n\nfrom tacit.deployment.server.app import app\n\n'
_CLIENT = (
    '"""No site runs this: a site is started with `tacit deploy site`."""\n\n'
    "from flwr.clientapp import ClientApp\n\napp = ClientApp()\n"
)


def serve(folder: Path, on_progress: Callable[[Mapping[str, Any]], None]) -> Mapping[str, Any]:
    """Run the federation of a server's folder to its end, and return the last progress."""
    if working(folder) is not None:
        raise TacitError(f"a server is already running in {folder}: `tacit deploy stop` stops it.")
    public = Public.load(folder)
    public.plan  # noqa: B018 - fail before anything starts if the run cannot be planned
    mark = f"{FOLDER}={folder.resolve()}"
    stop_marked(mark)  # processes left behind by a killed server
    remember(folder, os.getpid())
    (folder / PROGRESS).unlink(missing_ok=True)
    signal.signal(signal.SIGTERM, _interrupt)
    link: subprocess.Popen[bytes] | None = None
    try:
        home = private_folder(folder / "flower")
        link = _superlink(folder, home, public)
        _register(folder, public, _reached(public))
        _submit(home)
        return _watch(folder, home, link, on_progress)
    finally:
        if link is not None:
            stop(link)
            stop_marked(mark)
        forget(folder)


def progress_of(folder: Path) -> Mapping[str, Any]:
    """The progress of the run in a server's folder; empty if there is none yet."""
    try:
        found: Mapping[str, Any] = json.loads((folder / PROGRESS).read_text())
        return found
    except (OSError, ValueError):
        return {}


def _superlink(folder: Path, home: Path, public: Public) -> subprocess.Popen[bytes]:
    host, port = _binding(public)
    for old in home.glob("state.db*"):
        old.unlink()
    command = [
        *(sys.executable, "-m", "tacit.deployment.transport.superlink"),
        *("--host", host, "--port", str(port)),
        *("--database", str(home / "state.db"), "--disable-runtime-dependency-installation"),
    ]
    if public.about.insecure:
        command.append("--insecure")
    else:
        command += ["--ssl-certfile", str(folder / CERTIFICATE)]
        command += ["--ssl-keyfile", str(folder / "server.key")]
        command += ["--ssl-ca-certfile", str(folder / CA), "--enable-supernode-auth"]
    _configure(folder, home, public, _reached(public))
    said = home / "superlink.log"
    said.unlink(missing_ok=True)
    link = start(command, said, _environment(folder, home))
    try:
        wait_for_port(_reached(public).rpartition(":")[0], port, link, said)
    except TacitError:
        stop(link)
        raise
    return link


def _configure(folder: Path, home: Path, public: Public, address: str) -> None:
    """Write the files that Flower's command line reads: the SuperLink's address and our app."""
    lines = ["[superlink]", f'default = "{_LINK}"', f"[superlink.{_LINK}]"]
    lines.append(f"address = {json.dumps(address)}")
    if public.about.insecure:
        lines.append("insecure = true")
    else:
        lines.append(f"root-certificates = {json.dumps(str((folder / CA).resolve()))}")
    write_private(home / "config.toml", ("\n".join(lines) + "\n").encode())
    package = private_folder(private_folder(home / "app") / "tacit_app")
    write_private(home / "app" / "pyproject.toml", _APP.encode())
    write_private(package / "__init__.py", b'"""Tacit on Flower."""\n')
    write_private(package / "server.py", (_SERVER + '__all__ = ["app"]\n').encode())
    write_private(package / "client.py", _CLIENT.encode())


def _register(folder: Path, public: Public, address: str) -> None:
    """Register the keys of the sites; all other keys are refused."""
    if public.about.insecure:  # without authentication, nodes register themselves
        return
    from tacit.deployment.transport.flower_grid import register

    register(folder, public, address)


def _submit(home: Path) -> None:
    """Let Flower start our app, which continues the run."""
    _flwr(home, "run", str(home / "app"), _LINK)


def _watch(
    folder: Path,
    home: Path,
    link: subprocess.Popen[bytes],
    on_progress: Callable[[Mapping[str, Any]], None],
) -> Mapping[str, Any]:
    seen: Mapping[str, Any] = {}
    app = AppWatch(f"{FOLDER}={folder.resolve()}")
    while True:
        found = progress_of(folder)
        if found != seen:
            seen = found
            on_progress(found)
        if found.get("stage") == "done":
            return found
        if found.get("stage") == "stopped":
            raise TacitError(str(found.get("said")))
        if link.poll() is not None:
            raise TacitError(
                f"Flower's SuperLink has stopped; see {folder / 'flower' / 'superlink.log'}."
            )
        if app.died():
            _submit(home)
        time.sleep(0.2)


class AppWatch:
    """Detects that our app's process has died without reporting how it ended."""

    def __init__(self, mark: str) -> None:
        self._mark, self._seen, self._missing, self._next = mark, False, 0, 0.0

    def died(self) -> bool:
        """Call it every few seconds; True once if the process is missing three times in a row."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + 3.0
        if runs(self._mark, b"flwr-serverapp"):
            self._seen, self._missing = True, 0
            return False
        self._missing += self._seen
        if self._missing < 3:
            return False
        self._seen, self._missing = False, 0
        return True


def _flwr(home: Path, *arguments: str) -> str:
    done = subprocess.run(
        [_tool("flwr"), *arguments],
        env={**os.environ, **_environment(home.parent, home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise TacitError(f"flwr {arguments[0]} failed: {said[-1] if said else 'no output'}.")
    return done.stdout


def _environment(folder: Path, home: Path) -> dict[str, str]:
    """Settings for Flower: no telemetry, update checks, call logging or package installation."""
    return {
        FOLDER: str(folder.resolve()),
        "FLWR_HOME": str(home.resolve()),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_LOG_LEVEL": os.environ.get("FLWR_LOG_LEVEL", "WARNING"),
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def _binding(public: Public) -> tuple[str, int]:
    host, _, port = public.about.address.rpartition(":")
    try:
        return str(ipaddress.ip_address(host)), int(port)
    except ValueError:
        return ("127.0.0.1" if host == "localhost" else "0.0.0.0"), int(port)


def _reached(public: Public) -> str:
    """The address of the SuperLink for the server's own programs."""
    host, port = _binding(public)
    return f"{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"


def _tool(name: str) -> str:
    """A program of the Flower installation of this Python."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise TacitError(f"the program {name} is missing: install `tacit-fl[deploy]`.")
    return str(path)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt
