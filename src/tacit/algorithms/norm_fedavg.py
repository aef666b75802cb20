"""DP-NormFedAvg: client updates are normalised instead of clipped (paper 001).

    server   sends w; every client joins with probability r/n (Poisson)
    client   E gradient steps of size eta_k from w; u = (w - w_E) / eta_k, the SUM of its gradients
             sends C u/|u|      (0 for 0; the twin option clips: u min(1, C/|u|))
    server   w -= beta_k (1/r) (sum + N(0, (z C)^2)),   beta_k = ratio * eta_k, momentum

Protected: a whole client, against everyone who sees the models; the server is trusted, because it
adds the noise, once and independently of who has come, and divides by the expected cohort r.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import jax.numpy as jnp
from jax import Array

from tacit import local, tree
from tacit.accounting.guarantee import Relation
from tacit.algorithm import Algorithm, ClientData, Message, Moment, Phase
from tacit.algorithms.output import Output, Outputs
from tacit.bounds import Clip, Normalize
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian, NoNoise
from tacit.population import Population
from tacit.release import Release
from tacit.sampling import Cohort, FullCohort, step_batch
from tacit.tasks.base import Params, Task
from tacit.tree import Tree


class State(NamedTuple):
    """The model, the round, the velocity, and what the chosen output needs."""

    params: Params
    round: Array
    velocity: Params
    kept: Tree


@dataclass(frozen=True, kw_only=True)
class DPNormFedAvg(Algorithm):
    """FedAvg with normalised (or clipped) sums of local gradients and central noise."""

    bound: Literal["normalize", "clip"] = "normalize"
    scale: float = 1.0  # C
    local_steps: int = 20
    local_lr: float = 0.1  # eta_0
    decay: float = 1.0
    server_ratio: float = 0.5  # beta / eta
    server_momentum: float = 0.0
    batch_size: int | None = None
    clients_per_round: Cohort = field(default_factory=FullCohort)
    output: Output = "last"
    average_rounds: int = 5
    noise: float = 0.0
    rounds: int | None = None
    relation: Relation = "zero-out"
    probed: ClassVar[str | None] = "gradients"

    def __post_init__(self) -> None:
        if self.local_steps < 1 or not 0 < self.local_lr < float("inf"):
            raise TacitError("give at least one local step, and a positive local_lr.")
        if not 0 <= self.server_momentum < 1:
            raise TacitError(f"server_momentum is {self.server_momentum}; give 0 up to below 1.")

    @property
    def cohort(self) -> Cohort:
        """Which clients take part in a round."""
        return self.clients_per_round

    @property
    def outputs(self) -> Outputs:
        """Which iterate is returned."""
        return Outputs(self.output, self.average_rounds, self.rounds)

    @property
    def release(self) -> Release:
        """The bounded sum of a client's gradients, noised on the sum over clients."""
        bound = Normalize(self.scale) if self.bound == "normalize" else Clip(self.scale)
        mechanism: Any = Gaussian(self.noise) if self.noise else NoNoise()
        return Release(bound=bound, mechanism=mechanism, at="aggregate")

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: the sum of local gradients."""
        del population
        batch = step_batch(self.batch_size)

        def train(
            moment: Moment, state: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            eta = self.local_lr * self.decay**moment.round
            trained = local.gradient_steps(
                task,
                batch,
                moment.key,
                params,
                data,
                steps=self.local_steps,
                step_size=eta,
            )
            return {"gradients": tree.scale(1 / eta, tree.subtract(params, trained))}, state

        return (
            Phase(
                name="train", client=train, server=self.step, releases={"gradients": self.release}
            ),
        )

    def step(self, state: State, mean: Message) -> State:
        """Descend along the (heavy-ball) mean of the bounded sums."""
        velocity = tree.add(tree.scale(self.server_momentum, state.velocity), mean["gradients"])
        beta = self.server_ratio * self.local_lr * self.decay**state.round
        params = tree.subtract(state.params, tree.scale(beta, velocity))
        kept = self.outputs.keep(state.kept, state.params, params, state.round)
        return State(params, state.round + 1, velocity, kept)

    def init(self, params: Params) -> State:
        """The model before the first round."""
        zeros = tree.zeros_like(params)
        return State(params, jnp.zeros((), jnp.int32), zeros, self.outputs.start(params))

    def model(self, state: Any) -> Params:
        """The last model, the average of the last rounds, or a uniformly random iterate."""
        return self.outputs.choose(state.kept, state.params, state.round)

    def planned(self, population: Population, rounds: int) -> Self:
        """The output may depend on the number of rounds."""
        del population
        return replace(self, rounds=rounds)

    def with_noise(self, noise: float, phase: str | None = None) -> Self:
        """Noise of this standard deviation on the sum over clients, in units of the scale."""
        del phase
        return replace(self, noise=noise)
