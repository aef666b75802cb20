"""The accuracy of a model on the sites' own records, as a separate release with its own charge.

    client   a = mean over its records of 1 if the model is right, else 0      (a number in [0, 1])
    server   mean of a over the sites; over all records, where the noise is on their sum

It has the same unit, relation and observer as the training before it. The noise follows from public
sizes, such that the mean over the sites has a given standard deviation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import jax.numpy as jnp
from jax import Array

from tacit import local
from tacit.accounting.guarantee import Unit
from tacit.algorithm import (
    Algorithm,
    ClientData,
    Message,
    Moment,
    Phase,
    ServerState,
)
from tacit.bounds import ClipScalar
from tacit.errors import ConfigError
from tacit.mechanisms import Gaussian
from tacit.population import Population
from tacit.preludes.base import protection_of
from tacit.release import At, Release
from tacit.secure_sum import SecureSum
from tacit.tasks.base import HostRecords, Params, Record, Task
from tacit.tree import Tree

PHASE = "accuracy"


@dataclass(frozen=True, kw_only=True)
class PrivateAccuracy(Algorithm):
    """One round that releases the sites' accuracies, with standard deviation ``noise`` per sum."""

    noise: float
    unit: Unit
    at: At
    trust: SecureSum = field(default_factory=SecureSum)
    training: Algorithm

    @classmethod
    def after(
        cls, training: Algorithm, task: Task, population: Population, error: float
    ) -> PrivateAccuracy:
        """A release with the unit and relation of this training, with deviation ``error``."""
        protection = protection_of(training, task, population)
        unscaled = cls(
            noise=1.0, relation=training.relation, training=training, **protection._asdict()
        )
        return replace(unscaled, noise=error / unscaled.spread(population))

    def spread(self, population: Population) -> float:
        """The standard deviation of the noise on the released accuracy."""
        clients, release = population.clients, self.release
        if release.summed:
            return self.noise * release.on_mean(population)
        if self.at == "message":
            return self.noise / math.sqrt(clients)
        return self.noise * math.sqrt(sum(n**-2 for n in population.sizes)) / clients

    def prepared(self, records: HostRecords) -> HostRecords:
        """The records in the form that training used."""
        return self.training.prepared(records)

    @property
    def release(self) -> Release:
        """A sum of numbers between 0 and 1."""
        return Release(
            bound=ClipScalar(1.0),
            mechanism=Gaussian(self.noise),
            at=self.at,
            unit=self.unit,
            trust=self.trust,
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

            if release.at == "step":
                return {PHASE: local.private_mean(release, moment, data, right)}, state
            like = jnp.zeros((), jnp.result_type(float))
            if release.by_record:
                return {PHASE: local.record_sum(release, moment, data, like, right)}, state
            count = jnp.maximum(data.size, 1).astype(like.dtype)
            return {PHASE: local.plain_sum(data, like, right) / count}, state

        def settle(state: ServerState, mean: Message) -> ServerState:
            found = mean[PHASE] * share if release.by_record else mean[PHASE]
            return state._replace(extra=found)

        return (Phase(name=PHASE, client=measure, server=settle, releases={PHASE: release}),)

    def init(self, params: Params) -> ServerState:
        """The model, without an accuracy yet."""
        return ServerState(params, jnp.zeros((), jnp.result_type(float)))


def is_right(task: Task, params: Params, records: Record) -> Array:
    """1 for every record that the model classifies correctly, otherwise 0."""
    labels = records.get("y")
    if labels is None or labels.ndim != 1 or not jnp.issubdtype(labels.dtype, jnp.integer):
        raise ConfigError("an accuracy needs classes: leave [evaluation] out for other targets.")
    said = task.outputs(params, records)
    guess = jnp.argmax(said, axis=-1) if said.ndim > 1 else said > 0
    return (guess.astype(labels.dtype) == labels).astype(jnp.result_type(float))
