"""The accuracy of a model on the sites' own records, as a release with a charge of its own.

    client   a = mean over its records of 1 if the model is right, else 0      (a number in [0, 1])
    server   mean of a over the sites; over all records, where a trusted server protects records

It protects whom the training before it protects, in the same sense, against the same observer. The
noise is chosen from public sizes so that the mean over the sites has a given standard deviation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import jax.numpy as jnp
from jax import Array

from tacit import local, random_numbers
from tacit.accounting.guarantee import SERVER_TRUSTED, Relation, Unit
from tacit.algorithm import (
    Algorithm,
    ClientData,
    Message,
    Moment,
    Phase,
    ServerState,
    observer_of,
    releases,
    unit_of,
)
from tacit.bounds import ClipScalar
from tacit.errors import ConfigError
from tacit.mechanisms import Gaussian
from tacit.population import Population
from tacit.release import At, Release
from tacit.sampling import FullBatch
from tacit.tasks.base import HostRecords, Params, Record, Task
from tacit.tree import Tree

PHASE = "accuracy"


@dataclass(frozen=True, kw_only=True)
class PrivateAccuracy(Algorithm):
    """One round that releases the sites' accuracies with noise ``noise`` on each sum."""

    noise: float
    unit: Unit
    at: At
    relation: Relation
    training: Algorithm

    @classmethod
    def after(
        cls, training: Algorithm, task: Task, population: Population, error: float
    ) -> PrivateAccuracy:
        """The release that protects whom this training protects, to within ``error``."""
        found = releases(training, task, population)
        unit = unit_of(found)
        at: At = "step" if unit == "record" else "message"
        if observer_of(found) == SERVER_TRUSTED:
            at = "aggregate"
        clients = population.clients
        per_noise = {
            "step": math.sqrt(sum(n**-2 for n in population.sizes)) / clients,
            "message": 1 / math.sqrt(clients),
            "aggregate": 1 / (population.records if unit == "record" else clients),
        }
        return cls(
            noise=error / per_noise[at],
            unit=unit,
            at=at,
            relation=training.relation,
            training=training,
        )

    def prepared(self, records: HostRecords) -> HostRecords:
        """The records as they were trained on."""
        return self.training.prepared(records)

    @property
    def release(self) -> Release:
        """A sum of numbers between 0 and 1."""
        return Release(
            bound=ClipScalar(1.0), mechanism=Gaussian(self.noise), at=self.at, unit=self.unit
        )

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: every site's accuracy."""
        release = self.release
        share = population.sums_to_mean

        def measure(
            moment: Moment, state: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            def right(records: Record) -> Array:
                return is_right(task, params, records)

            zero = jnp.zeros((), jnp.int32)
            keys = random_numbers.split(moment.key)
            if release.at == "step":
                share = local.private_mean(
                    release, (keys[0], keys[1]), zero, data, moment.round, right
                )
                return {PHASE: share}, state
            like = jnp.zeros((), jnp.result_type(float))
            summed, count = local.sum_over_chosen(
                FullBatch(), keys[0], zero, data, like, lambda r, w: jnp.vdot(w, right(r))
            )
            if release.by_record:
                return {PHASE: summed}, state
            return {PHASE: summed / jnp.maximum(count, 1)}, state

        def settle(state: ServerState, mean: Message) -> ServerState:
            found = mean[PHASE] * share if release.by_record else mean[PHASE]
            return ServerState(state.params, state.round + 1, found)

        return (Phase(name=PHASE, client=measure, server=settle, releases={PHASE: release}),)

    def init(self, params: Params) -> ServerState:
        """The model, and no accuracy yet."""
        return ServerState(params, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.result_type(float)))

    def with_noise(self, noise: float, phase: str | None = None) -> Self:
        """Noise of this standard deviation on each sum."""
        del phase
        return replace(self, noise=noise)


def is_right(task: Task, params: Params, records: Record) -> Array:
    """1 for every record whose class the model names, else 0."""
    labels = records.get("y")
    if labels is None or labels.ndim != 1 or not jnp.issubdtype(labels.dtype, jnp.integer):
        raise ConfigError("an accuracy needs classes: leave [evaluation] out for other targets.")
    said = task.outputs(params, records)
    guess = jnp.argmax(said, axis=-1) if said.ndim > 1 else said > 0
    return (guess.astype(labels.dtype) == labels).astype(jnp.result_type(float))
