"""The interface of a mechanism: it adds noise to a bounded value and gives the privacy event."""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable

from jax import Array

from tacit.accounting.events import DpEvent, SamplingScheme, Shape
from tacit.accounting.guarantee import Relation
from tacit.tree import Tree


@runtime_checkable
class Mechanism(Protocol):
    """Noise and its privacy event, both from the same fields."""

    def noised(self, key: Array, value: Tree, radius: Array | float, round_: Array | int) -> Tree:
        """Add this round's noise to a sum of contributions bounded by ``radius``."""
        ...

    def event(
        self,
        round_: int,
        *,
        relation: Relation,
        shape: Shape,
        sampling: SamplingScheme,
        count: int,
    ) -> DpEvent:
        """The privacy event of ``count`` releases in one round."""
        ...

    def vector(self, released: Tree) -> Tree:
        """The unbiased estimate of the value in a release."""
        ...

    def sq_norm(self, released: Tree, radius: Array | float, round_: Array | int) -> Array:
        """An estimate of the squared norm of the value, from a release."""
        ...

    def scaled(self, factor: float) -> Self:
        """The same mechanism with ``factor`` times the noise."""
        ...
