"""The mean of all records at norm 1, released once with noise, to centre them before training.

    client   u = x/|x| for every record; sends the mean of u over its records, of norm at most 1
    server   centre = the noisy mean, shortened by what the noise alone has added to its length

Each record then becomes (u - centre) / |u - centre|. Subtracting what all records share makes their
differences, which a classifier learns from, a larger part of a record of norm 1. Shortening is free
(James and Stein, 1961): a mean far above the noise is kept, one below it is no centre at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tacit import local, tree
from tacit.accounting.events import sensitivity
from tacit.accounting.guarantee import Unit
from tacit.algorithm import (
    Algorithm,
    ClientData,
    Message,
    Moment,
    Phase,
    ServerState,
)
from tacit.bounds import Clip, Normalize
from tacit.errors import TacitError
from tacit.population import Population
from tacit.preludes.base import Prelude, Released, is_number, protection_of
from tacit.record_maps import centred_rows, with_x
from tacit.release import At, Release, gaussian_noise
from tacit.secure_sum import SecureSum
from tacit.tasks.base import HostRecords, Params, Record, Task, flat_rows
from tacit.tree import Tree

_NEXT_TO_NOTHING = 0.01  # of mu
_LONGEST = 1 + 1e-6  # the norm of a centre, with room for rounding


@dataclass(frozen=True, kw_only=True)
class PrivateMean(Prelude):
    """One round that releases the mean of unit records with ``features`` numbers each."""

    features: int
    unit: Unit = "client"
    at: At = "aggregate"
    trust: SecureSum = field(default_factory=SecureSum)
    noise: float = 0.0
    file: ClassVar[str] = "centre.json"

    @classmethod
    def before(cls, training: Algorithm, task: Task, population: Population, features: int) -> Self:
        """The release that protects whom this training protects, against the same observer."""
        protection = protection_of(training, task, population)
        return cls(features=features, relation=training.relation, **protection._asdict())

    @property
    def release(self) -> Release:
        """A mean of vectors of norm 1; of records, the sum over a client's."""
        return Release(
            bound=Normalize(1.0) if self.unit == "record" else Clip(1.0),
            mechanism=gaussian_noise(self.noise),
            at=self.at,
            unit=self.unit,
            trust=self.trust,
        )

    def spread(self, population: Population) -> float:
        """The standard deviation of the noise on each number of the mean: public."""
        clients, release = population.clients, self.release
        if release.summed:
            return self.noise * release.on_mean(population)
        if self.at == "message":
            return self.noise / math.sqrt(clients)
        return self.noise * math.sqrt(clients) / population.records

    def share(self, mu: float, population: Population) -> float:
        """From a quarter to half of mu: what keeps the noise near half the length of a record.

        Where half of mu is not enough for that there is no centre, and nearly no price.
        """
        moved = sensitivity(1.0, self.relation)
        noise = math.sqrt(self.features) * replace(self, noise=moved / mu).spread(population)
        if noise > 0.5 * 0.5:
            return _NEXT_TO_NOTHING**2
        return min(0.5, max(0.25, 2 * noise)) ** 2

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: every client's mean, or every silo's sum of records."""
        del task
        release, unit = self.release, Normalize(1.0)
        share = population.sums_to_mean
        floor = self.features * self.spread(population) ** 2

        def each(records: Record, like: Array) -> Array:
            return jax.vmap(unit)(flat_rows(records, like))

        def measure(
            moment: Moment, state: Tree, data: ClientData, sent: Array
        ) -> tuple[Message, Tree]:
            if self.unit == "record":
                total = local.record_sum(release, moment, data, sent, lambda r: each(r, sent))
                if isinstance(total, local.Noised):
                    return {"mean": total.map(lambda v: tree.scale(share, v))}, state
                return {"mean": total}, state
            summed = local.plain_sum(data, sent, lambda records: each(records, sent))
            return {"mean": summed / data.size.astype(sent.dtype)}, state

        def settle(state: ServerState, means: Message) -> ServerState:
            mean = tree.scale(share, means["mean"]) if release.by_record else means["mean"]
            if floor > 1:  # the noise is longer than any record
                return state._replace(params=tree.zeros_like(mean))
            length = jnp.maximum(tree.squared_norm(mean), jnp.finfo(mean.dtype).tiny)
            kept = jnp.clip(1 - floor / length, 0, 1) / jnp.maximum(1, jnp.sqrt(length))
            return state._replace(params=tree.scale(kept, mean))

        return (Phase(name="mean", client=measure, server=settle, releases={"mean": release}),)

    def init(self, params: Params) -> ServerState:
        """No centre."""
        dtype = jnp.result_type(*jax.tree.leaves(params))
        return ServerState(jnp.zeros(self.features, dtype))

    def released(self, state: Any) -> Released:
        """The centre."""
        return {"centre": np.asarray(state.params, np.float64).tolist()}

    def checked(self, outcome: Any) -> Released:
        """``features`` numbers, of norm at most 1."""
        centre = outcome.get("centre") if isinstance(outcome, Mapping) else None
        if not (isinstance(centre, list) and all(map(is_number, centre))):
            centre = []
        if len(centre) != self.features or math.hypot(*centre) > _LONGEST:
            raise TacitError(f"a centre is {self.features} numbers of norm at most 1.")
        return {"centre": [float(number) for number in centre]}

    def applied(self, records: HostRecords, released: Released) -> HostRecords:
        """Every record at norm 1, minus the centre, at norm 1 again."""
        centre = np.asarray(released["centre"], np.float64)
        return with_x(records, centred_rows(records["x"], centre))
