"""Gaussian noise from the operating system's entropy, safe against floating-point attacks.

With naive floating-point noise, the set of possible sums depends on the value and can reveal it
(Mironov, 2012). So the value is first rounded to a grid, and the noise is a whole number of grid
steps:

    step = sigma / 2^bits
    released = step * ( round(value / step) + floor(2^bits Z) + 1/2 ),    Z standard normal

For an integer n, floor(n + 2^bits Z) = n + floor(2^bits Z): the release is the Gaussian mechanism
on integers, rounded afterwards. Rounding is post-processing, so the accounting of the Gaussian
mechanism applies unchanged. Rounding the value first increases the distance of two neighbours by at
most 2 sqrt(d) steps. ``bits`` makes this less than 2^-21 of the radius, and the noise is larger by
a factor of 1 + 2^-20 to compensate. The rounding error of a floating-point sum of n contributions
is compensated in the same way (``summed_slack``); a ``Split`` sum is exact. The charge does not
change. Z comes from ``normals``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.exact_sums import Split
from tacit.mechanisms.host_calls import call_host
from tacit.mechanisms.normals import Words, os_words, rounded_normals, secret_words
from tacit.tree import Tree

Source = Literal["system", "secret"]

SLACK: Final = 2.0**-20
_LEAST_BITS, _MOST_BITS = 20, 50
_LARGEST: Final = 2.0**51  # up to this number of steps a float is exact and rounds correctly
_TINY: Final = 2.0**-100
_TOO_ROUGH: Final = 0.05  # of the noise

_wanted: ContextVar[Source | None] = ContextVar("exact_noise", default=None)


@contextmanager
def exact_noise(source: Source | None = "system") -> Iterator[None]:
    """Programs traced in this context draw their noise with this module, not from a seed.

    "system" draws new random bits at every call. "secret" derives them from the key and a secret of
    this process, so every device of a simulation draws the same noise.
    """
    token = _wanted.set(source)
    try:
        yield
    finally:
        _wanted.reset(token)


def wants_exact_noise() -> bool:
    """Whether noise must now come from the operating system."""
    return _wanted.get() is not None


def noised(
    key: Array, value: Tree | Split, level: Array | float, radius: Array | float, terms: int = 1
) -> Tree:
    """The value with Gaussian noise ``level * radius`` on the grid; usable in a compiled program.

    ``terms`` is the number of bounded contributions that were summed in floating point.
    """
    parts = (value.high, value.low) if isinstance(value, Split) else (value,)
    leaves, structure = jax.tree.flatten(parts[0])
    dtype = jnp.result_type(*leaves)
    rows = jnp.stack(
        [jnp.concatenate([jnp.ravel(v).astype(dtype) for v in jax.tree.leaves(p)]) for p in parts]
    )
    slack = SLACK + summed_slack(terms, dtype)
    numbers = jnp.stack([jnp.asarray(level, dtype), jnp.asarray(radius, dtype)])
    drawn = _from_host(key, rows, numbers, slack)
    pieces = jnp.split(drawn, np.cumsum([leaf.size for leaf in leaves])[:-1])
    pairs = zip(leaves, pieces, strict=True)
    return jax.tree.unflatten(structure, [n.reshape(v.shape).astype(v.dtype) for v, n in pairs])


def summed_slack(terms: int, dtype: Any) -> float:
    """How much rounding may add to the distance of two neighbouring sums, divided by the bound.

    In any order, the error of a sum is at most n u times the sum of absolute values, where u is
    half the machine epsilon.
    """
    if terms <= 1:
        return 0.0
    slack = 2.02 * terms * (terms + 2) * float(jnp.finfo(dtype).eps) / 2
    if slack > _TOO_ROUGH:
        raise TacitError(
            f"the rounding error of a sum of {terms} contributions in {jnp.dtype(dtype).name} may"
            f" be {slack:.2g} times the bound, too much for the noise to hide: set train.dtype ="
            " 'float64'."
        )
    return slack


def _from_host(key: Array, rows: Array, numbers: Array, slack: float) -> Array:
    """The noisy sum of the rows, computed on the host."""
    dtype = rows.dtype
    shape = lax.bitcast_convert_type(rows[0], jnp.uint32).shape
    label = jax.random.key_data(key).astype(jnp.uint32).reshape(-1)
    host = partial(_on_host, _wanted.get() == "secret", slack)
    return lax.bitcast_convert_type(call_host(host, shape, label, rows, numbers), dtype)


def _on_host(
    from_secret: bool, slack: float, label: Any, rows: Any, numbers: Any
) -> NDArray[np.uint32]:
    """The result as the bits of floats; leading axes are separate releases with own labels."""
    shape = label.shape[:-1]
    drawn = np.empty((*shape, rows.shape[-1]), rows.dtype)
    for place in np.ndindex(*shape):
        level, radius = (float(number) for number in numbers[place])
        words = secret_words(label[place].tobytes()) if from_secret else os_words
        drawn[place] = released(rows[place], level, radius, words, slack)
    bits: NDArray[np.uint32] = drawn.view(np.uint32)
    width = drawn.dtype.itemsize // 4
    return bits if width == 1 else bits.reshape(*drawn.shape, width)


def released(
    rows: NDArray[Any],
    level: float,
    radius: float,
    words: Words | None = None,
    slack: float = SLACK,
) -> NDArray[np.float64]:
    """The sum of the rows (parts of one sum of bounded values) with noise ``level * radius``."""
    size = rows.shape[-1]
    if not _TINY < radius < 1 / _TINY:
        # The radius may come from another party. At radius 0 the bounded value is zero. Near the
        # largest floats a bound is not reliable, so the value is replaced by zero too.
        return np.zeros(size)
    bits = grid_bits(size, level)
    step = level * radius * (1 + slack) * 2.0**-bits
    # A bounded value is always finite. Raising an error here would depend on the data.
    scaled = np.nan_to_num(rows.astype(np.float64).reshape(-1, size) / step, nan=0.0)
    whole = np.rint(np.clip(scaled, -_LARGEST, _LARGEST)).astype(np.int64).sum(axis=0)
    noisy = whole + rounded_normals(size, bits, words)
    placed: NDArray[np.float64] = (noisy.astype(np.float64) + 0.5) * step
    return placed


def grid_bits(count: int, level: float) -> int:
    """The grid resolution: sigma is 2^bits steps, and sqrt(d) + 1 steps are 2^-22 of the radius.

    This uses half of the allowed slack; the rest is for a release of a value with its norm.
    """
    if not 0 < level < math.inf:
        raise TacitError(f"the noise is {level}; it must be positive.")
    needed = 22 + math.ceil(math.log2(level * (math.sqrt(count) + 1)))
    if needed > _MOST_BITS:
        raise TacitError(
            f"{count} numbers with noise {level:g} times their bound need a grid finer than"
            f" 2^-{_MOST_BITS}: release fewer numbers, or use less noise."
        )
    return max(needed, _LEAST_BITS)
