"""The rounds of a run, one stretch after the other: charge, compute, look, save.

Before a stretch its charges are on disk; after it the checkpoint is, and then the charges are
marked done. While the devices compute one stretch of a simulation, the next one is paid (see
``payments``).
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit import tree
from tacit.accounting import Budget, Guarantee, Ledger, compose
from tacit.accounting.guarantee import NoiseFrom
from tacit.errors import TacitError
from tacit.measurements import Row
from tacit.planning import Plan
from tacit.precision import Precision
from tacit.run.folder import Checkpoint, RunFolder
from tacit.run.measure import Measure, flat
from tacit.run.payments import Payments
from tacit.run_status import RunStatus
from tacit.simulation import RunState, Simulator
from tacit.simulation.tuning import Block

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

    @property
    def noise_from(self) -> NoiseFrom:
        """Where the noise comes from."""
        return "system" if self.seed is None else "seed"


OnProgress = Callable[[Progress], None]
Spent = dict[tuple[int, float, NoiseFrom], Guarantee]  # by rounds, delta and source of the noise
MakeMeasure = Callable[..., Measure]  # of a simulator, and whether it may look at records


def spent_after(rounds: int, plan: Plan, settings: Settings, known: Spent) -> Guarantee:
    """The guarantee of a plan's first rounds, computed once for all seeds."""
    key = rounds, settings.delta, settings.noise_from
    if key not in known:
        known[key] = plan.guarantee(settings.delta, rounds=rounds, noise_from=settings.noise_from)
    return known[key]


class Rounds:
    """The rounds of one run."""

    def __init__(
        self,
        plan: Plan,
        rounds: int,
        simulator: Simulator,
        settings: Settings,
        folder: RunFolder | None,
        ledger: Ledger | None,
        *,
        on_progress: OnProgress | None,
        measure: MakeMeasure,
        spent: Spent,
        status: RunStatus,
    ) -> None:
        self.plan, self.simulator, self.settings, self.folder = plan, simulator, settings, folder
        self.last, self._earlier, self._begun = rounds, 0.0, time.monotonic()
        self.state, self.round, self.rows = simulator.init(), 0, list[Row]()
        self.trajectory: list[NDArray[np.float64]] = []
        self.ledger = ledger
        self._payments = Payments(plan, rounds, ledger, repeatable=settings.seed is not None)
        self._computing = False
        self._saved_at = time.monotonic()
        self._spent = spent
        self._measure = measure(simulator, oracle=settings.oracle)
        self._on_progress, self._status = on_progress, status
        if folder is not None and ledger is not None:
            self._continue(folder, ledger)
        status.at(self.round, rounds=self.last)

    def go(self, check_interrupt: Callable[[], None]) -> None:
        """All rounds that are left, unless the check between stretches raises."""
        try:
            self._go(check_interrupt)
        except KeyboardInterrupt:
            if not self._computing:  # what is paid for is not lost
                self._save()
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
            self._computing = True  # which uses up the state
            state = self.simulator.advance(self.state, self.round, count)
            self._payments.pay_ahead(self.round + count + min(most, 4 * count))
            jax.block_until_ready(state.server)
            seconds = (time.monotonic() - begun) / count
            self.state, self.round, self._computing = state, self.round + count, False
            most = max(1, int(_STRETCH_SECONDS / max(seconds, 1e-6)))
            stretch = min(most, 4 * count)
            looked = self._look() if self.round == until else {}
            if looked or self.round == last or time.monotonic() - self._saved_at > _SAVE_SECONDS:
                self._save()
            self._status.at(self.round)
            if self._on_progress is not None:
                spent = self._spent_so_far() if looked else None
                self._on_progress(Progress(self.round, last, seconds, looked, spent))

    @property
    def seconds(self) -> float:
        """The time of training, with that of earlier starts."""
        return self._earlier + time.monotonic() - self._begun

    def guarantee(self, rounds: int) -> Guarantee:
        """The sentence for the first rounds of the plan."""
        return spent_after(rounds, self.plan, self.settings, self._spent)

    def _spent_so_far(self) -> float:
        """Epsilon now; what an earlier start has lost stays spent."""
        if self.ledger is not None and self._payments.wasted:
            return self.ledger.guarantee(self.settings.delta).epsilon
        return self.guarantee(self.round).epsilon

    def final_guarantee(self) -> Guarantee:
        """The guarantee of the whole run, from the ledger, with what is not counted."""
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
        self.rows, self._earlier = folder.read_metrics(found.round), found.seconds
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
        self.folder.write_checkpoint(Checkpoint(self.round, state, self.ledger.head, self.seconds))
        self._payments.settle(self.round)
        self._saved_at = time.monotonic()
