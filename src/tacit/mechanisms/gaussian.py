"""Gaussian noise, in units of the bound's radius; constant, or one level per round."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from tacit import random_numbers
from tacit.accounting.events import DpEvent, SamplingScheme, Shape, gaussian_event
from tacit.accounting.guarantee import Relation
from tacit.mechanisms import rounded
from tacit.mechanisms.additive import Additive
from tacit.tree import Tree


@dataclass(frozen=True)
class Gaussian(Additive):
    """N(0, (noise * radius)^2) on every coordinate of the sum."""

    def draw(self, key: Array, count: int, dtype: jnp.dtype) -> Array:
        """Standard normal numbers."""
        return random_numbers.normal(key, count, dtype)

    def exactly(
        self, key: Array, value: Tree, level: Array | float, radius: Array | float, terms: int
    ) -> Tree:
        """Normal noise on a grid, from the operating system's random numbers."""
        return rounded.noised(key, value, level, radius, terms)

    @property
    def variance(self) -> float:
        """One."""
        return 1.0

    def price(
        self,
        level: float,
        *,
        relation: Relation,
        shape: Shape,
        sampling: SamplingScheme,
        count: int,
    ) -> DpEvent:
        """Gaussian events with multiplier noise / sensitivity."""
        return gaussian_event(
            radius=1.0, noise=level, relation=relation, sampling=sampling, count=count, shape=shape
        )
