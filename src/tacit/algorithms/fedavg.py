"""FedAvg and client-level DP-FedAvg (McMahan, Ramage, Talwar and Zhang, 2018).

    server   sends w
    client   y = w; K times: y -= eta * gradient of its mean loss (full batch or a minibatch)
             update = y - w, clipped to norm C
    server   w += step( (sum of updates + N(0, (z C)^2)) / expected cohort )

Protected: a whole client. With ``noise_at = "aggregate"`` the server adds the noise once to the sum
(central: against everyone who sees the models, the server being trusted); Poisson cohorts amplify.
With ``noise_at = "shares"`` every client adds a share of the same noise, and the server sees only
the sum (see ``secure_sum``). With ``noise_at = "message"`` every client adds noise to its own
update (local: against the server too); then who takes part hides nothing. ``contraction`` spreads
the noise over the rounds as dynamic LDP does, at the same total price. Without noise it is FedAvg;
the guarantee says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import jax
import jax.numpy as jnp
import optax

from tacit import local
from tacit.algorithm import (
    Algorithm,
    ClientData,
    Message,
    Moment,
    Phase,
    Problem,
    ServerState,
    WithSecureSum,
)
from tacit.algorithms.server import ServerOptimizer, server_optimizer
from tacit.bounds import Clip, Unbounded
from tacit.mechanisms import NoNoise
from tacit.mechanisms.additive import Levels
from tacit.population import Population
from tacit.release import Release, gaussian_noise
from tacit.sampling import Cohort, FullCohort, step_batch
from tacit.schedules.allocation import dynamic_levels
from tacit.tasks.base import Params, Task
from tacit.tree import Tree
from tacit.validation import AtLeastOne, Momentum, Positive


@dataclass(frozen=True, kw_only=True)
class FedAvg(Algorithm):
    """Local steps, mean of the updates, a server optimiser. No privacy."""

    local_steps: AtLeastOne = 1
    local_lr: Positive = 0.1
    local_decay: Positive = 1.0
    batch_size: int | None = None
    clients_per_round: Cohort = field(default_factory=FullCohort)
    server: ServerOptimizer = "sgd"
    server_lr: Positive = 1.0
    server_momentum: Momentum = 0.0
    server_decay: Positive = 1.0

    @property
    def release(self) -> Release:
        """The update, unbounded and without noise."""
        return Release(bound=Unbounded(), mechanism=NoNoise(), at="aggregate")

    @property
    def optimizer(self) -> optax.GradientTransformation:
        """What the server does with the mean update."""
        return server_optimizer(
            self.server,
            learning_rate=self.server_lr,
            momentum=self.server_momentum,
            decay=self.server_decay,
        )

    def init(self, params: Params) -> ServerState:
        """The model and the optimiser's state."""
        return ServerState(params, self.optimizer.init(params))

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: train locally, send the update."""
        del population
        batch = step_batch(self.batch_size)

        def train(
            moment: Moment, state: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            eta = self.local_lr * self.local_decay**moment.round
            steps = self.local_steps
            update = local.update(task, batch, moment, params, data, steps=steps, step_size=eta)
            return {"update": update}, state

        return (
            Phase(name="train", client=train, server=self.step, releases={"update": self.release}),
        )

    def step(self, state: ServerState, mean: Message) -> ServerState:
        """Move the model along the mean update."""
        descent = jax.tree.map(jnp.negative, mean["update"])
        moves, extra = self.optimizer.update(descent, state.extra, state.params)
        return state._replace(params=optax.apply_updates(state.params, moves), extra=extra)


@dataclass(frozen=True, kw_only=True)
class DPFedAvg(FedAvg, WithSecureSum):
    """FedAvg with clipped updates and Gaussian noise: one client is protected."""

    clip: Positive = 1.0
    noise: float = 0.0
    noise_at: Literal["aggregate", "shares", "message"] = "aggregate"
    probed: ClassVar[str | None] = "update"
    contraction: float | None = None  # spread the noise as the dynamic allocation does

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise_at == "message" and self.relation == "zero-out":
            # A client that answers cannot be hidden from the server, only what it answers.
            object.__setattr__(self, "relation", "replace-one")

    @property
    def release(self) -> Release:
        """The clipped update; the server adds noise to the sum, or the client to its update."""
        mechanism = gaussian_noise(self.levels if self.noise else 0.0)
        return Release(
            bound=Clip(self.clip), mechanism=mechanism, at=self.noise_at, trust=self.secure_sum
        )

    @property
    def levels(self) -> Levels:
        """The noise, or its dynamic allocation over the rounds at the same total price."""
        if self.contraction is None:
            return self.noise
        rounds = self.known.rounds
        shape = dynamic_levels(rounds, self.contraction, most=100.0)
        return tuple(self.noise * level / rounds**0.5 for level in shape)

    def planned(self, problem: Problem) -> Self:
        """A dynamic allocation depends on the number of rounds."""
        return self if self.contraction is None else replace(self, problem=problem)
