"""Tacit in float64 against the plain reference, with its real cohorts and batches, without noise.

The reference gets the clients and records that Tacit's sampling drew; it computes everything else
by itself. The remaining difference is rounding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.speed import reference
from benchmarks.speed.measure import relative
from benchmarks.speed.tacit_side import algorithm_of, federation_of, silent_rounds, task_of
from benchmarks.speed.works import WORKS, Work, flat
from tacit import Simulator
from tacit.algorithm import Problem
from tacit.population import Population
from tacit.precision import precision
from tacit.sampling import FixedBatch
from tacit.streams import Stream

SIZES: dict[str, dict[str, Any]] = {
    "W1": {"clients": 60, "cohort": 12},
    "W2": {"clients": 4, "cohort": 4},
    "W3": {"records": 150},
    "W3b": {"records": 60, "batch": 20, "steps": 5},
    "W4": {"rounds": 40},
}


def difference(work: Work, rounds: int, seed: int = 0, **options: Any) -> float:
    """The relative distance of Tacit's model to the reference after rounds without noise."""
    work = replace(work, noise=0.0)
    population = Population((work.records,) * work.clients)
    algorithm = algorithm_of(work).planned(Problem(task_of(work), population, rounds))
    simulator = Simulator(
        algorithm, task_of(work), federation_of(work), seed=seed, dtype="float64", **options
    )
    ours = flat(silent_rounds(simulator, work, rounds))
    expected = reference.trained(work, rounds, _cohort(work, simulator, seed), _batch(work, seed))
    return relative(ours, flat(expected), work)


def differences(names: list[str], rounds: int = 2) -> dict[str, float]:
    """Every work at a size that the plain reference can compute."""
    return {
        name: difference(replace(WORKS[name], **SIZES[name]), SIZES[name].get("rounds", rounds))
        for name in names
    }


def _cohort(work: Work, simulator: Simulator, seed: int) -> reference.Cohort:
    def drawn(round_: int) -> Any:
        with precision("float64"):
            key = Stream.seeded(seed).cohort(round_)
            return np.flatnonzero(simulator.algorithm.cohort.mask(key, work.clients, round_))

    return drawn


def _batch(work: Work, seed: int) -> reference.Batch:
    if work.batch is None:
        return reference.all_records
    batch = FixedBatch(work.batch)

    def drawn(round_: int, client: int, step: int) -> Any:
        with precision("float64"):
            key, _ = Stream.seeded(seed).client(round_, 0, client)
            batch_key, _ = jax.random.split(key)
            size = jnp.asarray(work.records)
            order, count = batch.chosen(batch_key, jnp.asarray(step), size, work.records)
            return np.asarray(order)[: int(count)]

    return drawn
