"""Single records' gradients as a length and a direction each, bounded by construction.

A record's contribution is its length times its unit gradient. The unit gradient is put together
from vectors of norm 1 (what a layer read, its slopes, how the norm is shared among the layers), so
no model, however extreme, makes a contribution longer than its length: nowhere is a norm, whose
square may have left the range of floats, divided out of a gradient that was formed elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from tacit.tasks.base import ByRecord, Params

_EXACT = lax.Precision.HIGHEST  # some devices round what they multiply to a few bits


class Units(NamedTuple):
    """Vectors divided by their norms, and the norms; 0 and infinity for one that is not finite."""

    vectors: Params
    norms: Array


def units(vectors: Params, axis: int = 0) -> Units:
    """Each record's vector, over all leaves, divided by its norm; ``axis`` is that of the records.

    A vector of zeros stays 0, and its norm is 0.
    """
    leaves = jax.tree.leaves(vectors)
    dtype = jnp.result_type(*leaves)
    tiny, most = jnp.finfo(dtype).tiny, jnp.finfo(dtype).max
    tops = [jnp.max(jnp.abs(v), axis=_but(axis, v), initial=0.0) for v in leaves]
    largest = tops[0] if len(tops) == 1 else jnp.max(jnp.stack(tops), axis=0)
    # In this range the reciprocals of norms are normal floats. XLA divides by multiplying with
    # them, and flushes smaller ones to 0. NaN is outside.
    inside = (largest >= tiny) & (largest <= most * 2.0**-27)
    scale = 1 / jnp.where(inside, largest, 1)
    scaled = jax.tree.map(lambda v: v * _spread(scale, axis, v), vectors)
    squares = [jnp.sum(jnp.square(v), axis=_but(axis, v)) for v in jax.tree.leaves(scaled)]
    square = sum(squares, start=jnp.zeros((), dtype))
    sound = inside & (square > 0.5) & (square < jnp.inf)
    relative = _root(jnp.where(sound, square, 1), sum(v.size // v.shape[axis] for v in leaves))
    shrink = jnp.where(sound, 1 / relative, 0)
    return Units(
        jax.tree.map(
            lambda v: jnp.where(_spread(sound, axis, v), v * _spread(shrink, axis, v), 0), scaled
        ),
        jnp.where(sound, largest * relative, jnp.where(largest < tiny, 0, jnp.inf)),
    )


def units_beside_one(rows: Array, axis: int) -> tuple[Units, Array]:
    """The units of vectors with a 1 beside each, and what becomes of the 1.

    Beside it nothing is too small to be squared; what is too large counts as not finite.
    """
    square = jnp.sum(jnp.square(rows), axis=1 - axis)
    sound = square < jnp.inf
    norms = _root(1 + jnp.where(sound, square, 0), 1 + rows.shape[1 - axis])
    shrink = 1 / norms
    divided = rows * jnp.expand_dims(shrink, 1 - axis)
    return (
        Units(
            jnp.where(jnp.expand_dims(sound, 1 - axis), divided, 0),
            jnp.where(sound, norms, jnp.inf),
        ),
        jnp.where(sound, shrink, 0),
    )


def outer(read: Array, slopes: Array, *, bias: bool = True, axis: int = 0) -> ByRecord:
    """Gradients ``read x slopes`` of weights (inputs, outputs), and ``slopes`` of a bias.

    ``axis`` is that of the records in both, which are settled, or data. The norm of a product is
    the product of norms, so nothing of the size of the layer is formed for any record.
    """
    right = units(slopes, axis)
    left, one = units_beside_one(read, axis) if bias else (units(read, axis), None)
    norms = left.norms * right.norms  # NaN for 0 times infinity
    sound = (norms > 0) & (norms < jnp.inf)

    def combined(lengths: Array) -> Params:
        scaled = right.vectors * jnp.expand_dims(jnp.where(sound, lengths, 0), 1 - axis)
        weights = jnp.tensordot(left.vectors, scaled, axes=(axis, axis), precision=_EXACT)
        if one is None:
            return {"w": weights}
        return {"w": weights, "b": jnp.sum(scaled * jnp.expand_dims(one, 1 - axis), axis=axis)}

    return ByRecord(jnp.where(sound | (norms == 0), norms, jnp.inf), combined)


def formed(gradients: Params) -> ByRecord:
    """Gradients that are given as they are, settled, records first."""
    each = units(gradients)

    def combined(lengths: Array) -> Params:
        return jax.tree.map(
            lambda v: jnp.tensordot(lengths, v, axes=1, precision=_EXACT), each.vectors
        )

    return ByRecord(each.norms, combined)


def together(parts: Mapping[str, ByRecord]) -> ByRecord:
    """Gradients of several layers: their norms form a vector, and a layer's length is its share."""
    shares = units(jnp.stack([part.norms for part in parts.values()], axis=1))

    def combined(lengths: Array) -> Params:
        own = shares.vectors * lengths[:, None]
        return {name: part.combined(own[:, i]) for i, (name, part) in enumerate(parts.items())}

    return ByRecord(shares.norms, combined)


def settled(values: Params) -> Params:
    """The values, computed once: what is measured must be what is summed.

    XLA computes cheap values anew where they are used, each time as it suits, with ``x * y + z`` in
    one rounding or in two; where they cancel, that is all they are. Its own barrier is gone before
    that happens. What leaves a loop is in memory: here one of at most one turn, that changes
    nothing but the name of what is not a number, and that only the run can know.
    """
    some = sum((jnp.sum(jnp.ravel(v)[:1]) for v in jax.tree.leaves(values)), start=jnp.zeros(()))

    def turn(carry: tuple[Array, Params]) -> tuple[Array, Params]:
        more, held = carry
        return ~more, jax.tree.map(lambda v: jnp.where(jnp.isnan(v), jnp.inf, v), held)

    return lax.while_loop(lambda carry: carry[0], turn, (some == some, values))[1]


def _root(square: Array, entries: int) -> Array:
    """The root of a sum of squares, not below the true one.

    A sum of n squares may be short by n roundings, whatever its order, and its root by half.
    """
    return jnp.sqrt(square) * (1 + (entries + 8) * float(jnp.finfo(square.dtype).eps) / 4)


def _but(axis: int, values: Array) -> tuple[int, ...]:
    return tuple(i for i in range(values.ndim) if i != axis)


def _spread(each: Array, axis: int, like: Array) -> Array:
    return each.reshape([-1 if i == axis else 1 for i in range(like.ndim)])
