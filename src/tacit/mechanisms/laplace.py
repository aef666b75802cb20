"""Laplace noise for scalars, in units of the bound's radius: pure differential privacy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import Array

from tacit import tree
from tacit.accounting.events import DpEvent, SamplingScheme, Shape, laplace_event
from tacit.accounting.guarantee import Relation
from tacit.errors import TacitError
from tacit.mechanisms.gaussian import Levels, add_noise, check_levels, level_at, scaled_levels
from tacit.tree import Tree


@dataclass(frozen=True)
class Laplace:
    """Laplace noise of scale ``noise * radius`` on a single number.

    The bounds of Tacit limit Euclidean norms, and only for a single number is that the L1 norm
    which Laplace noise needs; anything longer is refused.
    """

    noise: Levels

    def __post_init__(self) -> None:
        check_levels(self.noise, "a Laplace mechanism")

    def noised(self, key: Array, value: Tree, radius: Array | float, round_: Array | int) -> Tree:
        """The number with Laplace noise."""
        if tree.size(value) != 1:
            raise TacitError(
                f"Laplace noise is offered for one number, not for {tree.size(value)}: use the"
                " Gaussian mechanism for vectors."
            )
        return add_noise(jax.random.laplace, self.noise, key, value, radius, round_)

    def event(
        self,
        round_: int,
        *,
        relation: Relation,
        shape: Shape,
        sampling: SamplingScheme,
        count: int,
    ) -> DpEvent:
        """Laplace events of this round's noise over the sensitivity."""
        return laplace_event(
            radius=1.0,
            noise=level_at(self.noise, round_),
            relation=relation,
            sampling=sampling,
            count=count,
            shape=shape,
        )

    def vector(self, released: Tree) -> Tree:
        """The released number is the estimate."""
        return released

    def sq_norm(self, released: Tree, radius: Array | float, round_: Array | int) -> Array:
        """The square of the number, less the noise's variance 2 b^2."""
        noise = self.noise
        level = jnp.asarray(noise)[round_] if isinstance(noise, tuple) else noise
        return tree.squared_norm(released) - 2 * (level * radius) ** 2

    def scaled(self, factor: float) -> Laplace:
        """``factor`` times the noise in every round."""
        return replace(self, noise=scaled_levels(self.noise, factor))
