"""The server of the live view: one socket, one process, and an end on Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from urllib.parse import quote

import uvicorn

from tacit.errors import ConfigError
from tacit.live.app import make_app
from tacit.live.guard import Guard, is_loopback
from tacit.live.watch import Watcher

AUTO = "auto"
_SHORTEST = 16
_NICE = 5  # trainings go first


@dataclass(frozen=True)
class Address:
    """Where the view is, and what opens it."""

    host: str
    port: int
    token: str | None

    @property
    def url(self) -> str:
        """The address for a browser."""
        host = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}/" + (
            f"?token={quote(self.token)}" if self.token else ""
        )


def checked_token(host: str, token: str | None) -> str | None:
    """The token to ask for; an address that other machines reach needs one."""
    if token == AUTO:
        return secrets.token_urlsafe(24)
    if token is None:
        if not is_loopback(host):
            raise ConfigError(
                f"{host} can be reached from other machines: give --token auto, or a token of your"
                " own with --token, so that not everybody there sees and stops your runs."
            )
        return None
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"the token needs at least {_SHORTEST} characters, no spaces: --token auto makes one."
        )
    return token


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens; a port in use is one sentence."""
    try:
        kind, *_, place = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(kind, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"there is no address {host} on this machine ({error}).") from None
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(place)
        found.listen(128)
    except OSError as error:
        found.close()
        raise ConfigError(
            f"port {port} of {host} cannot be used ({error.strerror}): choose another one with"
            " --port, or a free one with --port 0."
        ) from None
    return found


class _Server(uvicorn.Server):
    """Ends its streams before it waits for their connections."""

    def __init__(self, config: uvicorn.Config, watcher: Watcher) -> None:
        super().__init__(config)
        self._watcher = watcher

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal asks us to end."""
        self._watcher.end()
        super().handle_exit(sig, frame)


def serve(folder: Path, listener: socket.socket, address: Address) -> None:
    """Serve until a signal ends it."""
    watcher = Watcher(folder)
    app = Guard(make_app(watcher), host=address.host, port=address.port, token=address.token)
    config = uvicorn.Config(
        app,
        http="h11",
        loop="asyncio",
        ws="none",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        _Server(config, watcher).run(sockets=[listener])
