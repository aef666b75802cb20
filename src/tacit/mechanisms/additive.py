"""Additive noise on a sum, in units of the bound's radius; constant, or one level per round.

The noise that is drawn and the noise that is charged come from the same field.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tacit import tree
from tacit.accounting.events import DpEvent, SamplingScheme, Shape
from tacit.accounting.guarantee import Relation
from tacit.errors import TacitError
from tacit.mechanisms.rounded import wants_exact_noise
from tacit.tree import Tree

Levels = float | tuple[float, ...]


@dataclass(frozen=True)
class Additive(ABC):
    """value + noise * radius * (a standard random number for every coordinate)."""

    noise: Levels

    def __post_init__(self) -> None:
        levels = self.noise if isinstance(self.noise, tuple) else (self.noise,)
        if not levels or any(not 0 <= level < math.inf for level in levels):
            raise TacitError(f"the noise is {self.noise}; give finite numbers, 0 or more.")

    @abstractmethod
    def draw(self, key: Array, count: int, dtype: jnp.dtype) -> Array:
        """``count`` independent draws from the standard distribution."""

    @abstractmethod
    def exactly(
        self, key: Array, value: Tree, level: Array | float, radius: Array | float, terms: int
    ) -> Tree:
        """The sum with noise that is safe against floating-point attacks, for real clients."""

    @abstractmethod
    def price(
        self,
        level: float,
        *,
        relation: Relation,
        shape: Shape,
        sampling: SamplingScheme,
        count: int,
    ) -> DpEvent:
        """The privacy event of ``count`` releases with this noise level."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of one standard draw."""

    def level(self, round_: int) -> float:
        """The noise of a round divided by the radius; rounds after a schedule's end are errors."""
        if not isinstance(self.noise, tuple):
            return self.noise
        if not 0 <= round_ < len(self.noise):
            raise TacitError(
                f"the noise is planned for {len(self.noise)} rounds; there is none for round"
                f" {round_} (counted from 0)."
            )
        return self.noise[round_]

    def noised(
        self,
        key: Array,
        value: Tree,
        radius: Array | float,
        round_: Array | int,
        terms: int = 1,
    ) -> Tree:
        """The sum with this round's noise; one draw for all leaves compiles fastest."""
        if wants_exact_noise():
            return self.exactly(key, value, self._traced_level(round_), radius, terms)
        leaves, structure = jax.tree.flatten(value)
        dtype = jnp.result_type(*leaves)
        drawn = self.draw(key, tree.size(value), dtype)
        noise = jnp.asarray(self._traced_level(round_) * radius, dtype) * drawn
        parts = jnp.split(noise, np.cumsum([leaf.size for leaf in leaves])[:-1])
        pairs = zip(leaves, parts, strict=True)
        noisy = [v + n.reshape(v.shape).astype(v.dtype) for v, n in pairs]
        return jax.tree.unflatten(structure, noisy)

    def event(
        self,
        round_: int,
        *,
        relation: Relation,
        shape: Shape,
        sampling: SamplingScheme,
        count: int,
    ) -> DpEvent:
        """The privacy event of this round's noise level."""
        return self.price(
            self.level(round_), relation=relation, shape=shape, sampling=sampling, count=count
        )

    def vector(self, released: Tree) -> Tree:
        """The released value is the estimate."""
        return released

    def sq_norm(self, released: Tree, radius: Array | float, round_: Array | int) -> Array:
        """An unbiased estimate of the squared norm; the noise's expected part is subtracted."""
        own = self.variance * (self._traced_level(round_) * radius) ** 2
        return tree.squared_norm(released) - tree.size(released) * own

    def scaled(self, factor: float) -> Self:
        """``factor`` times the noise in every round."""
        levels = self.noise
        if isinstance(levels, tuple):
            return replace(self, noise=tuple(factor * level for level in levels))
        return replace(self, noise=factor * levels)

    def _traced_level(self, round_: Array | int) -> Array | float:
        return jnp.asarray(self.noise)[round_] if isinstance(self.noise, tuple) else self.noise
