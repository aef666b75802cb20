"""The number of rounds that a method chooses for a budget, if it can choose."""

from __future__ import annotations

from tacit.accounting import Budget
from tacit.algorithm import Algorithm
from tacit.errors import TacitError
from tacit.planning.plan import Plan, calibrate
from tacit.population import Population
from tacit.schedules.auto import FEWEST, most_rounds
from tacit.tasks.base import Task


def rounds_for(
    algorithm: Algorithm,
    task: Task,
    population: Population,
    budget: Budget | None,
    accountant: str = "best",
) -> int:
    """The rounds that a method wants within a budget, for methods that know."""
    first = min(FEWEST, most_rounds(population.clients, getattr(algorithm, "times", None)))
    plan = Plan.of(algorithm, task, population, first)
    if budget is not None:
        plan = calibrate(plan, budget, accountant)
    found = plan.algorithm.enough_rounds()
    if found is None:
        raise TacitError(
            "the configuration needs 'train.rounds': only auto and auto-local choose them."
        )
    return found
