"""AdaptDP-FedAvg: the clip radius from a private root-mean-square gradient norm
(Fukami, Murata and Niwa, "Adaptive Clipping for Differential Private Federated Learning in
Interpolation Regimes", TMLR, openreview.net/forum?id=vvSHlH3a8V).

    phase measure   client   s = mean of min(|grad l_z(x)|^2, G^2) + noise      (one scalar)
                    server   C = min( sqrt(max(0, 2 tau (mean s + nu))), G )
    phase train     client   y = x; K times, a fresh batch:
                             y -= eta * (mean of clip(grad l_z(y), C) + noise proportional to C)
                             sends y - x, and, if wanted, the mean of the iterates before each step
                    server   x += mean of (y - x), inside a ball if wanted

Protected: one record of a client, against the server, under replace-one. C is public when it is
used, because it is made of released scalars, so noise may follow it. The scalars lie in [0, G^2]:
replacing a record moves their mean by G^2/n, not twice that. nu lifts the radius above what the
noise on the scalars may take away, except with probability u over the run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax import Array

from tacit import local, tree
from tacit.accounting.guarantee import Relation
from tacit.algorithm import Algorithm, ClientData, Message, Moment, Phase
from tacit.algorithms.dp_fedavg_record import Batches, record_batch
from tacit.bounds import Clip, ClipScalar
from tacit.diagnostics import quantile_mean_ratios
from tacit.population import Population
from tacit.release import Release, gaussian_noise
from tacit.sampling import FixedBatch, FullBatch
from tacit.tasks.base import Params, Record, Task
from tacit.tree import Tree
from tacit.validation import AtLeastOne, OneOrMore, Positive, Share


class State(NamedTuple):
    """The model, the round, the radius, and the sum of averaged local iterates if it is wanted."""

    params: Params
    radius: Array
    visited: Tree
    round: Array | int = 0


@dataclass(frozen=True, kw_only=True)
class AdaptDPFedAvg(Algorithm):
    """Record-level DP-FedAvg that finds its clip radius itself, up to the cap ``max_radius``."""

    local_steps: AtLeastOne = 20
    local_lr: Positive = 0.1
    batch_size: int | None = 100
    batches: Batches = "fixed"
    max_radius: Positive = 1.0  # G
    tau: OneOrMore = 1.0
    failure: Share = 0.01  # u
    radius_batch: int | None = None  # all records
    radius_share: Share = 0.1
    ball: float | None = None
    output: Literal["last", "average"] = "last"
    noise: float = 0.0
    radius_noise: float = 0.0
    relation: Relation = "replace-one"
    uses_problem: ClassVar[bool] = True  # nu depends on the number of rounds

    @property
    def measure(self) -> Release:
        """The mean of clipped squared norms."""
        return Release(
            bound=ClipScalar(self.max_radius**2),
            mechanism=gaussian_noise(self.radius_noise),
            at="step",
            unit="record",
            batch=FullBatch() if self.radius_batch is None else FixedBatch(self.radius_batch),
        )

    @property
    def release(self) -> Release:
        """K noisy gradients a round; the bound's radius is the cap, C_r replaces it."""
        return Release(
            bound=Clip(self.max_radius),
            mechanism=gaussian_noise(self.noise),
            at="step",
            unit="record",
            times=self.local_steps,
            batch=record_batch(self.batches, self.batch_size),
        )

    def lift(self, population: Population) -> float:
        """nu: what keeps the noise on the scalars from pulling the radius down."""
        drawn = [float(self.measure.batch.expected(n)) for n in population.sizes]
        clients = population.clients
        variance = sum((self.radius_noise / n) ** 2 for n in drawn) / clients
        return radius_lift(variance, clients, self.known.rounds, self.failure, self.max_radius)

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """Measure the radius, then train inside it."""
        nu, measured, release = self.lift(population), self.measure, self.release

        def measure(
            moment: Moment, state: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            def norms(records: Record) -> Array:
                return local.squared_gradient_norms(task, params, records)

            return {"sq_norm": local.private_mean(measured, moment, data, norms)}, state

        def train(
            moment: Moment, state: Tree, data: ClientData, sent: Tree
        ) -> tuple[Message, Tree]:
            params, radius = sent

            def changes(found: tuple[Params, Params]) -> Tree:
                last, visited = found
                changed = {"last": tree.subtract(last, params)}
                if self.output == "average":
                    average = tree.scale(1 / self.local_steps, visited)
                    changed["average"] = tree.subtract(average, params)
                return changed

            steps = local.private_steps(
                task, release, moment, params, data, step_size=self.local_lr, radius=radius
            )
            return {"trained": steps.map(changes)}, state

        def set_radius(state: State, mean: Message) -> State:
            radius = clip_radius(mean["sq_norm"], nu, self.tau, self.max_radius)
            return state._replace(radius=radius.astype(state.radius.dtype))

        return (
            Phase(
                name="measure", client=measure, server=set_radius, releases={"sq_norm": measured}
            ),
            Phase(
                name="train",
                client=train,
                server=self.step,
                releases={"trained": release},
                send=lambda state: (state.params, state.radius),
            ),
        )

    def step(self, state: State, mean: Message) -> State:
        """Move to the mean of the clients' last iterates, and remember where they have been."""
        moved = tree.add(state.params, mean["trained"]["last"])
        if self.ball is not None:
            moved = Clip(self.ball)(moved)
        visited = state.visited
        if self.output == "average":
            here = tree.add(state.params, mean["trained"]["average"])
            visited = tree.add(visited, here)
        return state._replace(params=moved, visited=visited)

    def init(self, params: Params) -> State:
        """The model before the first round."""
        radius = jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))
        visited = tree.zeros_like(params) if self.output == "average" else ()
        return State(params, radius, visited)

    def model(self, state: Any) -> Params:
        """The last model, or the average over rounds, clients and local iterates."""
        if self.output == "last":
            return state.params
        average = tree.scale(1 / jnp.maximum(state.round, 1), state.visited)
        return tree.select(state.round > 0, average, state.params)

    @property
    def shares(self) -> Mapping[str, float | None]:
        """A share of mu squared to the radius, the rest to the gradients."""
        return {"measure": self.radius_share, "train": None}

    def with_noise(self, noise: float, phase: str | None = None) -> Self:
        """Noise on the sum of the scalars (measure) or of the gradients (train)."""
        if phase == "measure":
            return replace(self, radius_noise=noise)
        if phase == "train":
            return replace(self, noise=noise)
        return replace(self, noise=noise, radius_noise=noise)

    def report(self, state: Any) -> dict[str, Array]:
        """The radius of the round."""
        return {"radius": state.radius}

    def oracle(self, task: Task, params: Params, records: Record) -> dict[str, Array]:
        """The quantile-to-mean ratios tau_q of the squared gradient norms."""
        return quantile_mean_ratios(local.squared_gradient_norms(task, params, records))


def radius_lift(
    mean_variance: float, clients: int, rounds: int, failure: float, max_radius: float
) -> float:
    """nu = sqrt(2 mean_p (sigma_p)^2 G^4 / P) sqrt(log(2 P R / u))."""
    spread = math.sqrt(2 * mean_variance / clients) * max_radius**2
    return spread * math.sqrt(math.log(2 * clients * rounds / failure))


def clip_radius(mean_sq_norm: Array, nu: float, tau: float, max_radius: float) -> Array:
    """C = min( sqrt(max(0, 2 tau (mean + nu))), G )."""
    return jnp.minimum(jnp.sqrt(jnp.maximum(0.0, 2 * tau * (mean_sq_norm + nu))), max_radius)
