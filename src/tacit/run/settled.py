"""The plan of a configuration, from what is public about the records: its noise is settled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tacit.accounting import Budget
from tacit.algorithms import registry as algorithms
from tacit.errors import ConfigError
from tacit.planning import Plan, calibrate
from tacit.planning.rounds import rounds_for
from tacit.population import Population
from tacit.preludes.column_moments import PrivateMoments
from tacit.released_scaling import Waiting
from tacit.run.config import RunConfig
from tacit.tasks import registry as tasks

Calibrate = Callable[[Plan, Budget, str], Plan]


def settled_plan(
    config: RunConfig,
    *,
    shape: tuple[int, ...],
    classes: int,
    population: Population,
    waiting: tuple[Waiting, ...] = (),
    calibrate: Calibrate = calibrate,
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
