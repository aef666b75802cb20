"""DP-FedEXP with switches that exist only to compare, as its paper does.

    step = "one"               DP-FedAvg with the same messages: the update is not extrapolated
    step = "naive"             local noise without the correction for its own squared norm
    accounting = "separate"    the mean and the squared norm charged one by one

A configuration calls it ``fedexp-variants``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import jax.numpy as jnp
from jax import Array

from tacit import tree
from tacit.algorithm import Message, Phase
from tacit.algorithms.fedexp import DPFedEXP, State
from tacit.errors import TacitError
from tacit.population import Population
from tacit.tasks.base import Params, Task


@dataclass(frozen=True, kw_only=True)
class FedEXPVariants(DPFedEXP):
    """DP-FedEXP and what its paper compares it with."""

    step: Literal["exp", "one", "naive"] = "exp"
    accounting: Literal["joint", "separate"] = "joint"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step == "naive" and not self.trust.startswith("local"):
            raise TacitError(
                "the naive step leaves out a correction that only local noise needs: compare it"
                " with trust = 'local'."
            )

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange; without a step size to find, the update alone."""
        (phase,) = super().phases(task, population)
        if self.step == "one":
            alone = {"update": self.release}
            return (replace(phase, releases=alone, stats={}, norm_of=None),)
        return (replace(phase, joint=self.accounting == "joint"),)

    def estimate(self, sent: Message) -> Array:
        """The squared norm of an update, with or without the correction."""
        if self.step == "naive":
            return tree.squared_norm(self.release.mechanism.vector(sent["update"]))
        return super().estimate(sent)

    def move(self, state: State, mean: Message) -> State:
        """Along the mean update, extrapolated or not."""
        if self.step != "one":
            return super().move(state, mean)
        update = self.release.mechanism.vector(mean["update"])
        moved = tree.add(state.params, update)
        one = jnp.ones((), state.step_size.dtype)
        return state._replace(params=moved, before=state.params, step_size=one)

    def model(self, state: Any) -> Params:
        """The last iterate where nothing is extrapolated."""
        return state.params if self.step == "one" else super().model(state)
