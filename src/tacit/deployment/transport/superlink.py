"""Flower's SuperLink behind a guard: sites can reach the fleet interface and nothing else.

A SuperLink serves all interfaces on one port. Anyone who reaches its control interface can start an
app (a program) on the server; only a paid version of Flower requires an account for this. So only
the fleet interface, which checks the key of every node, is open to other machines.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import flwr.superlink.main as flower
from flwr.superlink.cli import flower_superlink

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

_FLEET = "/v1/fleet/"


class Guard:
    """Allows other machines to reach the fleet interface only."""

    def __init__(self, inside: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._inside = inside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a call, or answer 403."""
        if scope["type"] in ("http", "websocket") and not allowed(scope):
            if scope["type"] == "http":
                await send({"type": "http.response.start", "status": 403, "headers": []})
                await send({"type": "http.response.body", "body": b""})
            return
        await self._inside(scope, receive, send)


def allowed(scope: Scope) -> bool:
    """Whether a caller may use this path."""
    if str(scope.get("path", "")).startswith(_FLEET):
        return True
    client = scope.get("client")
    try:
        return client is not None and ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


def main() -> None:
    """Start the SuperLink with the given command line, behind the guard."""
    make: Any = flower.create_app

    def guarded(*given: Any, **named: Any) -> Any:
        return Guard(make(*given, **named))

    flower.create_app = guarded
    flower_superlink()


if __name__ == "__main__":
    main()
