"""What the clients of a secure sum sign: their keys for a session, and who is in the sum.

A session is one sum: one phase of one round of one run, with keys that are used once. What matters
for privacy (clients, threshold, modulus, grid) is in the signed context, from each client's own
copy of the federation's settings. So clients with other settings, or of another session, do not
accept each other's signatures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit.errors import TacitError

SIGNATURE = 64
_KEY = 32


class SessionError(TacitError):
    """A message that a party of a secure sum does not accept."""


class LiarError(SessionError):
    """Somebody has lied: no sum of honest clients looks like this. ``client`` is who, if known."""

    def __init__(self, sentence: str, client: int | None = None) -> None:
        super().__init__(sentence)
        self.client = client


@dataclass(frozen=True)
class Context:
    """One secure sum, as a client knows it from its own settings."""

    federation: str  # digest of the settings, with the clients' public keys
    run: str
    round: int
    phase: str
    clients: int
    present: int  # the fewest clients whose sum is opened
    modulus: int  # 32 or 64
    widths: tuple[tuple[int, int], ...]  # (numbers, bits of a share) of each field

    @property
    def numbers(self) -> int:
        """How many numbers are summed."""
        return sum(numbers for numbers, _ in self.widths)

    @cached_property
    def digest(self) -> bytes:
        """A fingerprint of all of it."""
        return hashlib.sha256(_text("context", asdict(self))).digest()


@dataclass(frozen=True)
class Keys:
    """A client's public keys for one session, and a commitment to the seed of its own mask."""

    pairs: bytes  # X25519: masks that two clients share
    channel: bytes  # X25519: encrypts shares of secrets to this client
    seed: bytes  # SHA-256 of the seed
    signature: bytes = b""

    SIZE = 3 * _KEY + SIGNATURE

    def to_bytes(self) -> bytes:
        """All fields, each of a fixed length."""
        return self.pairs + self.channel + self.seed + self.signature

    @classmethod
    def from_bytes(cls, data: bytes) -> Keys:
        """The fields of ``SIZE`` bytes."""
        if len(data) != cls.SIZE:
            raise SessionError("the keys of a client have another length.")
        pairs, channel, seed = (data[i * _KEY : (i + 1) * _KEY] for i in range(3))
        return cls(pairs, channel, seed, data[3 * _KEY :])

    def statement(self, context: Context, client: int) -> bytes:
        """What the client signs."""
        return b"|".join([context.digest, _text("keys", client), self.to_bytes()[: 3 * _KEY]])


Roster = Mapping[int, Keys]


def session_of(context: Context, roster: Roster) -> bytes:
    """The fingerprint of a session: its context and the keys of all its clients."""
    parts = [_text("client", i) + roster[i].to_bytes() for i in sorted(roster)]
    return hashlib.sha256(context.digest + b"|".join(parts)).digest()


def agreement(session: bytes, shared: Iterable[int], present: Iterable[int]) -> bytes:
    """What clients sign before a sum is opened: who shared secrets, and who is in the sum."""
    return session + _text("agreement", [sorted(shared), sorted(present)])


def sign(key: Ed25519PrivateKey, statement: bytes) -> bytes:
    """The client's signature."""
    return key.sign(b"tacit secure sum|" + statement)


def is_signed(key: Ed25519PublicKey, statement: bytes, signature: bytes) -> bool:
    """Whether the holder of the key has signed the statement."""
    try:
        key.verify(signature, b"tacit secure sum|" + statement)
    except InvalidSignature:
        return False
    return True


def public_keys(encoded: Sequence[str]) -> tuple[Ed25519PublicKey, ...]:
    """The clients' signing keys, as hexadecimal digits, in the order of the clients."""
    try:
        found = tuple(Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)) for key in encoded)
    except ValueError:
        raise TacitError("a signing key is 64 hexadecimal digits.") from None
    if len({key.public_bytes_raw() for key in found}) != len(found):
        raise TacitError("two sites have the same signing key: each needs its own.")
    return found


def _text(kind: str, content: object) -> bytes:
    return json.dumps([kind, content], sort_keys=True, separators=(",", ":")).encode()
