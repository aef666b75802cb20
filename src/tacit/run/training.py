"""Training inside a budget: charge, run, look, save; and continue after any crash.

Rounds are run in short stretches. Before a stretch its charges are on disk; after it the checkpoint
is, and then the charges are marked done. While the devices compute one stretch, the next one is
paid, so that the ledger costs little time (see ``payments``).
"""

from __future__ import annotations

import bisect
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit import tree
from tacit.accounting import Budget, Guarantee, Ledger, compose
from tacit.accounting.guarantee import NoiseFrom
from tacit.accounting.ledger_book import Label
from tacit.algorithm import Algorithm
from tacit.algorithms.prelude import Released
from tacit.data.federation import Federation
from tacit.data.waiting import Scaling
from tacit.errors import BudgetError, TacitError
from tacit.planning import Plan, calibrate
from tacit.planning.auto_plan import rounds_for
from tacit.population import Population
from tacit.run import interrupt
from tacit.run.folder import Checkpoint, Row, RunFolder
from tacit.run.measure import Measure, flat
from tacit.run.payments import Payments
from tacit.run.rounding import chosen_precision, require_exact_noise
from tacit.run.scaling import opened, prepared
from tacit.simulation import RunState, Simulator
from tacit.simulation.devices import Precision
from tacit.simulation.tuning import Block, tuned
from tacit.tasks.base import Params, Task

_STRETCH_SECONDS = 0.5
_SAVE_SECONDS = 5.0
_DRAWN_SIZE = 100_000  # larger models are not kept for the picture of their path


@dataclass(frozen=True)
class Progress:
    """Where a run stands. Metrics and the epsilon spent are there when they were computed."""

    round: int
    rounds: int
    seconds_per_round: float
    metrics: dict[str, float]
    epsilon: float | None


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


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to run a plan, apart from what it computes."""

    seed: int | None = None  # none: noise from the operating system
    delta: float = 0.0
    budget: Budget | None = None
    eval_every: int | None = None
    dtype: Precision | None = None
    block: Block = None
    oracle: bool = True
    digest: str = ""
    on_progress: Callable[[Progress], None] = field(default=lambda _: None)

    @property
    def noise_from(self) -> NoiseFrom:
        """Where the noise comes from."""
        return "system" if self.seed is None else "seed"


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
        run = _Run(plan, rounds, simulator, settings, folder, ledger)
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


class _Run:
    """One run on its way."""

    def __init__(
        self,
        plan: Plan,
        rounds: int,
        simulator: Simulator,
        settings: Settings,
        folder: RunFolder | None,
        ledger: Ledger | None,
    ) -> None:
        self.plan, self.simulator, self.settings, self.folder = plan, simulator, settings, folder
        self.last = rounds
        self.state, self.round, self.rows = simulator.init(), 0, list[Row]()
        self.trajectory: list[NDArray[np.float64]] = []
        self.ledger = ledger
        self._payments = Payments(plan, rounds, ledger, repeatable=settings.seed is not None)
        self._saved_at = time.monotonic()
        self._spent: dict[int, Guarantee] = {}
        self._measure = Measure(simulator, oracle=settings.oracle)
        if folder is not None and ledger is not None:
            self._continue(folder, ledger)

    def go(self, check_interrupt: Callable[[], None]) -> None:
        """All rounds that are left, unless the check between stretches raises."""
        try:
            self._go(check_interrupt)
        except KeyboardInterrupt:
            self._save()  # what is paid for is not lost
            raise

    def _go(self, check_interrupt: Callable[[], None]) -> None:
        if self.round == 0 and not self.rows:
            self._look()
        last, stretch, most = self.last, 1, 1
        while self.round < last:
            check_interrupt()
            until = min(self._next_look(), last)
            count = max(1, min(stretch, until - self.round))
            self._payments.pay(self.round + count)
            begun = time.monotonic()
            state = self.simulator.advance(self.state, self.round, count)
            self._payments.pay_ahead(self.round + count + min(most, 4 * count))
            jax.block_until_ready(state.server)
            seconds = (time.monotonic() - begun) / count
            self.state, self.round = state, self.round + count
            most = max(1, int(_STRETCH_SECONDS / max(seconds, 1e-6)))
            stretch = min(most, 4 * count)
            looked = self._look() if self.round == until else {}
            if looked or self.round == last or time.monotonic() - self._saved_at > _SAVE_SECONDS:
                self._save()
            spent = self.guarantee(self.round).epsilon if looked else None
            self.settings.on_progress(Progress(self.round, last, seconds, looked, spent))

    def guarantee(self, rounds: int) -> Guarantee:
        """The sentence for the first rounds of the plan."""
        if rounds not in self._spent:
            self._spent[rounds] = self.plan.guarantee(
                self.settings.delta, rounds=rounds, noise_from=self.settings.noise_from
            )
        return self._spent[rounds]

    def final_guarantee(self) -> Guarantee:
        """The sentence of the whole run: what the ledger counts, and what nobody has counted."""
        counted = self.guarantee(self.last)
        if self.ledger is not None:
            counted = self.ledger.guarantee(self.settings.delta)
        looked = any(row.metric.startswith("oracle/") for row in self.rows)
        uncharged = ("the metrics called oracle, which look at the records",) if looked else ()
        return replace(counted, uncharged=uncharged)

    def _continue(self, folder: RunFolder, ledger: Ledger) -> None:
        self._payments.check(folder)
        found = folder.read_checkpoint(self.state)
        if found is None:
            self._payments.resume(0)
            self._keep_budget(ledger)
            return
        if not ledger.contains(found.head):
            raise TacitError(
                f"the ledger of {folder.path} is older than its checkpoint: charges are missing,"
                " so the run cannot go on."
            )
        self.state, self.round = self.simulator.place(RunState(*found.state)), found.round
        self.rows = folder.read_metrics(found.round)
        self._payments.resume(found.round)
        self._keep_budget(ledger)

    def _keep_budget(self, ledger: Ledger) -> None:
        """Fewer rounds, if an interrupted start has paid for some that have to be paid again."""
        budget = self.settings.budget
        if budget is None or not self._payments.wasted:
            return
        left = range(self.round, self.last)
        events = [compose(*(event for _, event in self.plan.events(r))) for r in left]

        def covered(count: int) -> bool:
            return not ledger.would_exceed(compose(*events[:count]), budget)

        self.last = self.round + bisect.bisect_left(
            range(1, len(events) + 1), True, key=lambda count: not covered(count)
        )

    def _next_look(self) -> int:
        every = self.settings.eval_every or -(-self.plan.rounds // 20)
        return (self.round // every + 1) * every

    def _look(self) -> dict[str, float]:
        measured = self._measure(self.state, self.round)
        if tree.size(self.state.server.params) <= _DRAWN_SIZE:
            self.trajectory.append(flat(self.simulator.params(self.state)))
        self.rows += [Row(self.round, name, value) for name, value in measured.items()]
        return measured

    def _save(self) -> None:
        if self.folder is None or self.ledger is None:
            return
        state: Any = jax.tree.map(np.asarray, self.state)
        self.folder.write_metrics(self.rows)
        self.folder.write_checkpoint(
            Checkpoint(self.round, state, self.ledger.head, self.settings.digest)
        )
        self._payments.settle(self.round)
        self._saved_at = time.monotonic()
