"""Auto: a budget in, a model out; nothing to tune, with a trusted server or between silos.

    before   the mean of all records at norm 1, released with a quarter of mu or, when clients are
             few, up to half of it (``PrivateMean``)
    client   one full-batch gradient on centred unit records, sent at norm 1
    server   heavy ball, with a step and a number of rounds that follow from the noise alone

``protects = "client"``: the server adds the noise to the sum over clients, so a whole client is
protected against everyone who sees the models; the server is trusted. s1 = 1 / (n mu).

``protects = "record"``: every record's gradient has norm 1, each silo adds the noise to its own sum
and sends it; a record is protected against the server too. With M silos and N records in all,
s1 = sqrt(M) / (N mu).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from tacit import draws, local, tree
from tacit.accounting.guarantee import Relation, Unit
from tacit.algorithm import ClientData, Message, Moment, Phase, Population
from tacit.algorithms.one_gradient import OneGradient
from tacit.bounds import Normalize
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian, NoNoise
from tacit.release import Release
from tacit.sampling import Cohort, FullCohort
from tacit.tasks.base import Params, Record, Task
from tacit.tree import Tree


@dataclass(frozen=True, kw_only=True)
class Auto(OneGradient):
    """Normalised gradients with central noise, or normalised records with the silos' own noise."""

    protects: Unit = "client"
    clients_per_round: Cohort = field(default_factory=FullCohort)
    relation: Relation = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.protects == "record" and self.prior:
            raise TacitError(
                "a label prior joins all records of a client in each one's gradient: use it to"
                " protect clients, or set prior = false."
            )

    @property
    def cohort(self) -> Cohort:
        """Which clients take part in a round."""
        return self.clients_per_round

    @property
    def release(self) -> Release:
        """A gradient of norm 1 of every unit, noised on the sum."""
        mechanism: Any = Gaussian(self.noise) if self.noise else NoNoise()
        return Release(
            bound=Normalize(1.0),
            mechanism=mechanism,
            at="aggregate" if self.protects == "client" else "step",
            unit=self.protects,
        )

    @property
    def spread(self) -> float:
        """The noise over the expected cohort, or that of all silos over their records."""
        population = self.planned_population
        expected = self.cohort.expected(population.clients)
        if self.protects == "client":
            return self.noise / expected
        return self.noise / math.sqrt(expected) * population.clients / sum(population.sizes)

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: a gradient."""
        release = self.release
        share = population.clients / sum(population.sizes)

        def whole(
            moment: Moment, state: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            return {"gradient": self.gradient(task, params, data, moment.key)}, state

        def by_record(
            moment: Moment, state: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            batch_key, noise_key = draws.split(moment.key)

            def total(records: Record, weights: Array) -> Tree:
                each = jax.vmap(jax.grad(task.loss), in_axes=(None, 0))(params, records)
                bounded = jax.vmap(release.bound)(self.in_units(each))
                return jax.tree.map(lambda v: jnp.tensordot(weights, v, axes=1), bounded)

            step = jnp.zeros((), jnp.int32)
            summed, _ = local.sum_over_chosen(release.batch, batch_key, step, data, params, total)
            noisy = release.noised(noise_key, summed, moment.round)
            return {"gradient": tree.scale(share, noisy)}, state

        client = whole if self.protects == "client" else by_record
        return (
            Phase(name="train", client=client, server=self.step, releases={"gradient": release}),
        )

    def notes(self, population: Population, delta: float) -> list[str]:
        """What the noise is, and what follows from it."""
        del population, delta
        if not self.noise:
            return []
        summed = "clients" if self.protects == "client" else "each silo's records"
        return [
            f"Noise: standard deviation {self.noise:.5g} on the sum over {summed} of gradients of"
            f" norm 1; the rounds and the step of {self.lr:.4g} follow from it."
        ]
