"""From a configuration to the objects of a run, calibrated to its budget."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tacit.accounting.guarantee import Budget
from tacit.algorithm import Population
from tacit.algorithms import registry as algorithms
from tacit.data.config import from_config
from tacit.data.federation import Federation
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


def prepare(config: RunConfig, *, base: str | Path = ".") -> Prepared:
    """Load the data, make task and algorithm, and settle the noise."""
    federation = from_config(config.data, base=base)
    task = tasks.make(
        config.task.name,
        shape=federation.records["x"].shape[1:],
        classes=federation.classes,
        **config.task.options,
    )
    algorithm = algorithms.make(config.algorithm.name, **config.algorithm.options)
    population = Population(tuple(int(n) for n in federation.sizes))
    plan = Plan(algorithm, task, population, config.train.rounds)
    privacy = config.privacy
    if privacy == "none":
        return Prepared(config, federation, plan, 0.0, None)
    if "noise" in config.algorithm.options:
        raise ConfigError("state the noise in [privacy], not in [algorithm]: a number exists once.")
    if privacy.noise is not None:
        plan = plan.with_noise(privacy.noise)
    elif privacy.budget is not None:
        plan = calibrate(plan, privacy.budget, privacy.accountant)
    return Prepared(config, federation, plan, float(privacy.delta or 0.0), privacy.budget)
