"""Laplace noise for a single number, in units of the bound's radius: pure differential privacy."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from tacit.accounting.events import DpEvent, SamplingScheme, Shape, laplace_event
from tacit.accounting.guarantee import Relation
from tacit.errors import TacitError
from tacit.mechanisms.additive import Additive
from tacit.tree import Tree


@dataclass(frozen=True)
class Laplace(Additive):
    """Laplace noise of scale ``noise * radius`` on a single number.

    Tacit's bounds limit the Euclidean norm, but Laplace noise needs a bound on the L1 norm. The two
    are equal only for a single number; vectors are refused.
    """

    def draw(self, key: Array, count: int, dtype: jnp.dtype) -> Array:
        """One standard Laplace draw."""
        if count != 1:
            raise TacitError(
                f"Laplace noise supports a single number, not {count}: use the Gaussian mechanism"
                " for vectors."
            )
        return jax.random.laplace(key, (count,), dtype)

    def exactly(
        self, key: Array, value: Tree, level: Array | float, radius: Array | float, terms: int
    ) -> Tree:
        """Not supported: Laplace noise has no exact sampler."""
        del key, value, level, radius, terms
        raise TacitError("Laplace noise has no exact sampler: use Gaussian noise to deploy.")

    @property
    def variance(self) -> float:
        """Two."""
        return 2.0

    def price(
        self,
        level: float,
        *,
        relation: Relation,
        shape: Shape,
        sampling: SamplingScheme,
        count: int,
    ) -> DpEvent:
        """Laplace events with multiplier noise / sensitivity."""
        return laplace_event(
            radius=1.0, noise=level, relation=relation, sampling=sampling, count=count, shape=shape
        )
