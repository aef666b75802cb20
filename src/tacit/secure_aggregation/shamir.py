"""Shamir's secret sharing: any ``threshold`` shares give the secret, fewer say nothing about it.

The secret is the constant of a random polynomial over a prime field, and a share its value at a
point. PyCryptodome has a maintained version, over the field of 2^128 elements and in pure Python:
with 100 clients its shares of one round take 31 s, and those of this module 0.3 s. So this one
exists, for secrets of 32 bytes. Its arithmetic is not of constant time; every polynomial is new and
used once.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from tacit.errors import TacitError

PRIME: Final = 2**256 + 297  # the smallest prime above 2^256
SECRET, SHARE = 32, 33  # bytes


def split(secret: bytes, points: Sequence[int], threshold: int) -> dict[int, bytes]:
    """The shares of a secret at distinct points, which are positive numbers."""
    if len(secret) != SECRET:
        raise TacitError(f"a secret has {SECRET} bytes, not {len(secret)}.")
    if not 1 <= threshold <= len(points) or len(set(points)) != len(points) or min(points) < 1:
        raise TacitError(f"{len(points)} shares with a threshold of {threshold} are not possible.")
    polynomial = [int.from_bytes(secret), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return {point: _value(polynomial, point).to_bytes(SHARE) for point in points}


def combine(shares: Mapping[int, bytes], weights: Mapping[int, int] | None = None) -> bytes:
    """The secret of ``threshold`` shares by point; of wrong shares, an error or another secret."""
    used = weights_at_zero(tuple(shares)) if weights is None else weights
    total = sum(int.from_bytes(share) * used[point] for point, share in shares.items()) % PRIME
    try:
        return total.to_bytes(SECRET)
    except OverflowError:
        raise TacitError("the shares of a secret do not fit together.") from None


def weights_at_zero(points: Sequence[int]) -> dict[int, int]:
    """Lagrange's weights: the same for all secrets that are opened with the same points."""
    found = {}
    for point in points:
        above = below = 1
        for other in points:
            if other != point:
                above = above * other % PRIME
                below = below * (other - point) % PRIME
        found[point] = above * pow(below, -1, PRIME) % PRIME
    return found


def _value(polynomial: Sequence[int], point: int) -> int:
    value = 0
    for coefficient in reversed(polynomial):
        value = (value * point + coefficient) % PRIME
    return value
