"""ISRL-DP: accelerated noisy minibatch descent between silos (Lowy and Razaviyayn, 2023).

    server   w_md = a mixture of w_ag and w;  sends w_md
    client   g_i = (sum of clipped gradients over a batch at w_md + noise) / b;  sends g_i
    server   w = argmin alpha [ <g, v> + mu/2 |w_md - v|^2 ] + [(1-alpha) mu/2 + eta/2] |w - v|^2
             w_ag = alpha w + (1 - alpha) w_ag
             alpha_r = 2/(r+1),  eta_r = 4 (2 L) / (r (r+1))

Protected: one record of a silo, against the server, under replace-one. The paper's text names the
method and its bound only; the step rule is the accelerated stochastic approximation of Ghadimi and
Lan (2012), on which it builds, with smoothness L and strong convexity mu (0 for convex).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from tacit import local, tree
from tacit.accounting.guarantee import Relation
from tacit.algorithm import Algorithm, ClientData, Message, Moment, Phase
from tacit.algorithms.dp_fedavg_record import Batches, record_batch
from tacit.bounds import Clip
from tacit.population import Population
from tacit.release import Release, gaussian_noise
from tacit.sampling import Cohort, FullCohort
from tacit.tasks.base import Params, Task
from tacit.tree import Tree
from tacit.validation import NotNegative, Positive


class State(NamedTuple):
    """w_ag (the model), the round, and w."""

    params: Params
    w: Params
    round: Array | int = 0


@dataclass(frozen=True, kw_only=True)
class ISRLDP(Algorithm):
    """Accelerated private minibatch descent with one gradient message a round."""

    smoothness: Positive = 1.0  # L
    strong_convexity: NotNegative = 0.0  # mu
    clip: Positive = 1.0
    batch_size: int | None = None
    batches: Batches = "full"
    clients_per_round: Cohort = field(default_factory=FullCohort)
    noise: float = 0.0
    relation: Relation = "replace-one"

    @property
    def release(self) -> Release:
        """One noisy gradient a round."""
        return Release(
            bound=Clip(self.clip),
            mechanism=gaussian_noise(self.noise),
            at="step",
            unit="record",
            batch=record_batch(self.batches, self.batch_size),
        )

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: a private gradient at w_md."""
        del population
        release = self.release

        def work(
            moment: Moment, state: Tree, data: ClientData, w_md: Params
        ) -> tuple[Message, Tree]:
            return {"gradient": local.private_gradient(task, release, moment, w_md, data)}, state

        return (
            Phase(
                name="train",
                client=work,
                server=self.descend,
                releases={"gradient": release},
                send=self.middle,
            ),
        )

    def rates(self, round_: Array | int) -> tuple[Array, Array]:
        """alpha_r and eta_r of the r-th round, counted from 1."""
        r = jnp.asarray(round_).astype(jnp.result_type(float)) + 1
        return 2 / (r + 1), 8 * self.smoothness / (r * (r + 1))

    def middle(self, state: State) -> Params:
        """w_md: the point at which gradients are asked for."""
        alpha, eta = self.rates(state.round)
        mu = self.strong_convexity
        below = eta + (1 - alpha**2) * mu
        return tree.add(
            tree.scale((1 - alpha) * (mu + eta) / below, state.params),
            tree.scale(alpha * ((1 - alpha) * mu + eta) / below, state.w),
        )

    def descend(self, state: State, mean: Message) -> State:
        """The minimiser of the quadratic model, and the new aggregate."""
        alpha, eta = self.rates(state.round)
        mu, w_md = self.strong_convexity, self.middle(state)
        kept = (1 - alpha) * mu + eta
        pulled = tree.add(
            tree.scale(alpha * mu, w_md),
            tree.subtract(tree.scale(kept, state.w), tree.scale(alpha, mean["gradient"])),
        )
        w = tree.scale(1 / (alpha * mu + kept), pulled)
        w_ag = tree.add(tree.scale(alpha, w), tree.scale(1 - alpha, state.params))
        return state._replace(params=w_ag, w=w)

    def init(self, params: Params) -> State:
        """Both sequences start from the model."""
        return State(params, params)
