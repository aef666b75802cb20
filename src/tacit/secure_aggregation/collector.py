"""The server of a secure sum: it passes messages on, and opens the sum of those who are present.

It trusts no client either: keys and signatures are checked before they are passed on, and what is
opened must be what a client has committed to. A client that fails a check is left out, as one that
did not answer. It cannot check the numbers: they are masked. The caller checks that the sum is one
that honest clients could have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import sha256

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.secure_aggregation import shamir
from tacit.secure_aggregation.masks import Whole, agreed, derived, mask, signed, type_of
from tacit.secure_aggregation.party import SEALED, pair_key
from tacit.secure_aggregation.statements import (
    Context,
    Keys,
    LiarError,
    Roster,
    SessionError,
    agreement,
    is_signed,
    session_of,
)


class Collector:
    """One session at the server; every ``add`` raises SessionError for what it does not accept."""

    def __init__(self, context: Context, signers: Sequence[Ed25519PublicKey]) -> None:
        self.context, self._signers = context, signers
        self._any = X25519PrivateKey.generate()
        self._keys: dict[int, Keys] = {}
        self._roster: Roster = {}
        self._sealed: dict[int, Mapping[int, bytes]] = {}  # from whom -> to whom
        self._sum = np.zeros(context.numbers, type_of(context.modulus))
        self._present: set[int] = set()
        self._signatures: dict[int, bytes] = {}
        self._opened: dict[int, Mapping[int, bytes]] = {}  # by whom -> of whom
        self._weights: dict[tuple[int, ...], dict[int, int]] = {}

    def add_keys(self, client: int, keys: Keys) -> None:
        """A client's signed keys."""
        statement = keys.statement(self.context, client)
        if not is_signed(self._signers[client], statement, keys.signature):
            raise SessionError("its keys are not signed by it.")
        for public in (keys.pairs, keys.channel):
            agreed(self._any, public)  # an invalid key would make the honest clients fail
        self._keys[client] = keys

    def roster(self) -> Roster:
        """The keys of all clients that have sent some."""
        self._enough(self._keys)
        self._roster = dict(self._keys)
        return self._roster

    def add_shares(self, client: int, sealed: Mapping[int, bytes]) -> None:
        """A client's encrypted shares for all others."""
        if set(sealed) != set(self._roster) - {client}:
            raise SessionError("its shares are not for the clients of the session.")
        if any(len(data) != SEALED for data in sealed.values()):
            raise SessionError("its shares have another length.")
        self._sealed[client] = dict(sealed)

    def shares_for(self, client: int) -> dict[int, bytes]:
        """The encrypted shares that the others have made for a client."""
        self._enough(self._sealed)
        others = (sender for sender in self._sealed if sender != client)
        return {sender: self._sealed[sender][client] for sender in others}

    @property
    def shared(self) -> frozenset[int]:
        """The clients that have shared their secrets."""
        return frozenset(self._sealed)

    def add_masked(self, client: int, numbers: Whole) -> None:
        """A client's masked numbers."""
        if numbers.shape != self._sum.shape or numbers.dtype != self._sum.dtype:
            raise SessionError("its masked numbers have another form.")
        if client in self._present or client not in self._sealed:
            raise SessionError("it is not expected to send masked numbers.")
        self._sum = self._sum + numbers
        self._present.add(client)

    def present(self) -> frozenset[int]:
        """The clients that are in the sum."""
        self._enough(self._present)
        return frozenset(self._present)

    def add_signature(self, client: int, signature: bytes) -> None:
        """A client's signature on who is in the sum."""
        if not is_signed(self._signers[client], self._agreement(), signature):
            raise SessionError("its signature on who is in the sum is not valid.")
        self._signatures[client] = signature

    def signatures(self) -> dict[int, bytes]:
        """Enough signatures on who is in the sum."""
        self._enough(self._signatures)
        return dict(self._signatures)

    def add_opened(self, client: int, opened: Mapping[int, bytes]) -> None:
        """The shares that a client has opened."""
        if set(opened) != set(self._sealed):
            raise SessionError("it opens shares of other clients than those of the session.")
        self._opened[client] = dict(opened)

    def total(self) -> NDArray[np.int64]:
        """The sum of the numbers of all who are present."""
        self._enough(self._opened)
        session = session_of(self.context, self._roster)
        numbers, modulus = self.context.numbers, self.context.modulus
        total = self._sum.copy()
        for client in self._present:
            seed = self._secret(client, self._is_seed)
            total -= mask(derived(seed, "seed", session, client), numbers, modulus)
        for missing in set(self._sealed) - self._present:
            secret = X25519PrivateKey.from_private_bytes(self._secret(missing, self._is_pairs_key))
            for client in self._present:
                shared = agreed(secret, self._roster[client].pairs)
                pair = mask(pair_key(shared, session, client, missing), numbers, modulus)
                total += np.zeros_like(pair) - pair if client < missing else pair
        return signed(total)

    def _is_seed(self, secret: bytes, client: int) -> bool:
        return sha256(secret).digest() == self._roster[client].seed

    def _is_pairs_key(self, secret: bytes, client: int) -> bool:
        public = X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
        return public == self._roster[client].pairs

    def _secret(self, client: int, is_right: Callable[[bytes, int], bool]) -> bytes:
        """A client's secret; if one of the openers lies, it is found without that one."""
        for group, weights in self._groups():
            shares = {opener + 1: self._opened[opener][client] for opener in group}
            try:
                found = shamir.combine(shares, weights)
            except TacitError:
                continue
            if is_right(found, client):
                return found
        raise LiarError(
            f"the opened shares of client {client} are not those of its secret.", client
        )

    def _groups(self) -> Iterator[tuple[tuple[int, ...], dict[int, int]]]:
        """Enough openers with their weights: the first ones, then without one after the other."""
        openers, least = sorted(self._opened), self.context.present
        left_out: list[int | None] = [None, *(openers[:least] if len(openers) > least else [])]
        for liar in left_out:
            group = tuple(opener for opener in openers if opener != liar)[:least]
            if group not in self._weights:
                self._weights[group] = shamir.weights_at_zero([opener + 1 for opener in group])
            yield group, self._weights[group]

    def _agreement(self) -> bytes:
        return agreement(session_of(self.context, self._roster), self._sealed, self._present)

    def _enough(self, found: Collection[int]) -> None:
        if len(found) < self.context.present:
            raise SessionError(
                f"{len(found)} clients have answered, but a secure sum needs"
                f" {self.context.present}."
            )
