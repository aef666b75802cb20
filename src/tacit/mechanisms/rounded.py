"""Gaussian noise that floating point arithmetic cannot betray, from the operating system's entropy.

Adding a float to a float leaves traces: which sums can come out depends on the value (Mironov,
2012). So the value goes to a grid first, and the noise is drawn as whole steps of that grid:

    step = sigma / 2^bits
    released = step * ( round(value / step) + floor(2^bits Z) + 1/2 ),    Z standard normal

For a whole number n, floor(n + 2^bits Z) = n + floor(2^bits Z): the release is the Gaussian
mechanism on whole numbers, rounded afterwards. Rounding is post-processing, so every accountant of
the Gaussian holds as it is. Rounding the value first moves two neighbours apart by at most
sqrt(d) steps more; ``bits`` makes that less than 2^-20 of the radius, and the noise is drawn larger
by the factor 1 + 2^-20, which pays for it. The price that is charged does not change.

Z is drawn by rejection in the manner of Karney (2016): Z = k + x with k from exp(-k^2/2) by a table
of thresholds and x uniform in [0, 1), accepted with probability exp(-x (2k + x)/2). 64 random bits
decide nearly every comparison; where they, or floats, do not, further bits and 60 decimal digits
do. The law of the result is within 2^-100 in total variation of the exact one, for every number.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal, localcontext
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import io_callback
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.tree import Tree

Words = Callable[[int], NDArray[np.uint64]]

SLACK: Final = 2.0**-20
_LEAST_BITS, _MOST_BITS = 20, 50
_DOUBT: Final = 2.0**-46  # where 53 bits do not decide a comparison
_LARGEST: Final = 2.0**61
_TINY: Final = 2.0**-100

_wanted: ContextVar[bool] = ContextVar("exact_noise", default=False)


@contextmanager
def exact_noise(on: bool = True) -> Iterator[None]:
    """Programs that are traced inside draw their noise here; seeds and keys do not matter then."""
    token = _wanted.set(on)
    try:
        yield
    finally:
        _wanted.reset(token)


def wants_exact_noise() -> bool:
    """Whether noise is to come from the operating system now."""
    return _wanted.get()


def noised(value: Tree, level: Array | float, radius: Array | float) -> Tree:
    """The value with Gaussian noise of ``level * radius`` on the grid; works inside a program."""
    leaves, structure = jax.tree.flatten(value)
    dtype = jnp.result_type(*leaves)
    flat = jnp.concatenate([jnp.ravel(leaf).astype(dtype) for leaf in leaves])
    shape = jax.ShapeDtypeStruct(flat.shape, dtype)
    drawn = io_callback(_on_host, shape, flat, jnp.asarray(level), jnp.asarray(radius))
    parts = jnp.split(drawn, np.cumsum([leaf.size for leaf in leaves])[:-1])
    pairs = zip(leaves, parts, strict=True)
    return jax.tree.unflatten(structure, [n.reshape(v.shape).astype(v.dtype) for v, n in pairs])


def _on_host(value: Any, level: Any, radius: Any) -> NDArray[Any]:
    array = np.asarray(value)
    return released(array, float(level), float(radius)).astype(array.dtype)


def released(
    value: NDArray[Any], level: float, radius: float, words: Words | None = None
) -> NDArray[np.float64]:
    """A vector whose contributions are bounded by ``radius``, with noise ``level * radius``."""
    if not _TINY < radius < 1 / _TINY:
        # A radius may come from elsewhere. At 0 nothing was let through; where floats end, bounds
        # end too, and nothing of the value is let through either.
        return np.zeros(value.shape)
    bits = grid_bits(value.size, level)
    step = level * radius * (1 + SLACK) * 2.0**-bits
    # A number that is not finite cannot come from a bound; an error here would depend on the data.
    scaled = np.nan_to_num(value.astype(np.float64) / step, nan=0.0)
    whole = np.rint(np.clip(scaled, -_LARGEST, _LARGEST)).astype(np.int64)
    noisy = whole + rounded_normals(value.size, bits, words).reshape(value.shape)
    placed: NDArray[np.float64] = (noisy.astype(np.float64) + 0.5) * step
    return placed


def grid_bits(count: int, level: float) -> int:
    """How fine the grid is: sigma is 2^bits steps, and sqrt(d) + 1 steps are 2^-22 of the radius.

    The half of what the slack would allow is left for a value and its norm that are one release.
    """
    if not 0 < level < math.inf:
        raise TacitError(f"the noise is {level}; only a positive one can be drawn.")
    needed = 22 + math.ceil(math.log2(level * (math.sqrt(count) + 1)))
    if needed > _MOST_BITS:
        raise TacitError(
            f"{count} numbers with noise {level:g} times their bound need a grid finer than"
            f" 2^-{_MOST_BITS}: release fewer numbers, or use less noise."
        )
    return max(needed, _LEAST_BITS)


def rounded_normals(count: int, bits: int, words: Words | None = None) -> NDArray[np.int64]:
    """floor(2^bits Z) for so many independent standard normals Z; ``words`` gives random bits."""
    source = words or os_words
    found: list[NDArray[np.int64]] = []
    missing = count
    while missing > 0:
        drawn = _candidates(int(missing * 1.45) + 16, bits, source)[:missing]
        found.append(drawn)
        missing -= len(drawn)
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def os_words(count: int) -> NDArray[np.uint64]:
    """64-bit words from the operating system."""
    return np.frombuffer(os.urandom(8 * count), np.uint64)


def _candidates(count: int, bits: int, words: Words) -> NDArray[np.int64]:
    """Those of ``count`` candidates that are accepted: about 71 of 100."""
    first, second, third = words(3 * count).reshape(3, count)
    k = np.searchsorted(_HIGH, first, side="right").astype(np.int64)
    for i in np.flatnonzero(k != np.searchsorted(_HIGH, first, side="left")):
        k[i] = cell(int(first[i]) << 64 | int(words(1)[0]))
    x = second >> np.uint64(1)  # 63 bits; the last one is the sign
    place = x.astype(np.float64) * 2.0**-63
    chance = np.exp(-place * (2 * k + place) / 2)
    gap = chance - third.astype(np.float64) * 2.0**-64
    accepted = gap > 0
    for i in np.flatnonzero(np.abs(gap) < _DOUBT):
        more, coin = (int(word) for word in words(2))
        accepted[i] = accepts(int(k[i]), int(x[i]) << 64 | more, int(third[i]) << 64 | coin)
    size = (k << bits) | (x >> np.uint64(63 - bits)).astype(np.int64)
    negative = (second & np.uint64(1)).astype(bool)
    return np.where(negative, -size - 1, size)[accepted]


def cell(place: int) -> int:
    """The k of 128 random bits, where the first 64 do not say it."""
    return sum(threshold <= place for threshold in _THRESHOLDS)


def accepts(k: int, x: int, coin: int) -> bool:
    """coin/2^128 < exp(-y (2k + y)/2) with y = x/2^127, decided in 60 digits."""
    with localcontext() as context:
        context.prec = 60
        y = Decimal(x) / Decimal(2**127)
        return Decimal(coin) / Decimal(2**128) < (-(y * (2 * k + y)) / 2).exp()


def _thresholds() -> list[int]:
    """2^128 P(K <= k) for P(K = k) proportional to exp(-k^2/2); beyond 13 lies 2^-141."""
    with localcontext() as context:
        context.prec = 60
        weights = [(Decimal(-k * k) / 2).exp() for k in range(14)]
        total = sum(weights, Decimal(0))
        return [
            int((sum(weights[: k + 1], Decimal(0)) / total * 2**128).to_integral_value())
            for k in range(13)
        ]


_THRESHOLDS: Final = _thresholds()
_HIGH: Final = np.array([threshold >> 64 for threshold in _THRESHOLDS], np.uint64)
