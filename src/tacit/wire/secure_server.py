"""The server's side of a secure sum: five exchanges, of which the third is the phase itself.

A client that does not answer at some step, or whose answer is not accepted, is left out from there
on. The sum is over those whose masked numbers came. Where fewer are left than the clients' own
settings ask for, nothing is opened, and the round has to be repeated with new keys and noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tacit.boundary import Opened
from tacit.errors import TacitError
from tacit.mechanisms.shares import Grid
from tacit.phase import Phase
from tacit.secure_aggregation.collector import Collector
from tacit.secure_aggregation.party import SEALED as SEALED_SIZE
from tacit.secure_aggregation.shamir import SHARE
from tacit.secure_aggregation.statements import SIGNATURE, Keys, LiarError
from tacit.tree import Tree
from tacit.wire.arrival import heard
from tacit.wire.codec import Message, Scalar, encode
from tacit.wire.secure_sum import (
    AGREE,
    FROM,
    KEYS,
    OPEN,
    SEALED,
    SHARES,
    SUM,
    Fields,
    numbers_of,
    parts_of,
    rows_of,
    shaped,
)

Ask = Callable[[Mapping[int, bytes]], Mapping[int, bytes | None]]
Accept = Callable[[int, Message], None]


@dataclass
class SecureRound:
    """One secure sum over a cohort; ``about`` goes with every request."""

    phase: Phase
    round: int
    collector: Collector
    grids: Mapping[str, Grid]
    shapes: Mapping[str, Tree]
    ask: Ask
    about: Mapping[str, Scalar]
    left_out: dict[int, str] = field(default_factory=dict)  # client -> why

    def run(
        self, cohort: Iterable[int], model: Fields, counted: Mapping[int, int]
    ) -> dict[str, Opened]:
        """The sums of all fields; a SessionError if too few clients stay to the end."""
        server, clients = self.collector, set(cohort)
        clients = self._step(KEYS, {c: {} for c in clients}, self._keys)
        roster = server.roster()
        members, rows = rows_of({i: k.to_bytes() for i, k in roster.items()}, Keys.SIZE)
        sent = {"clients": members, "keys": rows}
        clients = self._step(SHARES, dict.fromkeys(clients, sent), self._shares)
        requests = {}
        for client in clients:
            senders, sealed = rows_of(server.shares_for(client), SEALED_SIZE)
            requests[client] = {**model, FROM: senders, SEALED: sealed}
        clients = self._step(self.phase.name, requests, self._masked, counted)
        present = np.asarray(sorted(server.present()), np.int32)
        sent = {"clients": present}
        clients = self._step(AGREE, dict.fromkeys(clients, sent), self._agreed)
        signers, signatures = rows_of(server.signatures(), SIGNATURE)
        sent = {"clients": signers, "signatures": signatures}
        self._step(OPEN, dict.fromkeys(clients, sent), self._opened)
        return self._values()

    def _step(
        self,
        kind: str,
        requests: Mapping[int, Fields],
        accept: Accept,
        counted: Mapping[int, int] | None = None,
    ) -> set[int]:
        """One exchange; the clients whose answers were accepted."""
        about = dict(self.about)
        if kind != self.phase.name:
            about["phase"] = self.phase.name
        replies = self.ask(
            {
                client: encode(kind, fields, _with(about, counted, client))
                for client, fields in requests.items()
            }
        )
        sound = set()
        for client in requests:
            try:
                accept(client, heard(replies.get(client), kind, self.round))
                sound.add(client)
            except TacitError as error:
                self.left_out[client] = str(error)
        return sound

    def _keys(self, client: int, reply: Message) -> None:
        self.collector.add_keys(client, Keys.from_bytes(numbers_of(reply.fields, "keys").tobytes()))

    def _shares(self, client: int, reply: Message) -> None:
        most = self.collector.context.clients
        self.collector.add_shares(client, parts_of(reply.fields, "shares", SEALED_SIZE, most))

    def _masked(self, client: int, reply: Message) -> None:
        self.collector.add_masked(client, numbers_of(reply.fields, SUM))

    def _agreed(self, client: int, reply: Message) -> None:
        self.collector.add_signature(client, numbers_of(reply.fields, "signature").tobytes())

    def _opened(self, client: int, reply: Message) -> None:
        most = self.collector.context.clients
        self.collector.add_opened(client, parts_of(reply.fields, "shares", SHARE, most))

    def _values(self) -> dict[str, Opened]:
        total = self.collector.total()
        sizes = [numbers for numbers, _ in self.collector.context.widths]
        parts = np.split(total, np.cumsum(sizes)[:-1])
        found = {}
        for (name, grid), numbers in zip(self.grids.items(), parts, strict=True):
            if np.abs(numbers).max(initial=0) > grid.largest:
                raise LiarError(f"the sum of {name} is not one that honest clients can have.")
            found[name] = Opened(shaped(grid.value(numbers), self.shapes[name]))
        return found


def _with(
    about: Mapping[str, Scalar], counted: Mapping[int, int] | None, client: int
) -> dict[str, Scalar]:
    if counted is None:
        return dict(about)
    return {**about, "counted": counted.get(client, -1)}
