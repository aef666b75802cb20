"""A client's side of secure sums: one session at a time, kept in memory only.

New keys begin a new session and end the one before. What a session opens was charged when its
masked numbers were computed. A client that is killed loses its session: it answers nothing for it
any more, and nothing can be opened twice.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.phase import Phase
from tacit.population import Population
from tacit.secure_aggregation.party import SEALED as SEALED_SIZE
from tacit.secure_aggregation.party import Identity, Party
from tacit.secure_aggregation.shamir import SHARE
from tacit.secure_aggregation.statements import SIGNATURE, Keys
from tacit.tree import Tree
from tacit.wire.codec import Message, WireError, encode
from tacit.wire.secure_sum import (
    AGREE,
    FROM,
    KEYS,
    OPEN,
    SEALED,
    SHARES,
    SUM,
    Fields,
    clients_of,
    context_of,
    flat,
    parts_of,
    rows_of,
)

log = logging.getLogger("tacit.site")


class SecureClient:
    """The sessions of one client in one run."""

    def __init__(
        self, identity: Identity | None, index: int, run: str, population: Population
    ) -> None:
        if identity is None:
            raise TacitError("a secure sum needs the signing keys of the sites.")
        self._identity, self._index = identity, index
        self._run, self._population = run, population
        self._party: Party | None = None
        self._grids: Mapping[str, Any] = {}

    def keys(self, phase: Phase, round_: int, shapes: Mapping[str, Tree]) -> bytes:
        """New keys: a new session for this phase and round."""
        self.forget()
        who = self._identity
        context, self._grids = context_of(
            phase, round_, self._run, who.federation, self._population, shapes
        )
        party = Party(context, self._index, who.key, who.signers)
        keys = np.frombuffer(party.keys().to_bytes(), np.uint8)
        self._party = party
        return encode(KEYS, {"keys": keys}, {"round": round_})

    def answer(self, asked: Message, round_: int) -> bytes:
        """The other steps that touch no numbers."""
        party, fields = self._session(str(asked.meta.get("phase")), round_), asked.fields
        most = party.context.clients
        reply: dict[str, NDArray[Any]]
        if asked.kind == SHARES:
            rows = parts_of(fields, "keys", Keys.SIZE, most)
            sealed = party.share({i: Keys.from_bytes(row) for i, row in rows.items()})
            clients, data = rows_of(sealed, len(next(iter(sealed.values()), b"")))
            reply = {"clients": clients, "shares": data}
        elif asked.kind == AGREE:
            signature = party.agree(frozenset(clients_of(fields, most)))
            reply = {"signature": np.frombuffer(signature, np.uint8)}
        elif asked.kind == OPEN:
            opened = party.open(parts_of(fields, "signatures", SIGNATURE, most))
            log.info("round %d: sum opened, session %s", round_, party.name)
            clients, data = rows_of(opened, SHARE)
            reply = {"clients": clients, "shares": data}
        else:
            raise WireError(f"a secure sum has no step {asked.kind!r}.")
        return encode(asked.kind, reply, {"round": round_})

    def receive(self, phase: Phase, round_: int, beside: Fields) -> None:
        """The others' encrypted shares, which come with the model: before any charge."""
        party = self._session(phase.name, round_)
        party.receive(parts_of(beside, SEALED, SEALED_SIZE, party.context.clients, FROM))

    def masked(self, phase: Phase, released: Mapping[str, Tree]) -> dict[str, NDArray[Any]]:
        """All bounded fields on their grids, each with this client's share of noise, masked."""
        assert self._party is not None
        shares = [
            phase.releases[name].share(flat(released[name]), grid)
            for name, grid in self._grids.items()
        ]
        return {SUM: self._party.mask(np.concatenate(shares))}

    def forget(self) -> None:
        """End the session, if there is one."""
        if self._party is not None:
            self._party.close()
        self._party = None

    def _session(self, phase: str, round_: int) -> Party:
        party = self._party
        if party is None or (party.context.phase, party.context.round) != (phase, round_):
            raise WireError("this client has no such session of a secure sum.")
        return party
