"""Gaussian noise that floating point arithmetic cannot betray, from the operating system's entropy.

Adding a float to a float leaves traces: which sums can come out depends on the value (Mironov,
2012). So the value goes to a grid first, and the noise is drawn as whole steps of that grid:

    step = sigma / 2^bits
    released = step * ( round(value / step) + floor(2^bits Z) + 1/2 ),    Z standard normal

For a whole number n, floor(n + 2^bits Z) = n + floor(2^bits Z): the release is the Gaussian
mechanism on whole numbers, rounded afterwards. Rounding is post-processing, so every accountant of
the Gaussian holds as it is. Rounding the value first moves two neighbours apart by at most
2 sqrt(d) steps more; ``bits`` makes that less than 2^-21 of the radius, and the noise is drawn
larger by the factor 1 + 2^-20, which pays for it. A sum of n contributions that was rounded by
floating point on its way is paid for in the same manner (``summed_slack``); a ``Split`` sum is
exact. The price that is charged does not change. Z comes from ``normals``.
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
_LARGEST: Final = 2.0**51  # whole numbers of steps that a float holds, and rounds rightly
_TINY: Final = 2.0**-100
_TOO_ROUGH: Final = 0.05  # of the noise

_wanted: ContextVar[Source | None] = ContextVar("exact_noise", default=None)


@contextmanager
def exact_noise(source: Source | None = "system") -> Iterator[None]:
    """Programs that are traced inside draw their noise here; no seed decides it then.

    "system" draws anew at every call; "secret" draws what follows from the key and a secret of this
    process, the same on every device of a simulation.
    """
    token = _wanted.set(source)
    try:
        yield
    finally:
        _wanted.reset(token)


def wants_exact_noise() -> bool:
    """Whether noise is to come from the operating system now."""
    return _wanted.get() is not None


def noised(
    key: Array, value: Tree | Split, level: Array | float, radius: Array | float, terms: int = 1
) -> Tree:
    """The value with Gaussian noise of ``level * radius`` on the grid; works inside a program.

    ``terms`` is how many bounded contributions were summed in floating point where one unit is.
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
    """How far rounding may move the sums of two neighbours apart, over the bound of each term.

    In any order, a computed sum is within n u of the sum of absolute values, u half an epsilon.
    """
    if terms <= 1:
        return 0.0
    slack = 2.02 * terms * (terms + 2) * float(jnp.finfo(dtype).eps) / 2
    if slack > _TOO_ROUGH:
        raise TacitError(
            f"a sum of {terms} contributions in {jnp.dtype(dtype).name} may be rounded by"
            f" {slack:.2g} of the bound, which noise would have to hide: set train.dtype ="
            " 'float64'."
        )
    return slack


def _from_host(key: Array, rows: Array, numbers: Array, slack: float) -> Array:
    """The noisy sum of the rows, drawn by the host."""
    dtype = rows.dtype
    shape = lax.bitcast_convert_type(rows[0], jnp.uint32).shape
    label = jax.random.key_data(key).astype(jnp.uint32).reshape(-1)
    host = partial(_on_host, _wanted.get() == "secret", slack)
    return lax.bitcast_convert_type(call_host(host, shape, label, rows, numbers), dtype)


def _on_host(
    from_secret: bool, slack: float, label: Any, rows: Any, numbers: Any
) -> NDArray[np.uint32]:
    """Bits of floats; leading axes are releases side by side, each with a label of its own."""
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
    """The sum of the rows, parts of one sum of bounded values, with noise ``level * radius``."""
    size = rows.shape[-1]
    if not _TINY < radius < 1 / _TINY:
        # A radius may come from elsewhere. At 0 nothing was let through; where floats end, bounds
        # end too, and nothing of the value is let through either.
        return np.zeros(size)
    bits = grid_bits(size, level)
    step = level * radius * (1 + slack) * 2.0**-bits
    # A number that is not finite cannot come from a bound; an error here would depend on the data.
    scaled = np.nan_to_num(rows.astype(np.float64).reshape(-1, size) / step, nan=0.0)
    whole = np.rint(np.clip(scaled, -_LARGEST, _LARGEST)).astype(np.int64).sum(axis=0)
    noisy = whole + rounded_normals(size, bits, words)
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
