"""What a client may spend: its ledger, its budget, and what is paid for already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tacit.accounting import Budget, DpEvent, Ledger
from tacit.release import At

Covered = Callable[[DpEvent, int, str], bool]


@dataclass(frozen=True)
class Holdings:
    """The ledger that a client charges, and its budget.

    ``places`` says which noise is charged: the client's own, or also the server's. ``covered``
    decides whether an event of a round and phase fits the budget, faster than the full accounting.
    ``prepaid`` are the rounds and phases with secret cohorts that were charged as a whole. Each of
    them may be answered once; any other request is charged without amplification by sampling.
    """

    ledger: Ledger | None = None
    budget: Budget | None = None
    places: tuple[At, ...] = ("step", "message", "shares")
    covered: Covered | None = None
    prepaid: set[tuple[int, str]] | None = None
