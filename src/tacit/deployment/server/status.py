"""The status of a server's run, and the sites that do not join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tacit.deployment.site.site import JOINED
from tacit.wire.client import REFUSED
from tacit.wire.codec import WireError, decode


@dataclass(frozen=True)
class Status:
    """The progress of a run, for display."""

    stage: str  # waiting, training, done, stopped
    round: int
    rounds: int
    online: tuple[str, ...] = ()
    said: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)


def refusal_in(reply: bytes | None) -> str | None:
    """Why a site does not join; None if it joins."""
    if reply is None:
        return "did not answer"
    try:
        message = decode(reply)
    except WireError:
        return "answered with an invalid message"
    if message.kind == JOINED:
        return None
    if message.kind == REFUSED:
        return f"refused (reason: {message.meta.get('reason', 'none given')})"
    return "failed"


def says(reply: bytes | None, kind: str) -> bool:
    """Whether a site's reply is of this kind."""
    try:
        return reply is not None and decode(reply).kind == kind
    except WireError:
        return False
