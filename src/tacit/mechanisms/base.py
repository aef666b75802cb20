"""What a mechanism is: it noises a bounded value, and names the event that this costs."""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable

from jax import Array

from tacit.accounting.events import DpEvent, SamplingScheme, Shape
from tacit.accounting.guarantee import Relation
from tacit.tree import Tree


@runtime_checkable
class Mechanism(Protocol):
    """Noise and its price, both read from the same fields."""

    def noised(self, key: Array, value: Tree, radius: Array | float, round_: Array | int) -> Tree:
        """The sum of contributions bounded by ``radius``, with this round's noise."""
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
        """What ``count`` releases in one round cost."""
        ...

    def vector(self, released: Tree) -> Tree:
        """The unbiased estimate of the value inside what was released."""
        ...

    def sq_norm(self, released: Tree, radius: Array | float, round_: Array | int) -> Array:
        """An estimate of the squared norm of the value, from what was released."""
        ...

    def scaled(self, factor: float) -> Self:
        """The same mechanism with ``factor`` times the noise."""
        ...
