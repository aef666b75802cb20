"""Auto's rule: rounds and step size from the noise alone, which is public.

Let ``spread`` be the standard deviation of the noise on each number of a round's mean message, and
s1 = spread / sqrt(T): what it would be if the whole budget went into one round. It does not depend
on T, because noise with a budget for T rounds is sqrt(T) times larger. The step is

    lr = kappa / (T s1) = kappa / (sqrt(T) spread),

so the noise of all T rounds together moves a record of norm 1 by about kappa in its score, whatever
the budget, the clients and the rounds are. More rounds than needed cost time only; with fewer than
1 / (10 s1) steps would be longer than 10, which begins to overshoot.

Where s1 is above 0.01 (n mu below 100 with a trusted server) the noise decides, and three choices
change, all by public numbers: kappa is 2, clients that hold five records or more take 20 local
steps before they answer, which does for a client's own records what centring does for all, and the
centre is left out when its noise would be half as long as a record.
"""

from __future__ import annotations

import math

from tacit.accounting import Budget
from tacit.algorithm import Algorithm
from tacit.errors import TacitError
from tacit.planning.plan import Plan, calibrate
from tacit.population import Population
from tacit.tasks.base import Task

FEWEST, MOST = 60, 300  # rounds
GOOD_STEP, LARGEST_STEP = 10.0, 40.0
FEW = 0.01  # s1 above this: a federation with less than a hundred clients' worth of budget


def step_size(spread: float, rounds: int, kappa: float = 1.0) -> float:
    """kappa / (sqrt(T) spread), and no more than 40 where rounds are limited."""
    largest = LARGEST_STEP * kappa
    return min(largest, kappa / (math.sqrt(rounds) * spread)) if spread > 0 else largest


def enough_rounds(spread: float, rounds: int, most: int = MOST) -> int:
    """max(60, 1 / (10 s1)) rounds, from the spread of a round in a run of so many rounds."""
    s1 = spread / math.sqrt(rounds)
    wanted = math.ceil(1 / (GOOD_STEP * s1)) if GOOD_STEP * s1 * most > 1 else most
    return max(1, min(most, max(FEWEST, wanted)))


def rounds_for(
    algorithm: Algorithm,
    task: Task,
    population: Population,
    budget: Budget | None,
    accountant: str = "best",
) -> int:
    """The rounds that a method wants within a budget, for methods that know."""
    first = min(FEWEST, most_rounds(algorithm, population))
    plan = Plan.of(algorithm, task, population, first)
    if budget is not None:
        plan = calibrate(plan, budget, accountant)
    found = plan.algorithm.enough_rounds()
    if found is None:
        raise TacitError(
            "the configuration needs 'train.rounds': only auto and auto-local choose them."
        )
    return found


def most_rounds(algorithm: Algorithm, population: Population) -> int:
    """The most rounds that are possible: clients who speak seldom are used up."""
    limit = getattr(algorithm, "times", None)
    return min(MOST, population.clients * limit) if isinstance(limit, int) else MOST
