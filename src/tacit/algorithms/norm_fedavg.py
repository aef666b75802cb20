"""DP-NormFedAvg: client updates are normalised instead of clipped (Das, Hashemi,
Sanghavi and Dhillon, "Differentially Private Federated Learning with Normalized Updates", 2022).

    server   sends w; every client joins with probability r/n (Poisson)
    client   E gradient steps of size eta_k from w; u = (w - w_E) / eta_k, the SUM of its gradients
             sends C u/|u|      (0 for 0; the twin option clips: u min(1, C/|u|))
    server   w -= beta_k (1/r) (sum + N(0, (z C)^2)),   beta_k = ratio * eta_k, momentum

Protected: a whole client, against everyone who sees the models; the server is trusted, because it
adds the noise, once and independently of who has come, and divides by the expected cohort r. With
``noise_at = "shares"`` every client adds a share of it, and the server sees only the sum.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from jax import Array

from tacit import local, tree
from tacit.algorithm import ClientData, Message, Moment, Phase, WithSecureSum
from tacit.algorithms.output import Output, Outputs
from tacit.bounds import Clip, Normalize
from tacit.population import Population
from tacit.release import Release, gaussian_noise
from tacit.sampling import Cohort, FullCohort, step_batch
from tacit.tasks.base import Params, Task
from tacit.tree import Tree
from tacit.validation import AtLeastOne, Momentum, Positive


class State(NamedTuple):
    """The model, the round, the velocity, and what the chosen output needs."""

    params: Params
    velocity: Params
    kept: Tree
    round: Array | int = 0


@dataclass(frozen=True, kw_only=True)
class DPNormFedAvg(WithSecureSum):
    """FedAvg with normalised (or clipped) sums of local gradients and central noise."""

    bound: Literal["normalize", "clip"] = "normalize"
    scale: Positive = 1.0  # C
    local_steps: AtLeastOne = 20
    local_lr: Positive = 0.1  # eta_0
    decay: Positive = 1.0
    server_ratio: float = 0.5  # beta / eta
    server_momentum: Momentum = 0.0
    batch_size: int | None = None
    clients_per_round: Cohort = field(default_factory=FullCohort)
    output: Output = "last"
    average_rounds: int = 5
    noise_at: Literal["aggregate", "shares"] = "aggregate"
    noise: float = 0.0
    uses_problem: ClassVar[bool] = True  # the output depends on the number of rounds
    probed: ClassVar[str | None] = "gradients"

    @property
    def outputs(self) -> Outputs:
        """Which iterate is returned."""
        rounds = None if self.problem is None else self.problem.rounds
        return Outputs(self.output, self.average_rounds, rounds)

    @property
    def release(self) -> Release:
        """The bounded sum of a client's gradients; the noise is on the sum over clients."""
        bound = Normalize(self.scale) if self.bound == "normalize" else Clip(self.scale)
        return Release(
            bound=bound,
            mechanism=gaussian_noise(self.noise),
            at=self.noise_at,
            trust=self.secure_sum,
        )

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: the sum of local gradients."""
        del population
        batch = step_batch(self.batch_size)

        def train(
            moment: Moment, state: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            eta = self.local_lr * self.decay**moment.round
            steps = self.local_steps
            update = local.update(task, batch, moment, params, data, steps=steps, step_size=eta)
            return {"gradients": tree.scale(-1 / eta, update)}, state

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
        return state._replace(params=params, velocity=velocity, kept=kept)

    def init(self, params: Params) -> State:
        """The model before the first round."""
        return State(params, tree.zeros_like(params), self.outputs.start(params))

    def model(self, state: Any) -> Params:
        """The last model, the average of the last rounds, or a uniformly random iterate."""
        return self.outputs.choose(state.kept, state.params, state.round)
