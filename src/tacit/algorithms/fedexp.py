"""DP-FedEXP: the server's step size from the spread of the noisy updates (Takakura, Liew
and Hasegawa, arXiv:2504.09850).

    client   tau steps of size eta_l from w; D = w_tau - w, clipped (or normalised) to norm C
    server   w += eta_g * cbar,     eta_g = max(1, mean squared norm / |cbar|^2)

    trust           what is sent                     mean squared norm
    central         D; the server adds the noise    one more noisy scalar: the two are ONE Gaussian
    shares          D in a secure sum               the same, in the same sum
    local           D + N(0, sigma^2)                mean |c_i|^2 - d sigma^2   (post-processing)
    local-privunit  PrivUnit direction, ScalarDP     mean of the length's estimate (post-processing)

Protected: a whole client, under replace-one; against the server in the local cases. The central
step size is free: a client cannot move the mean and the mean squared norm fully at once, and the
joint sensitivity is that of the mean alone while the scalar's noise is large enough. The returned
model is the mean of the last two iterates. Without noise and with a large clip it is FedEXP.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tacit import local, tree
from tacit.accounting.guarantee import Relation
from tacit.algorithm import ClientData, Message, Moment, Phase, WithSecureSum
from tacit.bounds import Bound, Clip, ClipScalar, Normalize
from tacit.mechanisms import PrivUnit
from tacit.mechanisms.privunit import GammaRule
from tacit.population import Population
from tacit.release import At, Release, gaussian_noise
from tacit.sampling import Cohort, FullCohort, step_batch
from tacit.tasks.base import Params, Task
from tacit.tree import Tree
from tacit.validation import AtLeastOne, OneOrMore, Positive

Trust = Literal["central", "shares", "local", "local-privunit"]


class State(NamedTuple):
    """The model and the one before it, the round, and the last step size."""

    params: Params
    before: Params
    step_size: Array
    round: Array | int = 0


@dataclass(frozen=True, kw_only=True)
class DPFedEXP(WithSecureSum):
    """Extrapolated server steps on clipped, noisy updates."""

    trust: Trust = "central"
    bound: Literal["clip", "normalize"] = "clip"
    clip: Positive = 1.0
    local_steps: AtLeastOne = 20
    local_lr: Positive = 0.1
    batch_size: int | None = None
    clients_per_round: Cohort = field(default_factory=FullCohort)
    max_step: OneOrMore | None = None
    scalar_noise: float | None = None  # in units of clip^2 on the sum; d z^2 / M if not given
    gamma: GammaRule = "exact"
    eps0: float = 2.0
    eps1: float = 2.0
    eps2: float = 2.0
    noise: float = 0.0
    relation: Relation = "replace-one"
    probed: ClassVar[str | None] = "update"

    @property
    def release(self) -> Release:
        """The bounded update with the noise of its trust model."""
        bound: Bound = Clip(self.clip) if self.bound == "clip" else Normalize(self.clip)
        mechanism = gaussian_noise(self.noise)
        if self.trust == "local-privunit":
            whole = PrivUnit(self.eps0, self.eps1, self.eps2, self.gamma)
            mechanism = whole.scaled(self.noise) if self.noise else whole
        return Release(bound=bound, mechanism=mechanism, at=self._at, trust=self.secure_sum)

    @property
    def _at(self) -> At:
        if self.trust == "shares":
            return "shares"
        return "aggregate" if self.trust == "central" else "message"

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: the update, and what the step size needs."""
        release = self.release
        batch = step_batch(self.batch_size)

        def train(
            moment: Moment, state: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            steps, eta = self.local_steps, self.local_lr
            update = local.update(task, batch, moment, params, data, steps=steps, step_size=eta)
            return {"update": update}, state

        common = partial(Phase, name="train", client=train, server=self.move)
        if release.at == "message":
            return (common(releases={"update": release}, stats={"sq_norm": self.estimate}),)
        releases = {"update": release, "sq_norm": self.scalar(task, population)}
        return (common(releases=releases, norm_of=("sq_norm", "update")),)

    def estimate(self, sent: Message) -> Array:
        """The squared norm of an update, from its noisy message."""
        return self.release.mechanism.sq_norm(sent["update"], self.clip, 0)

    def scalar(self, task: Task, population: Population) -> Release:
        """The mean squared norm as a release; its noise is d z^2 / M unless it is given."""
        level = 0.0
        if self.noise:
            expected = self.cohort.expected(population.clients)
            level = self.scalar_noise or _dimension(task) * self.noise**2 / expected
        bound = ClipScalar(self.clip**2)
        return Release(
            bound=bound, mechanism=gaussian_noise(level), at=self._at, trust=self.secure_sum
        )

    def move(self, state: State, mean: Message) -> State:
        """Extrapolate along the mean update."""
        update = self.release.mechanism.vector(mean["update"])
        eta = step_size(mean["sq_norm"], tree.squared_norm(update), self.max_step)
        params = tree.add(state.params, tree.scale(eta, update))
        eta = eta.astype(state.step_size.dtype)
        return state._replace(params=params, before=state.params, step_size=eta)

    def init(self, params: Params) -> State:
        """The model before the first round."""
        return State(params, params, jnp.ones((), jnp.result_type(float)))

    def model(self, state: Any) -> Params:
        """The mean of the last two iterates."""
        return tree.scale(0.5, tree.add(state.params, state.before))

    def report(self, state: Any) -> dict[str, Array]:
        """The server's step size."""
        return {"step_size": state.step_size}


def step_size(sq_norm: Array, mean_sq_norm: Array, most: float | None = None) -> Array:
    """eta_g = max(1, mean squared norm / squared norm of the mean), not above ``most``."""
    safe = jnp.where(mean_sq_norm > 0, mean_sq_norm, 1)
    eta = jnp.maximum(1.0, jnp.where(mean_sq_norm > 0, sq_norm / safe, 1.0))
    return eta if most is None else jnp.minimum(eta, most)


def _dimension(task: Task) -> int:
    return tree.size(jax.eval_shape(lambda: task.init(jax.random.key(0))))
