"""Decide whether the next charge fits a budget, without composing the whole ledger every time.

When a run is admitted, all its planned charges are composed once with what is already spent. As
long as each planned charge is made at most once and no others follow, the total cannot exceed this
composition. An unplanned charge (of a repeated round) is checked in full, together with the rest of
the plan if that still fits. Once it does not fit, every charge is checked in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tacit.accounting import Budget, DpEvent, Ledger, compose, repeated
from tacit.planning import Plan
from tacit.release import At

Planned = Mapping[tuple[int, str], DpEvent]  # by round and phase


class Allowance:
    """The charges of a run that are known to fit the budget."""

    def __init__(self, ledger: Ledger, budget: Budget, planned: Planned) -> None:
        self._ledger, self._budget = ledger, budget
        self._left = dict(planned)
        self.whole = self._fits()
        if not self.whole:
            self._left = {}

    def __call__(self, event: DpEvent, round_: int, phase: str) -> bool:
        """Whether this event may be charged now; a planned event is removed from the plan."""
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
    """The phases of a round with noise at these places, and their events.

    ``records`` is the number of records of the site that is charged.
    """
    clients = plan.population.clients
    for phase in plan.algorithm.phases(plan.task, plan.population):
        if any(release.at in places for release in phase.releases.values()):
            yield (
                phase.name,
                plan.algorithm.price(
                    phase, round_, clients=clients, records=records, places=places
                ),
            )


def planned_events(plan: Plan, ledger: Ledger) -> dict[tuple[int, str], DpEvent]:
    """The events that the remaining rounds cost a client, whoever draws the noise."""
    paid = {(c.label.get("round"), c.label.get("phase")) for c in ledger.charges}
    return {
        (round_, phase): event
        for round_ in range(plan.rounds)
        for phase, event in plan.events(round_)
        if (round_, phase) not in paid
    }


def total(planned: Planned, *more: DpEvent) -> DpEvent:
    """All events as one, with equal events merged."""
    counted: list[tuple[DpEvent, int]] = []
    for event in (*planned.values(), *more):
        for place, (known, count) in enumerate(counted):
            if known == event:
                counted[place] = (known, count + 1)
                break
        else:
            counted.append((event, 1))
    return compose(*(repeated(event, count) for event, count in counted))
