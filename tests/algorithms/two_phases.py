"""A method made for the tests: two phases, a noisy scalar, clients that remember, a statistic.

server   sends w
client   s = its mean gradient's squared norm, in [0, 1], with Laplace noise      phase "size"
server   rate = 1 / (1 + max(0, mean s)); sends w and rate
client   g = gradient - memory, clipped, with Gaussian noise                      phase "step"
         memory += what it sent;  statistic: the squared norm of what it sent
server   control += mean of what was sent, w -= rate * control
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax import Array

from tacit import local, tree
from tacit.accounting.guarantee import Relation
from tacit.algorithm import Algorithm, ClientData, Message, Moment, Phase
from tacit.bounds import Clip, ClipScalar
from tacit.mechanisms import Gaussian, Laplace
from tacit.population import Population
from tacit.release import Release
from tacit.sampling import Cohort, FullBatch, PoissonCohort
from tacit.tasks.base import Params, Task
from tacit.tree import Tree


class State(NamedTuple):
    params: Params
    control: Tree
    rate: Array
    sent: Array
    round: Array | int = 0


@dataclass(frozen=True, kw_only=True)
class TwoPhases(Algorithm):
    noise: tuple[float, ...] = (2.0, 1.5, 1.0)
    relation: Relation = "replace-one"
    clients_per_round: Cohort = field(default_factory=lambda: PoissonCohort(0.7))

    def init(self, params: Params) -> State:
        none = jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))
        return State(params, tree.zeros_like(params), none, none)

    def init_client(self, params: Params) -> Tree:
        return tree.zeros_like(params)

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        def direction(moment: Moment, data: ClientData, params: Params) -> Tree:
            return local.gradient(task, FullBatch(), moment.key, moment.round, params, data)

        def measure(
            moment: Moment, memory: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            return {"size": tree.squared_norm(direction(moment, data, params))}, memory

        def work(
            moment: Moment, memory: Tree, data: ClientData, sent: dict[str, Tree]
        ) -> tuple[Message, Tree]:
            return {"g": tree.subtract(direction(moment, data, sent["w"]), memory)}, memory

        def tune(state: State, mean: Message) -> State:
            return state._replace(rate=1 / (1 + jnp.maximum(0, mean["size"])))

        def move(state: State, mean: Message) -> State:
            control = tree.add(state.control, mean["g"])
            moved = tree.subtract(state.params, tree.scale(state.rate, control))
            return state._replace(params=moved, control=control, sent=mean["sent"])

        def send(state: State) -> dict[str, Any]:
            return {"w": state.params, "rate": state.rate}

        return (
            Phase(
                name="size",
                client=measure,
                server=tune,
                releases={
                    "size": Release(bound=ClipScalar(1.0), mechanism=Laplace(3.0), at="message")
                },
            ),
            Phase(
                name="step",
                client=work,
                server=move,
                send=send,
                releases={
                    "g": Release(bound=Clip(0.5), mechanism=Gaussian(self.noise), at="message")
                },
                stats={"sent": lambda released: tree.squared_norm(released["g"])},
                remember=lambda memory, released: tree.add(memory, released["g"]),
            ),
        )

    def with_noise(self, noise: float) -> Self:
        return replace(self, noise=(noise,) * len(self.noise))
