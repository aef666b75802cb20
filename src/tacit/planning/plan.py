"""The plan of a run: every event of every round, before anything is spent.

The ledger later writes the same events, round by round; a test holds that both agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tacit.accounting import Budget, DpEvent, Guarantee, compose, guarantee, repeated
from tacit.accounting.calibration import Part, calibrate_split
from tacit.accounting.calibration import calibrate as least_noise
from tacit.accounting.events import Everyone, Poisson, SamplingScheme, Turns
from tacit.accounting.gaussian import gdp_mu
from tacit.accounting.guarantee import NoiseFrom, Relation, Unit
from tacit.algorithm import Algorithm, Phase, Problem, observer_of, releases, unit_of
from tacit.errors import BudgetError, TacitError
from tacit.planning.notes import about_shares, notes, warnings
from tacit.population import Population
from tacit.release import charged_cohort
from tacit.tasks.base import Task


@dataclass(frozen=True)
class Plan:
    """An algorithm on a population for a number of rounds.

    Events are those of the client that is hidden least: the one with the fewest records, taking
    part in every round that it can. A ``prelude`` is a plan of its own that runs before round 0
    (private means and scales do); it protects the same unit and spends from the same budget, of
    which calibration gives it ``prelude_share`` of mu squared, or what it asks for itself.
    """

    algorithm: Algorithm
    task: Task
    population: Population
    rounds: int
    prelude: Plan | None = None
    prelude_share: float | None = None
    _phases: tuple[Phase, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise TacitError(f"a run has at least one round, not {self.rounds}.")
        rounds = self.algorithm.communications(self.rounds)
        planned = self.algorithm.planned(Problem(self.task, self.population, rounds))
        object.__setattr__(self, "rounds", rounds)
        object.__setattr__(self, "algorithm", planned)
        object.__setattr__(self, "_phases", planned.phases(self.task, self.population))
        self._check_secure_sums()
        summed = [p for p in self._phases if any(r.at == "aggregate" for r in p.releases.values())]
        if len(summed) > 1 and isinstance(charged_cohort(self._cohort, self.unit), Poisson):
            raise TacitError(
                "two exchanges of a round share one secret cohort, which is not accounted for: ask"
                " everyone, or let groups take turns."
            )
        if self.prelude is not None and self.prelude._promise != self._promise:
            raise TacitError("a prelude protects the same unit, in the same sense, as its run.")

    @classmethod
    def of(cls, algorithm: Algorithm, task: Task, population: Population, rounds: int) -> Plan:
        """The plan of an algorithm with the prelude that it asks for itself."""
        plan = cls(algorithm, task, population, rounds)
        before = plan.algorithm.prelude(task, population)
        if before is None:
            return plan
        opening = cls(before, task, population, 1)
        return replace(plan, prelude=opening)

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
        found = releases(self.algorithm, self.task, self.population)
        return observer_of(found, self.population.clients)

    def _check_secure_sums(self) -> None:
        for phase in self._phases:
            if not phase.secure:
                continue
            if not isinstance(self._cohort, Everyone):
                raise TacitError(
                    "a secure sum is over all clients, because enough of those in it must be"
                    " honest: leave cohort_rate, cohort_size and cohort_groups out."
                )
            for release in phase.releases.values():
                release.trust.check(self.population.clients)

    @property
    def opening_round(self) -> int:
        """The prelude's number in the stream of randomness: no two rounds share one."""
        return self.rounds + 1

    @property
    def _promise(self) -> tuple[Unit, Relation, str]:
        return self.unit, self.relation, self.observer

    def events(self, round_: int) -> Iterator[tuple[str, DpEvent]]:
        """The phases of a round with the event that each is charged."""
        for phase in self._phases:
            yield phase.name, self.algorithm.price_in_turn(phase, round_, self.population)

    @property
    def _cohort(self) -> SamplingScheme:
        return self.algorithm.cohort.scheme(self.population.clients)

    def _event(self, phase: Phase, round_: int) -> DpEvent:
        """What a phase costs a client that takes part in this round."""
        sizes = self.population
        return self.algorithm.price(phase, round_, clients=sizes.clients, records=sizes.smallest)

    def total(self, only: str | None = None, rounds: int | None = None) -> DpEvent:
        """All events of the run, or of one phase, or of the first rounds; equal ones counted.

        The prelude comes before all rounds; it is no phase of a round.
        """
        count = self.rounds if rounds is None else rounds
        rule = self._one_by_one if self._scheduled else self._alike
        training = rule(only, count)
        before = [self.prelude.total()] if self.prelude is not None and only is None else []
        return compose(*before, training)

    def _alike(self, only: str | None, count: int) -> DpEvent:
        """Rounds that are all alike: of groups that take turns the first is asked most often."""
        parts = [self._event(phase, 0) for phase in self._phases if only in (None, phase.name)]
        turns = self._cohort.groups if isinstance(self._cohort, Turns) else 1
        return repeated(compose(*parts), -(-count // turns))

    def _one_by_one(self, only: str | None, count: int) -> DpEvent:
        """Rounds with levels of their own; equal ones that follow each other are counted."""
        counted: list[tuple[DpEvent, int]] = []
        for round_ in range(count):
            parts = [event for phase, event in self.events(round_) if only in (None, phase)]
            event = compose(*parts)
            if counted and counted[-1][0] == event:
                counted[-1] = (event, counted[-1][1] + 1)
            else:
                counted.append((event, 1))
        return compose(*(repeated(event, count) for event, count in counted))

    @property
    def _scheduled(self) -> bool:
        """Whether the noise of some release depends on the round."""
        mechanisms = [r.mechanism for phase in self._phases for r in phase.releases.values()]
        return any(isinstance(getattr(m, "noise", None), tuple) for m in mechanisms)

    def guarantee(
        self,
        delta: float,
        accountant: str = "best",
        rounds: int | None = None,
        noise_from: NoiseFrom = "unstated",
    ) -> Guarantee:
        """The whole sentence for the whole run, or for its first rounds."""
        return guarantee(
            self.total(rounds=rounds),
            delta=delta,
            unit=self.unit,
            relation=self.relation,
            observer=self.observer,
            accountant=accountant,
            public_sizes=True,
            noise_from=noise_from,
        )

    def notes(self, delta: float) -> list[str]:
        """Sentences about the noise, where its one number does not say enough."""
        found = releases(self.algorithm, self.task, self.population).values()
        shared = [about_shares(release, self.population.clients) for release in found]
        return notes(self.algorithm, self.population, delta) + next(iter(shared), [])

    def warnings(self) -> list[str]:
        """Sentences about what keeps the budget but will not do what it is meant to."""
        before = self.prelude.warnings() if self.prelude is not None else []
        return before + self._not_amplified() + warnings(self.algorithm, self.population)

    def _not_amplified(self) -> list[str]:
        """Why sampled clients make no epsilon smaller here, where somebody may expect it."""
        found = releases(self.algorithm, self.task, self.population).values()
        central = any(release.at == "aggregate" for release in found)
        if not central or charged_cohort(self._cohort, self.unit) == self._cohort:
            return []
        if self.unit == "record":
            why = "a client's other records enter with each record and give it away"
        else:
            why = "the other clients know when they are asked, so a fixed size gives the rest away"
        more = "" if self.unit == "record" else " Use cohort_rate: its coins are independent."
        return [f"sampling clients amplifies nothing here: {why}.{more}"]

    def with_noise(self, noise: float, phase: str | None = None) -> Plan:
        """The same run with another noise, in one phase or everywhere."""
        prelude = self.prelude
        if prelude is not None and phase is None:
            prelude = prelude.with_noise(noise)
        return replace(self, algorithm=self.algorithm.with_noise(noise, phase), prelude=prelude)


def calibrate(plan: Plan, budget: Budget, accountant: str = "best") -> Plan:
    """The plan whose noise is the least that keeps the budget, split as the algorithm says."""
    if plan.prelude is not None:
        return _calibrate_with_prelude(plan, plan.prelude, budget, accountant)
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


def _calibrate_with_prelude(plan: Plan, prelude: Plan, budget: Budget, accountant: str) -> Plan:
    training = replace(plan, prelude=None)
    shares: Mapping[Any, float | None] = training.algorithm.shares or {None: None}
    parts = {
        f"phase {phase}": Part(partial(_phase_event, training, phase), share)
        for phase, share in shares.items()
    }
    share = plan.prelude_share
    if share is None:
        mu = gdp_mu(budget.epsilon, budget.delta)
        share = prelude.algorithm.share(mu, plan.population)
    parts["prelude"] = Part(lambda noise: prelude.with_noise(noise).total(), share)
    noises = calibrate_split(parts, budget, relation=plan.relation, accountant=accountant)
    for phase in shares:
        training = training.with_noise(noises[f"phase {phase}"], phase)
    return replace(training, prelude=prelude.with_noise(noises["prelude"]))


def _phase_event(plan: Plan, phase: str | None, noise: float) -> DpEvent:
    return plan.with_noise(noise, phase).total(only=phase)
