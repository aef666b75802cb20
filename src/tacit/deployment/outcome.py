"""What a server says of its run: where it stands, what came of it, and who does not join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tacit.accounting import Guarantee
from tacit.deployment.site import JOINED
from tacit.run.folder import Row
from tacit.tasks.base import Params
from tacit.wire.client import REFUSED
from tacit.wire.codec import WireError, decode


@dataclass(frozen=True)
class Status:
    """Where a run stands, for whoever watches."""

    stage: str  # waiting, training, done, stopped
    round: int
    rounds: int
    online: tuple[str, ...] = ()
    said: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """A finished run: the model, what was measured, and what all of it has cost every unit."""

    params: Params
    rounds: int
    rows: list[Row]
    guarantee: Guarantee
    stopped: str | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """The last value of every metric."""
        return {row.metric: row.value for row in self.rows}


def refusal_in(reply: bytes | None) -> str | None:
    """Why a site does not join, None if it does."""
    if reply is None:
        return "did not answer"
    try:
        message = decode(reply)
    except WireError:
        return "answered with something that is no message"
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
