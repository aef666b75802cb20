"""Masks: streams of pseudorandom numbers that hide a client's numbers until they are summed.

Each pair of clients agrees on a mask (X25519), which one adds and the other subtracts, so that it
is gone from the sum. Each client adds one more mask of its own (``party`` says why). A mask is the
key stream of AES-256 in counter mode, under a key that HKDF-SHA256 derives for this session and
this pair alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from tacit.errors import TacitError

Whole = NDArray[Any]  # of uint32 or uint64: sums are modulo 2^32 or 2^64
_TYPES: Mapping[int, np.dtype[Any]] = {32: np.dtype("<u4"), 64: np.dtype("<u8")}


def derived(secret: bytes, purpose: str, session: bytes, *clients: int) -> bytes:
    """A key of 32 bytes for one purpose of one session and, if given, for these clients."""
    about = b"|".join([b"tacit secure sum", purpose.encode(), session, repr(clients).encode()])
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=about).derive(secret)


def agreed(own: X25519PrivateKey, other: bytes) -> bytes:
    """The secret that only the holders of the two private keys know."""
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise TacitError("a public key of a secure sum is not valid.") from None


def mask(key: bytes, numbers: int, modulus: int) -> Whole:
    """So many uniform numbers modulo 2^modulus; a key is used for one mask only."""
    kind = _TYPES[modulus]
    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(numbers * kind.itemsize)), kind)


def whole(values: NDArray[np.int64], modulus: int) -> Whole:
    """Signed numbers modulo 2^modulus, in an array of their own."""
    return np.array(values, np.int64).astype(_TYPES[modulus])


def signed(total: Whole) -> NDArray[np.int64]:
    """Numbers modulo 2^modulus as the signed ones nearest to 0."""
    return total.view(f"<i{total.itemsize}").astype(np.int64)


def type_of(modulus: int) -> np.dtype[Any]:
    """The type of numbers modulo 2^modulus."""
    return _TYPES[modulus]
