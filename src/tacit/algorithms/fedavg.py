"""FedAvg and client-level DP-FedAvg (McMahan, Ramage, Talwar and Zhang, 2018).

    server   sends w
    client   y = w; K times: y -= eta * gradient of its mean loss (full batch or a minibatch)
             update = y - w, clipped to norm C
    server   w += step( (sum of updates + N(0, (z C)^2)) / expected cohort )

Protected: a whole client. With ``noise_at = "aggregate"`` the server adds the noise once to the sum
(central: against everyone who sees the models, the server being trusted); Poisson cohorts amplify.
With ``noise_at = "message"`` every client noises its own update (local: against the server too);
then who takes part hides nothing. ``contraction`` spreads the noise over the rounds by the dynamic
allocation of paper 002 at the same total price. Without noise it is FedAvg; the guarantee says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
import optax

from tacit import local, tree
from tacit.accounting.guarantee import Relation
from tacit.algorithm import Algorithm, ClientData, Message, Moment, Phase, ServerState
from tacit.algorithms.server import ServerOptimizer, server_optimizer
from tacit.bounds import Clip, Unbounded
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian, NoNoise
from tacit.mechanisms.additive import Levels
from tacit.population import Population
from tacit.release import Release
from tacit.sampling import Cohort, FullCohort, step_batch
from tacit.schedules.allocation import dynamic_levels
from tacit.tasks.base import Params, Task
from tacit.tree import Tree


@dataclass(frozen=True, kw_only=True)
class FedAvg(Algorithm):
    """Local steps, mean of the updates, a server optimiser. No privacy."""

    local_steps: int = 1
    local_lr: float = 0.1
    local_decay: float = 1.0
    batch_size: int | None = None
    clients_per_round: Cohort = field(default_factory=FullCohort)
    server: ServerOptimizer = "sgd"
    server_lr: float = 1.0
    server_momentum: float = 0.0
    server_decay: float = 1.0

    def __post_init__(self) -> None:
        if self.local_steps < 1:
            raise TacitError(f"local_steps is {self.local_steps}; a client takes at least one.")
        for name in ("local_lr", "server_lr", "local_decay", "server_decay"):
            if not 0 < getattr(self, name) < float("inf"):
                raise TacitError(f"{name} is {getattr(self, name)}; give a positive number.")
        if not 0 <= self.server_momentum < 1:
            raise TacitError(f"server_momentum is {self.server_momentum}; give 0 up to below 1.")

    @property
    def cohort(self) -> Cohort:
        """Which clients take part in a round."""
        return self.clients_per_round

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
        """The model, round 0, and the optimiser's state."""
        return ServerState(params, jnp.zeros((), jnp.int32), self.optimizer.init(params))

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: train locally, send the update."""
        del population
        batch = step_batch(self.batch_size)

        def train(
            moment: Moment, state: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            trained = local.gradient_steps(
                task,
                batch,
                moment.key,
                params,
                data,
                steps=self.local_steps,
                step_size=self.local_lr * self.local_decay**moment.round,
            )
            return {"update": tree.subtract(trained, params)}, state

        return (
            Phase(name="train", client=train, server=self.step, releases={"update": self.release}),
        )

    def step(self, state: ServerState, mean: Message) -> ServerState:
        """Move the model along the mean update."""
        descent = jax.tree.map(jnp.negative, mean["update"])
        moves, extra = self.optimizer.update(descent, state.extra, state.params)
        return ServerState(optax.apply_updates(state.params, moves), state.round + 1, extra)

    def with_noise(self, noise: float, phase: str | None = None) -> Self:
        """FedAvg has no noise to set."""
        del noise, phase
        raise TacitError("fedavg has no noise: take dp-fedavg for a privacy budget.")


@dataclass(frozen=True, kw_only=True)
class DPFedAvg(FedAvg):
    """FedAvg with clipped updates and Gaussian noise: one client is protected."""

    clip: float = 1.0
    noise: float = 0.0
    noise_at: Literal["aggregate", "message"] = "aggregate"
    contraction: float | None = None  # spread the noise as the dynamic allocation does
    rounds: int | None = None
    relation: Relation = "zero-out"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise_at == "message" and self.relation == "zero-out":
            # A client that answers cannot be hidden from the server, only what it answers.
            object.__setattr__(self, "relation", "replace-one")

    @property
    def release(self) -> Release:
        """The clipped update, noised on the sum or by the client itself."""
        mechanism: Any = Gaussian(self.levels) if self.noise else NoNoise()
        return Release(bound=Clip(self.clip), mechanism=mechanism, at=self.noise_at)

    @property
    def levels(self) -> Levels:
        """The noise, or its dynamic allocation over the rounds at the same total price."""
        if self.contraction is None:
            return self.noise
        if self.rounds is None:
            raise TacitError("a dynamic allocation must know the rounds: plan the run first.")
        shape = dynamic_levels(self.rounds, self.contraction, most=100.0)
        return tuple(self.noise * level / self.rounds**0.5 for level in shape)

    def planned(self, population: Population, rounds: int) -> Self:
        """A dynamic allocation depends on the number of rounds."""
        del population
        return self if self.contraction is None else replace(self, rounds=rounds)

    def with_noise(self, noise: float, phase: str | None = None) -> Self:
        """Noise of this standard deviation on the sum (or message), in units of the clip."""
        del phase
        return replace(self, noise=noise)
