"""Whether the next charge fits into a budget, without composing the whole ledger every time.

When a run is admitted, everything that it may still charge is composed once with what was spent. As
long as only planned charges follow, each of them once, the total cannot pass what was composed. A
charge outside the plan (a round that is tried again) is checked in full, together with the rest of
the plan if that still fits; once it does not, every charge is checked in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tacit.accounting import Budget, DpEvent, Ledger, compose, repeated
from tacit.accounting.events import in_turn
from tacit.planning import Plan
from tacit.release import PLACES, At

Planned = Mapping[tuple[int, str], DpEvent]  # by round and phase


class Allowance:
    """The charges of a run that are known to fit."""

    def __init__(self, ledger: Ledger, budget: Budget, planned: Planned) -> None:
        self._ledger, self._budget = ledger, budget
        self._left = dict(planned)
        self.whole = self._fits()
        if not self.whole:
            self._left = {}

    def __call__(self, event: DpEvent, round_: int, phase: str) -> bool:
        """Whether this event may be charged now; a planned one is taken off the plan."""
        if self._left.get((round_, phase)) == event:
            del self._left[round_, phase]
            return True
        if self._left and self._fits(event):
            return True
        self._left = {}
        return not self._ledger.would_exceed(event, self._budget)

    def _fits(self, *more: DpEvent) -> bool:
        return not self._ledger.would_exceed(total(self._left, *more), self._budget)


def phase_events(
    plan: Plan, round_: int, places: tuple[At, ...], records: int
) -> Iterator[tuple[str, DpEvent]]:
    """The phases of a round that charge for noise drawn at these places, and their events.

    ``records`` is how many records the site holds that pays.
    """
    cohort = plan.algorithm.cohort.scheme(plan.population.clients)
    for phase in plan.algorithm.phases(plan.task, plan.population):
        if any(release.at in places for release in phase.releases.values()):
            event = phase.event(
                round_, relation=plan.relation, cohort=cohort, records=records, places=places
            )
            yield phase.name, event


def planned_events(plan: Plan, ledger: Ledger) -> dict[tuple[int, str], DpEvent]:
    """What the rounds of a run will still cost a client, whoever draws the noise."""
    cohort = plan.algorithm.cohort.scheme(plan.population.clients)
    paid = {(c.label.get("round"), c.label.get("phase")) for c in ledger.charges}
    return {
        (round_, phase): in_turn(event, round_, cohort)
        for round_ in range(plan.rounds)
        for phase, event in phase_events(plan, round_, PLACES, plan.population.smallest)
        if (round_, phase) not in paid
    }


def total(planned: Planned, *more: DpEvent) -> DpEvent:
    """All of them as one event, equal ones counted together."""
    counted: list[tuple[DpEvent, int]] = []
    for event in (*planned.values(), *more):
        for place, (known, count) in enumerate(counted):
            if known == event:
                counted[place] = (known, count + 1)
                break
        else:
            counted.append((event, 1))
    return compose(*(repeated(event, count) for event, count in counted))
