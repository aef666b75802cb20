"""Random numbers for simulations, fast on a CPU.

JAX computes Threefry in a loop that is not unrolled on a CPU, and keeps one word of every two.
Here the same cipher (2 x 32 bits, 20 rounds, of Salmon and others 2011) is written out, both words
are used, and normals come from their 32 bits by the inverse of the normal law in a form that keeps
its accuracy in the tails, out to 6.3 standard deviations. Together that is several times faster.
Keys are derived the same way, bit for bit as JAX does it: a loop of tiny steps for a key cost more
than a small client's whole gradient. These numbers are for science: real clients draw their noise
elsewhere.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, localcontext
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

_TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))


@jax.jit
def fold_in(key: Array, data: Array | int) -> Array:
    """The key that follows from a key and a number: that of ``jax.random.fold_in``."""
    first, second = jax.random.key_data(key)
    zero = jnp.zeros((), jnp.uint32)
    pair = threefry((first, second), (zero, jnp.asarray(data).astype(jnp.uint32)))
    # Without the barrier XLA would compute the key again for each number drawn from it.
    return jax.random.wrap_key_data(lax.optimization_barrier(jnp.stack(pair)))


def split(key: Array, count: int = 2) -> list[Array]:
    """``count`` keys derived from a key, equal to those of ``jax.random.split``."""
    return [fold_in(key, number) for number in range(count)]


@partial(jax.jit, static_argnums=1)
def words(key: Array, count: int) -> Array:
    """``count`` independent 32-bit words, functions of the key and the position."""
    data = jax.random.key_data(key).astype(jnp.uint32).reshape(-1)
    half = -(-count // 2)
    places = jnp.arange(half, dtype=jnp.uint32)
    first, second = threefry((data[0], data[1]), (places, jnp.zeros_like(places)))
    return jnp.stack([first, second], axis=1).reshape(-1)[:count]


def coin(key: Array, threshold: int) -> Array:
    """True with probability ``threshold`` / 2^64 exactly: 64 bits against a whole number."""
    first, second = words(key, 2)
    high, low = np.uint32(threshold >> 32), np.uint32(threshold & 0xFFFFFFFF)
    return (first < high) | ((first == high) & (second < low))


def below(key: Array, count: int) -> Array:
    """A whole number below ``count``, which is at most 2^16: floor(w count / 2^64) of 64 bits w.

    Every number has 2^64 / count of the words, up to one word: a bias of less than 2^-48 of it.
    """
    first, second = words(key, 2)
    carry = jnp.zeros((), jnp.uint32)
    for digit in (second & 0xFFFF, second >> 16, first & 0xFFFF, first >> 16):
        carry = (digit * np.uint32(count) + carry) >> 16
    return carry.astype(jnp.int32)


def rare(epsilon: float, among: int = 1) -> int:
    """The coin that answers falsely just often enough for a price of ``epsilon``.

    Its threshold is the least one at which each of the ``among`` false answers, one of which
    ``below`` then picks, is at least exp(-epsilon) times as likely as the true one. It is rounded
    up, so the price is never above epsilon.
    """
    with localcontext() as context:
        context.prec = 60
        odds = Decimal(epsilon).exp() * (2**64 // among) / 2**64
        return int((2**64 / (1 + odds)).to_integral_value(ROUND_CEILING))


@partial(jax.jit, static_argnums=(1, 2))
def normal(key: Array, count: int, dtype: jnp.dtype) -> Array:
    """``count`` independent standard normal numbers."""
    if dtype != jnp.float32:
        return jax.random.normal(key, (count,), dtype)
    return normal_of(words(key, count))


@partial(jax.jit, static_argnums=3)
def distinct(key: Array, total: Array | int, count: Array | int, most: int) -> Array:
    """``count`` different numbers below ``total``, in ``most`` places of which those come first.

    Every set is equally likely, to within total / 2^32 (Floyd's algorithm: the i-th number is drawn
    from one more than before, and the newest one stands in for a number that was there already).
    """
    drawn = words(key, most)
    first = jnp.asarray(total - count, jnp.int32)

    def one(i: Array, chosen: Array) -> Array:
        newest = first + i
        number = (drawn[i] % (newest + 1).astype(jnp.uint32)).astype(jnp.int32)
        return chosen.at[i].set(jnp.where(jnp.any(chosen == number), newest, number))

    return lax.fori_loop(0, count, one, jnp.full(most, -1, jnp.int32))


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Both words of the cipher of a counter."""
    keys = (*key, key[0] ^ key[1] ^ jnp.uint32(0x1BD11BDA))
    a, b = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for turn in _TURNS[group % 2]:
            a = a + b
            b = ((b << turn) | (b >> (32 - turn))) ^ a
        a = a + keys[(group + 1) % 3]
        b = b + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return a, b


def normal_of(bits: Array) -> Array:
    """The normal whose sign is the lowest bit and whose tail is the other 31 of a word.

    Giles' single precision inverse error function (2010) at 1 - v, with w = -log(v (2 - v)) from
    the tail v itself: nothing is lost where 1 - v rounds to 1.
    """
    v = ((bits >> 1).astype(jnp.float32) + 0.5) * jnp.float32(2.0**-31)
    w = -jnp.log(v * (2 - v))
    small = _polynomial(w - 2.5, _CENTRE)
    large = _polynomial(jnp.sqrt(jnp.maximum(w, 5.0)) - 3, _TAIL)
    size = jnp.where(w < 5, small, large) * (1 - v) * jnp.float32(2**0.5)
    return jnp.where(bits & 1 == 1, -size, size)


_CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    total = jnp.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        total = total * x + jnp.float32(c)
    return total
