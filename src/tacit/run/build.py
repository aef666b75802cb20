"""From a configuration to the objects of a run, calibrated to its budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.accounting.guarantee import Budget
from tacit.algorithm import Population
from tacit.algorithms import registry as algorithms
from tacit.algorithms.private_moments import PrivateMoments
from tacit.data.config import before_release
from tacit.data.federation import Federation
from tacit.data.waiting import Waiting
from tacit.errors import ConfigError
from tacit.planning import Plan, calibrate
from tacit.run.config import RunConfig
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


def prepare(config: RunConfig, *, base: str | Path = ".") -> Prepared:
    """Load the data, make task and algorithm, and settle the noise."""
    federation, waiting = before_release(config.data, base=base)
    task = tasks.make(
        config.task.name,
        shape=_features(federation).shape[1:],
        classes=federation.classes,
        **config.task.options,
    )
    algorithm = algorithms.make(config.algorithm.name, **config.algorithm.options)
    population = Population(tuple(int(n) for n in federation.sizes))
    plan = Plan(algorithm, task, population, config.train.rounds)
    privacy = config.privacy
    share = None if privacy == "none" else privacy.scaling_share
    plan = _with_scaling(plan, waiting, share)
    if privacy == "none":
        return Prepared(config, federation, plan, 0.0, None)
    if "noise" in config.algorithm.options:
        raise ConfigError("state the noise in [privacy], not in [algorithm]: a number exists once.")
    if privacy.noise is not None:
        plan = plan.with_noise(privacy.noise)
    elif privacy.budget is not None:
        plan = calibrate(plan, privacy.budget, privacy.accountant)
    return Prepared(config, federation, plan, float(privacy.delta or 0.0), privacy.budget)


def _features(federation: Federation) -> np.ndarray[Any, Any]:
    """The column that a task takes its shape from: ``x``, or ``a`` of the generated quadratics."""
    records = federation.records
    return records["x"] if "x" in records else records["a"]


def _with_scaling(plan: Plan, waiting: tuple[Waiting, ...], share: float | None) -> Plan:
    """The plan with a release of the waiting columns' means and scales before it."""
    if not waiting:
        if share is not None:
            raise ConfigError(
                "privacy.scaling_share has nothing to pay for: write scaling = 'release' in a"
                " column, or leave it out."
            )
        return plan
    moments = PrivateMoments.before(plan.algorithm, plan.task, plan.population, waiting)
    prelude = Plan(moments, plan.task, plan.population, 1)
    return replace(plan, prelude=prelude, prelude_share=share or plan.prelude_share)
