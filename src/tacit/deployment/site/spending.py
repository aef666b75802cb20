"""What a run costs a site, and whether its budget covers the whole run.

A site charges each release with its own noise when it answers. If it trusts the server, it also
charges the releases with the server's noise: per request if every site is asked, and for the whole
run at once if the server draws secret cohorts, because then a round also costs the sites that are
not drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

from tacit.accounting import DpEvent, Ledger, compose, epsilon_of, rounded_up
from tacit.accounting.events import Poisson, Turns
from tacit.deployment.allowance import Allowance, Planned, phase_events, total
from tacit.deployment.setup.settings import Public
from tacit.deployment.setup.site_settings import Policy
from tacit.deployment.site.policy import BUDGET, RefusalError
from tacit.planning import Plan
from tacit.release import At, charged_cohort
from tacit.wire.holdings import Holdings

WHOLE = (-1, "whole run")


class Spending:
    """The spending of one site: its index in the federation, its policy and its ledger."""

    def __init__(self, public: Public, index: int, policy: Policy, ledger: Ledger) -> None:
        self._public, self._index, self._policy, self._ledger = public, index, policy, ledger

    def admit(self, run: str) -> Holdings:
        """The holdings for the clients of this run; refuses a new run that does not fit fully."""
        known = self._ledger.find(run=run)
        upfront = None if known else self._upfront()
        due = dict(self._planned(run))
        if upfront is not None:
            due[WHOLE] = upfront
        covered = None
        if not self._policy.unprotected:
            covered = Allowance(self._ledger, self._policy.budget, due)
            if not known and not covered.whole:
                raise RefusalError(BUDGET, self._uncovered(due))
        if upfront is not None:
            round_, phase = WHOLE
            if covered is not None:
                covered(upfront, round_, phase)
            self._ledger.done(self._ledger.charge(upfront, run=run, round=round_, phase=phase))
        return Holdings(
            ledger=self._ledger,
            budget=None if self._policy.unprotected else self._policy.budget,
            places=self._places,
            covered=covered,
            prepaid=self._prepaid(run),
        )

    def _prepaid(self, run: str) -> set[tuple[int, str]] | None:
        """The requests of a run with secret cohorts that its upfront charge covers, each once."""
        if not self._sampled:
            return None
        planned = {place for place, _ in self._due(("aggregate",))}
        charges = map(self._ledger.get, self._ledger.find(run=run))
        answered = {(c.label.get("round"), c.label.get("phase")) for c in charges}
        return {place for place in planned if place not in answered} if planned else None

    def cost_of_new_run(self) -> float:
        """The epsilon after a whole new run; refuses if that exceeds the budget."""
        due = dict(self._planned(None))
        upfront = self._upfront()
        if upfront is not None:
            due[WHOLE] = upfront
        budget = self._policy.budget
        if not self._policy.unprotected and not Allowance(self._ledger, budget, due).whole:
            raise RefusalError(BUDGET, self._uncovered(due))
        return self._epsilon_with(due)

    @property
    def _sampled(self) -> bool:
        """Whether the accounting relies on secret cohorts; then every round costs every site."""
        plan = self._public.plan
        scheme = plan.algorithm.cohort.scheme(plan.population.clients)
        return isinstance(charged_cohort(scheme, plan.unit), Poisson)

    @property
    def _places(self) -> tuple[At, ...]:
        """The places whose noise is charged per request."""
        trusted = self._policy.trust_server and not self._sampled
        own: tuple[At, ...] = ("step", "message", "shares")
        return (*own, "aggregate") if trusted else own

    def _upfront(self) -> DpEvent | None:
        """The upfront charge for the server's noise in a whole run with secret cohorts."""
        if not self._sampled:
            return None
        due = dict(self._due(("aggregate",)))
        return total(due) if due else None

    def _planned(self, run: str | None) -> Planned:
        """What this run may still charge per request."""
        charges = [] if run is None else map(self._ledger.get, self._ledger.find(run=run))
        paid = {(c.label.get("round"), c.label.get("phase")) for c in charges}
        return {place: event for place, event in self._due(self._places) if place not in paid}

    def _due(self, places: tuple[At, ...]) -> Iterator[tuple[tuple[int, str], DpEvent]]:
        """All events of a run with noise at these places, for a site of this size."""
        records = self._public.population.sizes[self._index]
        for plan in self._public.plans:
            first = self._public.first_round(plan)
            for round_ in self._rounds(plan):
                for phase, event in phase_events(plan, round_, places, records):
                    yield (first + round_, phase), event

    def _rounds(self, plan: Plan) -> Iterator[int]:
        """The rounds in which this site may be asked."""
        cohort, clients = plan.algorithm.cohort, plan.population.clients
        turns = isinstance(cohort.scheme(clients), Turns)
        for round_ in range(plan.rounds):
            if not turns or bool(cohort.mask(None, clients, round_)[self._index]):  # type: ignore[arg-type]
                yield round_

    def _epsilon_with(self, due: Planned) -> float:
        after = compose(self._ledger.spent(), total(due))
        return epsilon_of(after, delta=self._policy.delta, relation=self._ledger.relation)

    def _uncovered(self, due: Planned) -> str:
        return (
            f"after the whole run this site would have spent epsilon ="
            f" {rounded_up(self._epsilon_with(due))} at delta = {self._policy.delta:g}, but its"
            f" budget over all runs is {self._policy.epsilon:g}."
        )
