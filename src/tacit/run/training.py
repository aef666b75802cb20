"""Training inside a budget: a settled plan from its ledger to its result.

``train`` is the door for Python, ``run_plan`` for a plan that is settled already; the rounds
themselves are in ``loop``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Budget, Guarantee, Ledger
from tacit.accounting.ledger_book import Label
from tacit.algorithm import Algorithm
from tacit.algorithms.prelude import Released
from tacit.data.federation import Federation
from tacit.data.waiting import Scaling
from tacit.errors import BudgetError
from tacit.planning import Plan, calibrate
from tacit.planning.auto_plan import rounds_for
from tacit.population import Population
from tacit.run import interrupt
from tacit.run.folder import Row, RunFolder
from tacit.run.loop import Progress, Run, Settings
from tacit.run.rounding import chosen_precision, require_exact_noise
from tacit.run.scaling import opened, prepared
from tacit.simulation import Simulator
from tacit.simulation.devices import Precision
from tacit.simulation.tuning import tuned
from tacit.tasks.base import Params, Task


@dataclass(frozen=True)
class Result:
    """A trained model with its history and its guarantee."""

    params: Params
    guarantee: Guarantee
    rows: list[Row]
    rounds: int
    stopped: str | None = None
    released: Released = field(default_factory=dict)  # by the prelude, if there was one
    trajectory: list[NDArray[np.float64]] = field(default_factory=list)  # models, at each look

    @property
    def metrics(self) -> dict[str, float]:
        """The last value of every metric."""
        return {row.metric: row.value for row in self.rows}

    @property
    def scaling(self) -> Scaling:
        """Released means and scales, by column."""
        return {
            name: (found["mean"], found["scale"])
            for name, found in self.released.items()
            if isinstance(found, Mapping)
        }


def train(
    algorithm: Algorithm,
    task: Task,
    federation: Federation,
    *,
    rounds: int | None = None,
    budget: Budget | None = None,
    delta: float | None = None,
    seed: int | None = None,
    eval_every: int | None = None,
    dtype: Precision | None = None,
    out: str | Path | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Result:
    """Train on one machine. With a budget the noise is calibrated to it; otherwise it is counted.

    The noise comes from the operating system. With a ``seed`` the run can be repeated: it is then a
    simulation, which protects nobody, and its guarantee says so.
    Without ``rounds`` the method says how many it wants, if it is one that knows.
    The guarantee of the result is for the whole run. ``out`` keeps everything in a folder; calling
    again with the same folder continues.
    """
    population = Population(tuple(int(n) for n in federation.sizes))
    if rounds is None:
        rounds = rounds_for(algorithm, task, population, budget)
    plan = Plan.of(algorithm, task, population, rounds)
    if budget is not None:
        plan = calibrate(plan, budget)
    settings = Settings(
        seed=seed,
        delta=budget.delta if budget is not None else delta or 0.0,
        budget=budget,
        eval_every=eval_every,
        dtype=dtype,
        on_progress=on_progress,
    )
    return run_plan(plan, federation, settings, RunFolder(out) if out is not None else None)


def rounds_within(plan: Plan, budget: Budget) -> int:
    """How many rounds of the plan the budget covers."""

    def covered(rounds: int) -> bool:
        return plan.guarantee(budget.delta, rounds=rounds).epsilon <= budget.epsilon

    if covered(plan.rounds):
        return plan.rounds
    if not covered(1):
        raise BudgetError(
            f"not even one round fits epsilon {budget.epsilon:g} at delta {budget.delta:g} with"
            " this noise: raise the noise or the budget."
        )
    low, high = 1, plan.rounds
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if covered(middle) else (low, middle)
    return low


def run_plan(
    plan: Plan,
    federation: Federation,
    settings: Settings,
    folder: RunFolder | None = None,
    simulator: Simulator | None = None,
) -> Result:
    """Run a settled plan within its budget; an earlier seed's simulator saves compiling again."""
    rounds = plan.rounds if settings.budget is None else rounds_within(plan, settings.budget)
    dtype = chosen_precision(settings.dtype, plan, real=settings.seed is None)
    if settings.seed is None:
        require_exact_noise(plan)
    released: Released = {}
    with _ledger(plan, settings, folder) as ledger:
        if plan.prelude is not None:
            federation, released = opened(
                plan.prelude, federation, settings.seed, dtype, ledger, folder
            )
            simulator = None  # an earlier seed's records are prepared otherwise
        if simulator is None:
            federation = prepared(plan.algorithm, federation)
            simulator = tuned(
                plan.algorithm,
                plan.task,
                federation,
                seed=settings.seed,
                dtype=dtype,
                block=settings.block,
            )
        simulator.reseed(settings.seed)
        # The plan stays as it is: noise that is spread over its rounds must not be spread anew.
        run = Run(plan, rounds, simulator, settings, folder, ledger)
        with interrupt.remembered() as check_interrupt:
            run.go(check_interrupt)
        guarantee = run.final_guarantee()
    stopped = None
    if run.last < plan.rounds:
        stopped = f"the budget covers {run.last} of the {plan.rounds} rounds"
    result = Result(
        params=simulator.params(run.state),
        guarantee=guarantee,
        rows=run.rows,
        rounds=run.last,
        stopped=stopped,
        released=released,
        trajectory=run.trajectory,
    )
    if folder is not None:
        folder.write_model(result.params)
    return result


def _ledger(
    plan: Plan, settings: Settings, folder: RunFolder | None
) -> contextlib.AbstractContextManager[Ledger | None]:
    if folder is None:
        return contextlib.nullcontext()
    about: Label = {
        "digest": settings.digest,
        "seed": settings.seed,
        "noise_from": settings.noise_from,
    }
    return folder.open_ledger(
        unit=plan.unit, relation=plan.relation, observer=plan.observer, about=about
    )
