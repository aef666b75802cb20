"""Gaussian noise, in units of the bound's radius, constant or one level a round."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from tacit.accounting.events import DpEvent, SamplingScheme, Shape, gaussian_event
from tacit.accounting.guarantee import Relation
from tacit.mechanisms.additive import Additive


@dataclass(frozen=True)
class Gaussian(Additive):
    """N(0, (noise * radius)^2) on every coordinate of the sum."""

    def draw(self, key: Array, count: int, dtype: jnp.dtype) -> Array:
        """Standard normals."""
        return jax.random.normal(key, (count,), dtype)

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
        """Gaussian events of the level over the sensitivity."""
        return gaussian_event(
            radius=1.0, noise=level, relation=relation, sampling=sampling, count=count, shape=shape
        )
