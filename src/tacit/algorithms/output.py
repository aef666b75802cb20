"""Which model a run returns: the last, an average of the last rounds, or a random iterate.

All of them are computed from released models, so the choice costs nothing. The random iterate is
drawn before training, from the number of rounds alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import Array

from tacit import tree
from tacit.errors import TacitError
from tacit.tasks.base import Params
from tacit.tree import Tree

Output = Literal["last", "average", "random"]


@dataclass(frozen=True)
class Outputs:
    """Keeps what the chosen output needs while rounds pass."""

    kind: Output
    average_rounds: int
    rounds: int | None

    def start(self, params: Params) -> Tree:
        """What is kept before the first round."""
        return () if self.kind == "last" else tree.zeros_like(params)

    def keep(self, kept: Tree, before: Params, after: Params, round_: Array | int) -> Tree:
        """What is kept after a round that led from one model to the next."""
        if self.kind == "last":
            return kept
        now = jnp.asarray(round_)
        if self.kind == "random":
            return tree.select(now == self._chosen(), before, kept)
        counts = now >= self._known() - self.average_rounds
        return tree.add(kept, tree.select(counts, after, tree.zeros_like(after)))

    def choose(self, kept: Tree, last: Params, round_: Array | int) -> Params:
        """The model to return after ``round_`` rounds; the last one until there is a choice."""
        if self.kind == "last":
            return last
        now = jnp.asarray(round_)
        if self.kind == "random":
            return tree.select(now > self._chosen(), kept, last)
        count = jnp.minimum(now - (self._known() - self.average_rounds), self.average_rounds)
        mean = tree.scale(1 / jnp.maximum(jnp.minimum(count, now), 1), kept)
        return tree.select(count > 0, mean, last)

    def _known(self) -> int:
        if self.rounds is None:
            raise TacitError(f"the output {self.kind!r} must know the rounds: plan the run first.")
        return self.rounds

    def _chosen(self) -> int:
        return int(np.random.default_rng(self._known()).integers(self._known()))
