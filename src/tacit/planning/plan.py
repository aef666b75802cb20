"""The plan of a run: every event of every round, before anything is spent.

The ledger later writes the same events, round by round; a test holds that both agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from tacit.accounting import Budget, DpEvent, Guarantee, compose, guarantee, repeated
from tacit.accounting.calibration import Part, calibrate_split
from tacit.accounting.calibration import calibrate as least_noise
from tacit.accounting.guarantee import Relation, Unit
from tacit.algorithm import Algorithm, Population, observer_of, releases, unit_of
from tacit.errors import TacitError
from tacit.tasks.base import Task


@dataclass(frozen=True)
class Plan:
    """An algorithm on a population for a number of rounds.

    Events are those of the client that is hidden least: the one with the fewest records, taking
    part in every round that it can.
    """

    algorithm: Algorithm
    task: Task
    population: Population
    rounds: int

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise TacitError(f"a run has at least one round, not {self.rounds}.")
        planned = self.algorithm.planned(self.population, self.rounds)
        object.__setattr__(self, "algorithm", planned)

    @property
    def unit(self) -> Unit:
        """Who is protected."""
        return unit_of(releases(self.algorithm, self.task, self.population))

    @property
    def relation(self) -> Relation:
        """Which datasets are neighbours."""
        return self.algorithm.relation

    @property
    def observer(self) -> str:
        """Against whom."""
        return observer_of(releases(self.algorithm, self.task, self.population))

    def events(self, round_: int) -> Iterator[tuple[str, DpEvent]]:
        """The phases of a round with the event that each is charged."""
        cohort = self.algorithm.cohort.scheme(self.population.clients)
        for phase in self.algorithm.phases(self.task, self.population):
            parts = [
                release.event(
                    round_,
                    relation=self.relation,
                    cohort=cohort,
                    records=self.population.smallest,
                )
                for _, release in sorted(phase.releases.items())
            ]
            yield phase.name, compose(*parts)

    def total(self, only: str | None = None, rounds: int | None = None) -> DpEvent:
        """All events of the run, or of one phase, or of the first rounds; equal ones counted."""
        counted: list[tuple[DpEvent, int]] = []
        for round_ in range(self.rounds if rounds is None else rounds):
            parts = [event for phase, event in self.events(round_) if only in (None, phase)]
            event = compose(*parts)
            if counted and counted[-1][0] == event:
                counted[-1] = (event, counted[-1][1] + 1)
            else:
                counted.append((event, 1))
        return compose(*(repeated(event, count) for event, count in counted))

    def guarantee(
        self, delta: float, accountant: str = "best", rounds: int | None = None
    ) -> Guarantee:
        """The whole sentence for the whole run, or for its first rounds."""
        return guarantee(
            self.total(rounds=rounds),
            delta=delta,
            unit=self.unit,
            relation=self.relation,
            observer=self.observer,
            accountant=accountant,
        )

    def with_noise(self, noise: float, phase: str | None = None) -> Plan:
        """The same run with another noise."""
        return replace(self, algorithm=self.algorithm.with_noise(noise, phase))


def calibrate(plan: Plan, budget: Budget, accountant: str = "best") -> Plan:
    """The plan whose noise is the least that keeps the budget, split as the algorithm says."""
    shares = plan.algorithm.shares
    if shares:
        parts = {
            phase: Part(partial(_phase_event, plan, phase), share)
            for phase, share in shares.items()
        }
        noises = calibrate_split(parts, budget, relation=plan.relation, accountant=accountant)
        for phase, noise in noises.items():
            plan = plan.with_noise(noise, phase)
        return plan
    noise = least_noise(
        lambda noise: plan.with_noise(noise).total(),
        budget,
        relation=plan.relation,
        accountant=accountant,
    )
    return plan.with_noise(noise)


def _phase_event(plan: Plan, phase: str, noise: float) -> DpEvent:
    return plan.with_noise(noise, phase).total(only=phase)
