"""No noise, for training without privacy; it is charged as a non-private release."""

from __future__ import annotations

from dataclasses import dataclass

from jax import Array

from tacit import tree
from tacit.accounting.dp_events import dp_event
from tacit.accounting.events import DpEvent, SamplingScheme, Shape, repeated
from tacit.accounting.guarantee import Relation
from tacit.tree import Tree


@dataclass(frozen=True)
class NoNoise:
    """Releases the value without noise."""

    def noised(self, key: Array, value: Tree, radius: Array | float, round_: Array | int) -> Tree:
        """The value, unchanged."""
        del key, radius, round_
        return value

    def event(
        self,
        round_: int,
        *,
        relation: Relation,
        shape: Shape,
        sampling: SamplingScheme,
        count: int,
    ) -> DpEvent:
        """A release without privacy."""
        del round_, relation, shape, sampling
        return repeated(dp_event.NonPrivateDpEvent(), count)

    def vector(self, released: Tree) -> Tree:
        """The value itself."""
        return released

    def sq_norm(self, released: Tree, radius: Array | float, round_: Array | int) -> Array:
        """The squared norm itself."""
        del radius, round_
        return tree.squared_norm(released)

    def scaled(self, factor: float) -> NoNoise:
        """Still no noise."""
        del factor
        return self
