"""A client of a secure sum (Bonawitz et al., 2017), against a server that does not follow it.

    keys     two new key pairs and a new seed; signed with the client's own key
    share    the others' signed keys come back; shares of the seed and of the pairs' secret key for
             every other client, encrypted for it
    receive  the shares that the others have encrypted for this client
    mask     the numbers + the mask of the seed + a mask with every client that has shared
    agree    signs who is in the sum
    open     the signatures of enough clients on the same set come back; for a client in the sum the
             share of its SEED, for one that is missing the share of its PAIRS' KEY, never both

Whoever opens both has the client's numbers: its masks with all others and its own. So a session
answers each step once, in this order, for one set; after the last one, and after a message that it
does not accept, it forgets its secrets. The number of
clients, the threshold, the modulus and the signing keys come from the client's own settings. A
client that was killed has forgotten the session: it is missing from then on, and never answers for
it again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from tacit.secure_aggregation import shamir
from tacit.secure_aggregation.masks import Whole, agreed, derived, mask, whole
from tacit.secure_aggregation.statements import (
    Context,
    Keys,
    Roster,
    SessionError,
    agreement,
    is_signed,
    session_of,
    sign,
)

_STEPS: Final = ("keys", "share", "receive", "mask", "agree", "open", "closed")
_NONCE: Final = bytes(12)  # every key encrypts one message
SEALED: Final = 2 * shamir.SHARE + 16  # bytes of an encrypted pair of shares


@dataclass(frozen=True)
class Identity:
    """Who a client is in all its sessions: its settings' digest, signing key and those of all."""

    federation: str
    key: Ed25519PrivateKey
    signers: tuple[Ed25519PublicKey, ...]  # in the order of the clients


class Party:
    """One client in one session; ``signers`` are the public signing keys of all clients."""

    def __init__(
        self,
        context: Context,
        index: int,
        key: Ed25519PrivateKey,
        signers: Sequence[Ed25519PublicKey],
    ) -> None:
        if len(signers) != context.clients or not 0 <= index < context.clients:
            raise SessionError("the signing keys are not those of the clients.")
        if key.public_key().public_bytes_raw() != signers[index].public_bytes_raw():
            raise SessionError("this client's signing key is not the one that the settings name.")
        self.context, self.index = context, index
        self._key, self._signers = key, signers
        self._seed = secrets.token_bytes(shamir.SECRET)
        self._pairs, self._channel = X25519PrivateKey.generate(), X25519PrivateKey.generate()
        self._own = Keys(
            self._pairs.public_key().public_bytes_raw(),
            self._channel.public_key().public_bytes_raw(),
            sha256(self._seed).digest(),
        )
        signature = sign(key, self._own.statement(context, index))
        self._own = Keys.from_bytes(self._own.to_bytes() + signature)
        self._roster: Roster = {}
        self._session = b""
        self._held: dict[int, tuple[bytes, bytes]] = {}  # of whom -> shares of seed, pairs' key
        self._secrets: dict[int, bytes] = {}  # with whom -> what only the two know, for masks
        self._channels: dict[int, bytes] = {}  # the same, for shares
        self._present: frozenset[int] = frozenset()
        self._step = "keys"

    def keys(self) -> Keys:
        """The signed public keys of this session."""
        with self._at("keys"):
            return self._own

    def share(self, roster: Roster) -> dict[int, bytes]:
        """Shares of this client's two secrets for every other client of the roster, encrypted."""
        with self._at("share"):
            return self._shared(roster)

    def _shared(self, roster: Roster) -> dict[int, bytes]:
        self._check_members(roster, "clients with keys")
        if roster.get(self.index) != self._own:
            raise SessionError("the roster does not have this client's own keys.")
        for client, keys in roster.items():
            statement = keys.statement(self.context, client)
            if not is_signed(self._signers[client], statement, keys.signature):
                raise SessionError(f"the keys of client {client} are not signed by it.")
        self._roster, self._session = dict(roster), session_of(self.context, roster)
        points = [client + 1 for client in sorted(roster)]
        secret = self._pairs.private_bytes_raw()
        seed, pairs = (shamir.split(s, points, self.context.present) for s in (self._seed, secret))
        self._held = {self.index: (seed[self.index + 1], pairs[self.index + 1])}
        return {
            client: self._sealed(client, seed[client + 1] + pairs[client + 1])
            for client in sorted(roster)
            if client != self.index
        }

    def receive(self, sealed: Mapping[int, bytes]) -> None:
        """The shares of the others' secrets: who has sent some is in the session."""
        with self._at("receive"):
            if self.index in sealed:
                raise SessionError("this client sends no shares to itself.")
            self._check_members({self.index, *sealed}, "clients that have shared their secrets")
            for client, data in sealed.items():
                both = self._unsealed(client, data)
                self._held[client] = both[: shamir.SHARE], both[shamir.SHARE :]
                # Now, because an invalid key must not be found after a charge.
                self._secrets[client] = agreed(self._pairs, self._roster[client].pairs)

    def mask(self, values: NDArray[np.int64]) -> Whole:
        """The numbers and all their masks; a second answer with the same masks would open both."""
        with self._at("mask"):
            return self._masked(values)

    def _masked(self, values: NDArray[np.int64]) -> Whole:
        numbers, modulus = self.context.numbers, self.context.modulus
        if len(values) != numbers:
            raise SessionError(f"this session sums {numbers} numbers, not {len(values)}.")
        total = whole(values, modulus)
        total += mask(derived(self._seed, "seed", self._session, self.index), numbers, modulus)
        for client, secret in self._secrets.items():
            pair = mask(pair_key(secret, self._session, self.index, client), numbers, modulus)
            total += pair if self.index < client else np.zeros_like(pair) - pair
        return total

    def agree(self, present: frozenset[int]) -> bytes:
        """This client's signature on who is in the sum."""
        with self._at("agree"):
            self._check_members(present, "clients in the sum")
            if self.index not in present or not present <= set(self._held):
                raise SessionError("the sum has other clients than those that have shared.")
            self._present = frozenset(present)
            return sign(self._key, self._agreement())

    def open(self, signatures: Mapping[int, bytes]) -> dict[int, bytes]:
        """For every client of the session the share that its part in the sum asks for."""
        with self._at("open"):
            return self._opened(signatures)

    def _opened(self, signatures: Mapping[int, bytes]) -> dict[int, bytes]:
        statement = self._agreement()
        valid = {
            client
            for client, signature in signatures.items()
            if client in self._present and is_signed(self._signers[client], statement, signature)
        }
        if len(valid) < self.context.present:
            raise SessionError(
                f"{len(valid)} clients have signed who is in the sum, but"
                f" {self.context.present} are needed."
            )
        return {
            client: seed if client in self._present else pairs
            for client, (seed, pairs) in self._held.items()
        }

    @property
    def name(self) -> str:
        """A short name of the session, for logs: part of a fingerprint of public keys."""
        return self._session[:8].hex()

    def close(self) -> None:
        """Forget all secrets; nothing of this session can be answered any more."""
        self._step = "closed"
        self._held, self._secrets, self._channels, self._roster = {}, {}, {}, {}
        self._seed = b""
        self._pairs = self._channel = X25519PrivateKey.generate()

    @contextmanager
    def _at(self, step: str) -> Iterator[None]:
        """Each step once and in order; a failure closes the session."""
        if self._step != step:
            raise SessionError(f"this session is at {self._step!r}, not at {step!r}.")
        self._step = "closed"
        done = False
        try:
            yield
            done = True
        finally:
            after = _STEPS[_STEPS.index(step) + 1] if done else "closed"
            if after == "closed":
                self.close()
            self._step = after

    def _check_members(self, members: Roster | set[int] | frozenset[int], what: str) -> None:
        known = set(self._roster) if self._roster else set(range(self.context.clients))
        if not set(members) <= known:
            raise SessionError(f"the {what} are not those of this session.")
        if len(members) < self.context.present:
            raise SessionError(
                f"there are {len(members)} {what}, fewer than {self.context.present}."
            )

    def _agreement(self) -> bytes:
        return agreement(self._session, self._held, self._present)

    def _sealed(self, client: int, content: bytes) -> bytes:
        return self._cipher(client, self.index, client).encrypt(_NONCE, content, self._session)

    def _unsealed(self, client: int, data: bytes) -> bytes:
        try:
            if len(data) != SEALED:
                raise InvalidTag
            return self._cipher(client, client, self.index).decrypt(_NONCE, data, self._session)
        except InvalidTag:
            raise SessionError(f"the shares of client {client} cannot be read.") from None

    def _cipher(self, other: int, sender: int, receiver: int) -> AESGCM:
        if other not in self._channels:
            self._channels[other] = agreed(self._channel, self._roster[other].channel)
        return AESGCM(derived(self._channels[other], "channel", self._session, sender, receiver))


def pair_key(secret: bytes, session: bytes, one: int, other: int) -> bytes:
    """The key of the mask that two clients share."""
    return derived(secret, "pair", session, min(one, other), max(one, other))
