"""Bounds: the largest contribution of one unit.

A bound maps every value to one whose norm is at most its radius. Zero stays zero, and a value with
NaN or infinity is replaced by zero. ``shape`` tells the accounting where contributions lie: in a
ball, or (for a scalar) in the interval [0, radius].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tacit import tree
from tacit.accounting.events import Shape
from tacit.errors import TacitError
from tacit.tree import Tree


@runtime_checkable
class Bound(Protocol):
    """Limits the contribution of one unit to a norm of at most ``radius``."""

    @property
    def radius(self) -> float:
        """The largest norm of a contribution."""
        ...

    shape: ClassVar[Shape]

    def __call__(self, value: Tree, radius: Array | float | None = None) -> Tree:
        """The bounded value; a public ``radius`` may replace the bound's own one."""
        ...


@dataclass(frozen=True)
class Clip:
    """v * min(1, C / |v|)."""

    radius: float
    shape: ClassVar[Shape] = "ball"

    def __post_init__(self) -> None:
        _check_radius(self.radius)

    def __call__(self, value: Tree, radius: Array | float | None = None) -> Tree:
        """Scale the value down to the radius if its norm is larger."""
        return _shortened(value, self.radius if radius is None else radius, lengthen=False)


@dataclass(frozen=True)
class Normalize:
    """C * v / |v|, and 0 for 0."""

    radius: float
    shape: ClassVar[Shape] = "ball"

    def __post_init__(self) -> None:
        _check_radius(self.radius)

    def __call__(self, value: Tree, radius: Array | float | None = None) -> Tree:
        """Scale every nonzero value to norm ``radius``."""
        return _shortened(value, self.radius if radius is None else radius, lengthen=True)


@dataclass(frozen=True)
class ClipScalar:
    """A scalar clipped to [0, C]; replacing one unit changes a sum by at most C."""

    radius: float
    shape: ClassVar[Shape] = "interval"

    def __post_init__(self) -> None:
        _check_radius(self.radius)

    def __call__(self, value: Tree, radius: Array | float | None = None) -> Tree:
        """The scalar, clipped to [0, radius]."""
        limit = self.radius if radius is None else radius
        leaves, structure = jax.tree.flatten(value)
        if len(leaves) != 1:
            raise TacitError(f"a scalar bound needs a single number, not {len(leaves)}.")
        v = jnp.asarray(leaves[0])
        if v.ndim:
            raise TacitError(f"a scalar bound needs a single number, not the shape {v.shape}.")
        put = jnp.clip(jnp.where(jnp.isnan(v), 0.0, v), 0.0, _not_above(limit, v.dtype))
        return jax.tree.unflatten(structure, [put])


@dataclass(frozen=True)
class Unbounded:
    """No bound, for training without privacy only; its epsilon is infinite."""

    radius: float = float("inf")
    shape: ClassVar[Shape] = "ball"

    def __call__(self, value: Tree, radius: Array | float | None = None) -> Tree:
        """The value unchanged, or zero if it is not finite."""
        del radius
        sound = jnp.all(jnp.stack([jnp.isfinite(v).all() for v in jax.tree.leaves(value)]))
        return tree.select(sound, value, tree.zeros_like(value))


def _shortened(value: Tree, radius: Array | float, *, lengthen: bool) -> Tree:
    leaves = [jnp.asarray(v) for v in jax.tree.leaves(value)]
    if any(not jnp.issubdtype(v.dtype, jnp.floating) for v in leaves):
        raise TacitError("only floating point values can be bounded: convert integers first.")
    # Squares of very large or small entries overflow or underflow, so the norm is computed from
    # the value divided by its largest entry.
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(v), initial=0.0) for v in leaves]))
    dtype = largest.dtype
    tiny = jnp.finfo(dtype).tiny
    sound = jnp.isfinite(largest) & (largest >= tiny)
    safe = jnp.where(sound, largest, jnp.ones((), dtype))
    # A compiled division multiplies by the reciprocal, which is 0 for the largest floats: divide
    # by a power of two first.
    down = jnp.where(safe > 1, 2.0**-64, 1.0).astype(dtype)
    scaled = jax.tree.map(
        lambda v: jnp.where(sound, v * down.astype(v.dtype) / (safe * down).astype(v.dtype), 0),
        value,
    )
    square = tree.squared_norm(scaled).astype(dtype)  # from 1 to d, or 0
    # A compiled maximum of many numbers passes over NaN, a sum does not.
    sound &= square < jnp.inf
    relative = jnp.sqrt(jnp.where(sound, square, 1))
    eps = max(float(jnp.finfo(v.dtype).eps) for v in leaves)
    target = within(jnp.asarray(radius, dtype), tree.size(value), eps)
    ratio = target / relative
    if not lengthen:
        ratio = jnp.minimum(ratio, safe)
    return jax.tree.map(lambda v: jnp.where(sound, ratio.astype(v.dtype) * v, 0), scaled)


def within(radius: Array, size: int, eps: float) -> Array:
    """Slightly less than the radius, so that rounding cannot push a bounded value above it.

    The relative error of a sum of n squares is at most n eps / 2 in any order, and half of that for
    its square root. A few more roundings follow, in the lowest precision used.
    """
    summed = min(eps, float(jnp.finfo(jnp.float32).eps))  # 16-bit floats are summed in float32
    return radius / (1 + 16 * eps + size * summed / 4)


def _not_above(limit: Array | float, dtype: jnp.dtype) -> Array:
    """The limit in this precision, rounded down."""
    near = jnp.asarray(limit, dtype)
    if isinstance(limit, (int, float)) and float(np.asarray(limit, dtype)) > limit:
        return jnp.nextafter(near, jnp.zeros((), dtype))
    return near


def _check_radius(radius: float) -> None:
    if not 0 < radius < float("inf"):
        raise TacitError(f"the radius of a bound is {radius}; give a positive, finite number.")
