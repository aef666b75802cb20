"""From a configuration to the objects of a run, calibrated to its budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit import features
from tacit.accounting.guarantee import Budget
from tacit.algorithms import registry as algorithms
from tacit.algorithms.private_moments import PrivateMoments
from tacit.data.config import before_release
from tacit.data.federation import Federation
from tacit.data.waiting import Waiting
from tacit.errors import ConfigError
from tacit.planning import Plan, calibrate
from tacit.planning.auto_plan import rounds_for
from tacit.population import Population
from tacit.run.config import RunConfig
from tacit.run.rounding import chosen_precision
from tacit.run.scaling import prepared as with_own_map
from tacit.simulation import Simulator
from tacit.simulation.devices import devices
from tacit.simulation.tuning import tuned
from tacit.tasks import registry as tasks


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to start: data, and a plan whose noise is settled."""

    config: RunConfig
    federation: Federation
    plan: Plan
    delta: float
    budget: Budget | None

    @property
    def waiting(self) -> tuple[str, ...]:
        """The columns whose mean and scale are released before round 0."""
        moments = self.plan.prelude.algorithm if self.plan.prelude is not None else None
        columns = moments.columns if isinstance(moments, PrivateMoments) else ()
        return tuple(column.column for column in columns)

    def simulator(self, seed: int | None) -> Simulator | None:
        """A simulator for all seeds of the run; none if each seed releases scales of its own."""
        plan, train = self.plan, self.config.train
        if plan.prelude is not None:
            return None
        return tuned(
            plan.algorithm,
            plan.task,
            with_own_map(plan.algorithm, self.federation),
            seed=seed,
            dtype=chosen_precision(train.dtype, plan, real=seed is None),
            block=train.block,
        )


def prepare(config: RunConfig, *, base: str | Path = ".") -> Prepared:
    """Load the data, make task and algorithm, and settle the noise."""
    devices()  # before anything else starts JAX with one device for all cores
    federation, waiting = before_release(config.data, base=base)
    if waiting and config.features:
        raise ConfigError(
            "columns with scaling = 'release' keep their places: leave [[features]] out, or give"
            " those columns their public range alone."
        )
    federation = features.apply(federation, config.features or ())
    plan = settled(
        config,
        shape=_features(federation).shape[1:],
        classes=federation.classes,
        population=Population(tuple(int(n) for n in federation.sizes)),
        waiting=waiting,
    )
    privacy = config.privacy
    if privacy == "none":
        return Prepared(config, federation, plan, 0.0, None)
    return Prepared(config, federation, plan, float(privacy.delta or 0.0), privacy.budget)


def settled(
    config: RunConfig,
    *,
    shape: tuple[int, ...],
    classes: int,
    population: Population,
    waiting: tuple[Waiting, ...] = (),
) -> Plan:
    """The plan of a run from what is public about its records, its noise calibrated."""
    task = tasks.make(config.task.name, shape=shape, classes=classes, **config.task.options)
    algorithm = algorithms.make(config.algorithm.name, **config.algorithm.options)
    privacy = config.privacy
    budget, accountant = (
        (None, "best") if privacy == "none" else (privacy.budget, privacy.accountant)
    )
    rounds = config.train.rounds or rounds_for(algorithm, task, population, budget, accountant)
    share = None if privacy == "none" else privacy.scaling_share
    if waiting:
        plan = _with_scaling(Plan(algorithm, task, population, rounds), waiting, share)
    else:
        plan = _with_share(Plan.of(algorithm, task, population, rounds), share)
    if privacy == "none":
        return plan
    if "noise" in config.algorithm.options:
        raise ConfigError("state the noise in [privacy], not in [algorithm]: a number exists once.")
    if privacy.noise is not None:
        return plan.with_noise(privacy.noise)
    if privacy.budget is not None:
        return calibrate(plan, privacy.budget, privacy.accountant)
    return plan


def _features(federation: Federation) -> np.ndarray[Any, Any]:
    """The column that a task takes its shape from: ``x``, or ``a`` of the generated quadratics."""
    records = federation.records
    return records["x"] if "x" in records else records["a"]


def _with_share(plan: Plan, share: float | None) -> Plan:
    """The plan with another share for the prelude that the algorithm asked for itself."""
    if share is None:
        return plan
    if plan.prelude is None:
        raise ConfigError(
            "privacy.scaling_share has nothing to pay for: write scaling = 'release' in a"
            " column, or leave it out."
        )
    return replace(plan, prelude_share=share)


def _with_scaling(plan: Plan, waiting: tuple[Waiting, ...], share: float | None) -> Plan:
    """The plan with a release of the waiting columns' means and scales before it."""
    moments = PrivateMoments.before(plan.algorithm, plan.task, plan.population, waiting)
    prelude = Plan(moments, plan.task, plan.population, 1)
    return replace(plan, prelude=prelude, prelude_share=share)
