"""Proximal steps: ``prox(z) = argmin_x g(x) + ||x - z||^2 / (2 step)`` for public ``g``.

Each is a frozen dataclass: call it with parameters (an array or any pytree, taken as one long
vector) and a step, ask ``value`` for ``g``. For the indicator of a set the step has no effect and
``value`` is 0 inside (up to rounding) and infinite outside.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from tacit.errors import ConfigError
from tacit.tasks.base import Params

_ROUNDING = 1e-5  # a projection leaves its set by no more than this, relative, in float32


class Prox(ABC):
    """A convex ``g`` with a closed proximal step."""

    def __call__(self, params: Params, step: float | Array = 1.0) -> Params:
        """The proximal step of size ``step`` at ``params``."""
        vector, restore = ravel_pytree(params)
        return restore(self.vector(vector, step))

    def value(self, params: Params) -> Array:
        """``g`` at ``params``."""
        return self.vector_value(ravel_pytree(params)[0])

    @abstractmethod
    def vector(self, z: Array, step: float | Array) -> Array:
        """The proximal step of one vector."""

    @abstractmethod
    def vector_value(self, x: Array) -> Array:
        """``g`` of one vector."""


@dataclass(frozen=True, kw_only=True)
class NoProx(Prox):
    """``g = 0``: the identity."""

    def vector(self, z: Array, step: float | Array) -> Array:
        """The vector itself."""
        del step
        return z

    def vector_value(self, x: Array) -> Array:
        """0."""
        return jnp.zeros((), x.dtype)


@dataclass(frozen=True, kw_only=True)
class WeightedL1Box(Prox):
    """``sum_j w_j |x_j|`` on the box ``|x_j| <= box``; one weight, or one for each coordinate."""

    weight: float | tuple[float, ...]
    box: float = math.inf

    def __post_init__(self) -> None:
        weights = self.weight if isinstance(self.weight, tuple) else (self.weight,)
        if not all(math.isfinite(w) and w >= 0 for w in weights):
            raise ConfigError(f"the l1 weight is {self.weight}: give numbers of at least 0.")
        _require_above_zero(box=self.box)

    def vector(self, z: Array, step: float | Array) -> Array:
        """Shrink towards 0 by ``step w_j``, then cut at the box."""
        shrunk = jnp.maximum(jnp.abs(z) - step * self._weights(z), 0)
        return jnp.sign(z) * jnp.minimum(shrunk, self.box)

    def vector_value(self, x: Array) -> Array:
        """The weighted norm, infinite outside the box."""
        size = jnp.abs(x)
        return jnp.sum(self._weights(x) * size) + _outside(
            jnp.max(size) > self.box * (1 + _ROUNDING), x
        )

    def _weights(self, like: Array) -> Array:
        weights = jnp.asarray(self.weight, like.dtype)
        if weights.ndim and weights.shape != like.shape:
            raise ConfigError(
                f"there are {weights.size} l1 weights for {like.size} parameters: "
                "give one weight for all, or one for each."
            )
        return weights


@dataclass(frozen=True, kw_only=True)
class Box(Prox):
    """The indicator of ``low <= x_j <= high``."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ConfigError(f"the box from {self.low} to {self.high} is empty: let low <= high.")

    def vector(self, z: Array, step: float | Array) -> Array:
        """Cut each coordinate."""
        del step
        return jnp.clip(z, self.low, self.high)

    def vector_value(self, x: Array) -> Array:
        """0 inside, infinite outside."""
        finite = [abs(side) for side in (self.low, self.high) if math.isfinite(side)]
        slack = _ROUNDING * max(finite, default=0.0)
        return _outside(jnp.any((x < self.low - slack) | (x > self.high + slack)), x)


@dataclass(frozen=True, kw_only=True)
class Ball(Prox):
    """The indicator of ``||x|| <= radius`` over all parameters together."""

    radius: float

    def __post_init__(self) -> None:
        _require_above_zero(radius=self.radius)

    def vector(self, z: Array, step: float | Array) -> Array:
        """Scale down to the radius; the largest entry is divided out, so no square overflows."""
        del step
        # Division by more than 2^126 is a flush to zero in float32, so huge vectors shrink first.
        shrunk = jnp.where(jnp.max(jnp.abs(z)) > 1, z * 2.0**-64, z)
        top = jnp.max(jnp.abs(shrunk))
        unit = shrunk / jnp.where(top > 0, top, 1)
        length = jnp.linalg.norm(unit)
        inside = length * jnp.max(jnp.abs(z)) <= self.radius
        return jnp.where(inside, z, unit * (self.radius / length))

    def vector_value(self, x: Array) -> Array:
        """0 inside, infinite outside."""
        return _outside(jnp.linalg.norm(x / self.radius) > 1 + _ROUNDING, x)


@dataclass(frozen=True, kw_only=True)
class Simplex(Prox):
    """The indicator of ``x >= 0, sum(x) = total`` over all parameters together."""

    total: float = 1.0

    def __post_init__(self) -> None:
        _require_above_zero(total=self.total)
        if math.isinf(self.total):
            raise ConfigError("the simplex needs a finite total.")

    def vector(self, z: Array, step: float | Array) -> Array:
        """Shift all coordinates by one threshold and cut at 0 (Held, Wolfe and Crowder 1974)."""
        del step
        ordered = jnp.sort(z)[::-1]
        excess = (jnp.cumsum(ordered) - self.total) / jnp.arange(1, z.size + 1, dtype=z.dtype)
        last = jnp.maximum(jnp.sum(ordered > excess) - 1, 0)
        return jnp.maximum(z - excess[last], 0)

    def vector_value(self, x: Array) -> Array:
        """0 inside, infinite outside."""
        slack = _ROUNDING * self.total
        return _outside((jnp.min(x) < -slack) | (jnp.abs(jnp.sum(x) - self.total) > slack), x)


def _outside(is_outside: Array, like: Array) -> Array:
    return jnp.where(is_outside, jnp.inf, 0.0).astype(like.dtype)


def _require_above_zero(**numbers: float) -> None:
    for name, number in numbers.items():
        if not number > 0:
            raise ConfigError(f"{name} is {number}: give a number above 0.")
