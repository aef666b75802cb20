"""Exact samplers of normal numbers on a grid, from random bits.

    rounded    floor(2^bits Z), Z standard normal
    discrete   integers i with probability proportional to exp(-i^2 / (2 4^bits))

Both are drawn by rejection sampling as in Karney (2016): the size is k + x with k drawn
proportionally to exp(-k^2/2) by a table of thresholds and x uniform in [0, 1), accepted with
probability exp(-x (2k + x)/2). For discrete numbers x is a multiple of 2^-bits. 64 random bits
decide nearly every comparison. If they or the floats do not decide it, 128 more bits and 80 decimal
digits do. The total variation distance to the exact distribution is at most 2^-140 for every
number. No draw is ``REACH`` or more standard deviations from 0; the mass beyond, 2^-141, is most of
that distance.

The random bits come directly from the operating system, or from SHAKE-256 of a label and a secret
of this process (which the operating system has drawn). The same label gives the same bits, so two
devices of one simulation draw the same noise, and nobody outside the process can reproduce it.
Labels are 64-bit keys: the probability that two of N draws share a label is below N^2 / 2^65.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Words = Callable[[int], NDArray[np.uint64]]

REACH: Final = 14.0
_DOUBT: Final = 2.0**-46  # closer than this, 53 bits do not decide a comparison


def rounded_normals(count: int, bits: int, words: Words | None = None) -> NDArray[np.int64]:
    """floor(2^bits Z) for ``count`` independent standard normals Z; ``words`` gives random bits."""
    return _drawn(count, bits, words or os_words, discrete=False)


def discrete_normals(count: int, bits: int, words: Words | None = None) -> NDArray[np.int64]:
    """``count`` discrete Gaussians on the integers with parameter 2^bits."""
    return _drawn(count, bits, words or os_words, discrete=True)


def os_words(count: int) -> NDArray[np.uint64]:
    """64-bit words from the operating system."""
    return np.frombuffer(os.urandom(8 * count), np.uint64)


def secret_words(label: bytes) -> Words:
    """64-bit words derived from the secret of this process and a label; equal for equal labels."""
    calls = 0

    def words(count: int) -> NDArray[np.uint64]:
        nonlocal calls
        place = calls.to_bytes(8, "little")
        calls += 1
        source = hashlib.shake_256(_SECRET + place + label)
        return np.frombuffer(source.digest(8 * count), np.uint64)

    return words


_SECRET: Final = secrets.token_bytes(32)  # drawn at import, before any thread can use it


def _drawn(count: int, bits: int, words: Words, *, discrete: bool) -> NDArray[np.int64]:
    found: list[NDArray[np.int64]] = []
    missing = count
    while missing > 0:
        drawn = _candidates(int(missing * 1.45) + 16, bits, words, discrete=discrete)[:missing]
        found.append(drawn)
        missing -= len(drawn)
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _candidates(
    count: int, bits: int, words: Words, *, discrete: bool = False
) -> NDArray[np.int64]:
    """The accepted ones of ``count`` candidates, about 71 %."""
    first, second, third = words(3 * count).reshape(3, count)
    k = np.searchsorted(_HIGH, first, side="right").astype(np.int64)
    for i in np.flatnonzero(k != np.searchsorted(_HIGH, first, side="left")):
        k[i] = cell(_joined(first[i], *words(2)))
    x = second >> np.uint64(1)  # 63 bits; the last one is the sign
    if discrete:
        x = x >> np.uint64(63 - bits) << np.uint64(63 - bits)
    place = x.astype(np.float64) * 2.0**-63
    chance = np.exp(-place * (2 * k + place) / 2)
    gap = chance - third.astype(np.float64) * 2.0**-64
    accepted = gap > 0
    for i in np.flatnonzero(np.abs(gap) < _DOUBT):
        more, coin = words(4).reshape(2, 2)
        exact = _joined(x[i], *(np.zeros(2, np.uint64) if discrete else more))
        accepted[i] = accepts(int(k[i]), exact, _joined(third[i], *coin))
    size = (k << bits) | (x >> np.uint64(63 - bits)).astype(np.int64)
    negative = (second & np.uint64(1)).astype(bool)
    if discrete:  # 0 has one sign only
        return np.where(negative, -size, size)[accepted & ~(negative & (size == 0))]
    return np.where(negative, -size - 1, size)[accepted]


def _joined(*words: Any) -> int:
    """64-bit words as one number, the first on top."""
    whole = 0
    for word in words:
        whole = whole << 64 | int(word)
    return whole


def cell(place: int) -> int:
    """The k of 192 random bits, if the first 64 bits do not decide it."""
    return sum(threshold <= place for threshold in _THRESHOLDS)


def accepts(k: int, x: int, coin: int) -> bool:
    """coin/2^192 < exp(-y (2k + y)/2) with y = x/2^191, decided in 80 digits."""
    with localcontext() as context:
        context.prec = 80
        y = Decimal(x) / Decimal(2**191)
        return Decimal(coin) / Decimal(2**192) < (-(y * (2 * k + y)) / 2).exp()


def _thresholds() -> list[int]:
    """2^192 P(K <= k) for P(K = k) proportional to exp(-k^2/2); P(K > 13) is 2^-141."""
    with localcontext() as context:
        context.prec = 80
        weights = [(Decimal(-k * k) / 2).exp() for k in range(14)]
        total = sum(weights, Decimal(0))
        return [
            int((sum(weights[: k + 1], Decimal(0)) / total * 2**192).to_integral_value())
            for k in range(13)
        ]


_THRESHOLDS: Final = _thresholds()
_HIGH: Final = np.array([threshold >> 128 for threshold in _THRESHOLDS], np.uint64)
