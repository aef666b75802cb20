"""Worst-case audits of every method, each in the forms that draw noise or samples in another way.

All have the same budget. ``why`` explains an audited epsilon below 60 % of the claimed one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tacit.accounting import Budget
from tacit.algorithms import registry
from tacit.audit.verdict import Verdict
from tacit.audit.worst_case import audited, worst_case
from tacit.planning import Plan, calibrate
from tacit.population import Population
from tacit.report.trade_off import draw_trade_off
from tacit.tasks.logistic import Logistic

BUDGET = Budget(4.0, 1e-3)
ROUNDS, CLIENTS, RECORDS = 5, 40, 6
ENOUGH = 0.6  # of the claim


class Row(NamedTuple):
    """A method in one form."""

    name: str
    options: dict[str, Any]
    why: str = ""
    rounds: int = ROUNDS

    @property
    def title(self) -> str:
        """The name with its options."""
        told = ", ".join(f"{k} = {v}" for k, v in self.options.items())
        return f"{self.name} ({told})" if told else self.name

    def plan(self) -> Plan:
        """The method at the budget of all rows."""
        algorithm = registry.make(self.name, **self.options)
        task, population = Logistic(features=3, l2=0.1), Population((RECORDS,) * CLIENTS)
        return calibrate(Plan(algorithm, task, population, self.rounds), BUDGET)


_COINS = (
    "the claim counts on secret coins; an attack that adds up what it sees misses some of the rare"
    " events that decide epsilon at a small delta"
)
_COHORT = "the client is in 20 of 32 cohorts only, and nothing is claimed for that"
_EPOCHS = "the message adds up four noisy steps; the record is in two of them, which are charged"
_BOTH = "both neighbours have the same norm, so the third of epsilon for the norm is not attacked"

ROWS = (
    Row("dp-fedavg", {}),
    Row("dp-fedavg", {"server_momentum": 0.9}),
    Row("dp-fedavg", {"server": "adam"}),
    Row("dp-fedavg", {"cohort_rate": 0.5}, _COINS),
    Row("dp-fedavg", {"cohort_size": 20, "relation": "replace-one"}, _COHORT),
    Row("dp-fedavg", {"noise_at": "message", "relation": "replace-one"}),
    Row("dp-fedavg", {"noise_at": "shares"}),
    Row("dp-fedavg-record", {"batches": "full"}),
    Row("dp-fedavg-record", {"batches": "fixed", "batch_size": 3}, _COINS),
    Row(
        "dp-fedavg-record",
        {"batches": "poisson", "batch_size": 3, "relation": "zero-out"},
        _COINS,
    ),
    Row("dp-fedavg-record", {"batches": "shuffled", "batch_size": 3, "local_steps": 4}, _EPOCHS),
    Row("adaptdp-fedavg", {"batches": "full", "local_steps": 2}),
    Row("adaptdp-fedavg", {"batch_size": 3, "local_steps": 2}, _COINS),
    Row("dp-norm-fedavg", {}),
    Row("dp-norm-fedavg", {"cohort_rate": 0.5}, _COINS),
    Row("dp-fedexp", {}),
    Row("dp-fedexp", {"trust": "local"}),
    Row("dp-fedexp", {"trust": "local-privunit"}, _BOTH, rounds=1),
    Row("dp-fedexp", {"trust": "shares"}),
    Row("dp-scaffnew", {"local_steps": 2}),
    Row("dp-scaffold", {"batches": "full", "local_steps": 2}),
    Row("dp-scaffold", {"protects": "client"}),
    Row("dp-scaffold", {"protects": "client", "noise_at": "aggregate"}),
    Row("dp-scaffold", {"protects": "client", "mechanism": "privunit"}, _BOTH, rounds=1),
    Row("dynamic-ldp", {"strong_convexity": 0.1}),
    Row("isrl-dp", {"strong_convexity": 0.1, "batches": "full"}),
    Row("auto", {}),
    Row("auto", {"protects": "record"}),
    Row("auto", {"protects": "record", "noise_at": "aggregate"}),
    Row("auto", {"noise_at": "shares"}),
    Row("auto-local", {}),
    Row("auto-local", {"mechanism": "gaussian"}),
)


def audits(draws: int) -> Iterator[tuple[Row, Verdict]]:
    """Every row's verdict."""
    for number, row in enumerate(ROWS):
        case = worst_case(row.plan())
        yield row, audited(row.title, case, draws=draws, delta=BUDGET.delta, seed=number)


def rows(draws: int, picture: Path) -> Iterator[dict[str, Any]]:
    """Every row as plain numbers; the first is drawn."""
    for row, found in audits(draws):
        if row is ROWS[0]:
            draw_trade_off(found.trade_off(), picture)
        yield {**found.as_dict(), "why": row.why}
