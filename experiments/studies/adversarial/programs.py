"""How contributions are bounded, as programs that take a model and two records.

A program gives what leaves a client as one vector. ``weights`` say which of two records count. For
records this is a sum: a record's contribution is what it adds to the sum, alone and in company. For
clients it is the client's whole message behind ``leave_client``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tacit import local, tree
from tacit.algorithm import Algorithm, ClientData, Moment
from tacit.algorithms import AdaptDPFedAvg, Auto, ClientDPScaffold, DPFedAvg
from tacit.boundary import leave_client
from tacit.bounds import Bound, Clip, Normalize
from tacit.mechanisms import NoNoise
from tacit.population import Population
from tacit.release import Release
from tacit.tasks.base import Params, Record, Task
from tacit.tree import Tree

Program = Callable[[Params, Record, Array, Array], Array]
Compiled = Literal["no", "yes", "clients at once"]
POPULATION, STEPS = Population((2, 2)), 10  # so many steps of a linear model stay in the span


class Way(NamedTuple):
    """A way of bounding: a maker of programs, whose contribution it bounds, and a fixed radius."""

    make: Callable[[Task], Program]
    unit: Literal["record", "client"] = "record"
    radius: float | None = None  # None: the program takes it
    shows_norm: bool = False  # under a large radius the contribution is the gradient itself


@lru_cache(maxsize=8)
def prepared(task: Task, way: str, compiled: Compiled) -> Callable[..., Array]:
    """The program for many models at once: op by op, one by one as a site does, or all together."""
    one = WAYS[way].make(task)
    if compiled == "yes":
        return jax.jit(lambda *given: jax.lax.map(lambda each: one(*each), given))
    return jax.vmap(one) if compiled == "no" else jax.jit(jax.vmap(one))


def bounded_sum(bound: Bound, *, alone: bool = False) -> Callable[[Task], Program]:
    """The sum of ``local.bounded_sum``; of a batch of one record only if ``alone``."""
    release = Release(bound=bound, mechanism=NoNoise(), at="step", unit="record")

    def make(task: Task) -> Program:
        def program(params: Params, records: Record, weights: Array, radius: Array) -> Array:
            if alone:
                records, weights = {k: v[1:] for k, v in records.items()}, weights[1:]
            return flat(local.bounded_sum(task, release, params, records, weights, radius))

        return program

    return make


def auto_records(task: Task) -> Program:
    """The sum of a client of ``Auto``, which bounds every record in ``local.record_sum``."""
    method = Auto(protects="record", noise_at="aggregate", records="as-is")
    client = method.phases(task, POPULATION)[0].client

    def program(params: Params, records: Record, weights: Array, radius: Array) -> Array:
        del radius
        return flat(client(_moment(), (), _client(records, weights), params)[0]["gradient"].value)

    return program


def squared_norms(task: Task) -> Program:
    """The sum of clipped squared norms that finds the radius of AdaptDP."""
    release = AdaptDPFedAvg(max_radius=1.0).measure

    def program(params: Params, records: Record, weights: Array, radius: Array) -> Array:
        del radius
        data, like = _client(records, weights), jnp.zeros((), weights.dtype)

        def norms(records: Record) -> Array:
            return local.squared_gradient_norms(task, params, records)

        return flat(local.record_sum(release, _moment(), data, like, norms).value)

    return program


def message(method: Algorithm, field: str, *, corrected: bool = False) -> Callable[[Task], Program]:
    """A client's message; ``corrected`` steps follow control variates of the size of the model."""

    def make(task: Task) -> Program:
        phase = method.phases(task, POPULATION)[0]

        def program(params: Params, records: Record, weights: Array, radius: Array) -> Array:
            del radius
            state = tree.zeros_like(params) if corrected else ()
            sent = (params, tree.scale(-1.0, params)) if corrected else params
            told, _ = phase.client(_moment(), state, _client(records, weights), sent)
            return flat(leave_client(phase, jax.random.key(0), told, 0)[0][field])

        return program

    return make


def flat(value: Tree) -> Array:
    """All numbers as one vector."""
    return jnp.concatenate([jnp.ravel(v) for v in jax.tree.leaves(value)])


def _client(records: Record, weights: Array) -> ClientData:
    """A client of which the first records count, so the second goes first if it is alone."""
    turned = {k: jnp.where(weights[0] == 0, v[::-1], v) for k, v in records.items()}
    return ClientData(turned, jnp.sum(weights).astype(jnp.int32))


def _moment() -> Moment:
    return Moment(jnp.zeros((), jnp.int32), jax.random.key(0))


_LOCAL = {"local_steps": STEPS, "local_lr": 0.5}
WAYS: dict[str, Way] = {
    "clipped": Way(bounded_sum(Clip(1.0)), shows_norm=True),
    "normalised": Way(bounded_sum(Normalize(1.0))),
    "a batch of one": Way(bounded_sum(Clip(1.0), alone=True), shows_norm=True),
    "auto for records": Way(auto_records, radius=1.0),
    "squared norms": Way(squared_norms, radius=1.0),
    "update": Way(message(DPFedAvg(**_LOCAL), "update"), "client", 1.0),
    "corrected update": Way(
        message(ClientDPScaffold(noise_at="aggregate", **_LOCAL), "update", corrected=True),
        "client",
        1.0,
    ),
    "auto for clients": Way(
        message(Auto(protects="client", records="as-is", floor=0.0), "gradient"), "client", 1.0
    ),
}
TRIED: dict[Compiled, tuple[str, ...]] = {
    "no": ("clipped", "normalised"),
    "yes": tuple(WAYS),
    "clients at once": ("clipped", "normalised", "auto for records", "update"),
}
