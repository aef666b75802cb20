"""Paying for rounds: the charge is on disk before the round runs, and marked done when it is saved.

A simulation draws the same noise again when it repeats a round, so a repeated round is the same
release and what is paid already is not paid twice; its rounds may be paid ahead of time, while the
devices compute. Noise from the operating system is never drawn twice: rounds that an interrupted
run has paid for and lost stay spent, and are paid again.
"""

from __future__ import annotations

from typing import Any

from tacit.accounting import DpEvent, Ledger
from tacit.accounting.event_json import encode_event
from tacit.accounting.ledger_book import Label
from tacit.errors import TacitError
from tacit.planning import Plan
from tacit.run.folder import RunFolder


class Payments:
    """The charges of a plan's first ``rounds`` rounds; without a ledger nothing is written.

    ``repeatable``: a round that is run again is the same release.
    """

    def __init__(
        self, plan: Plan, rounds: int, ledger: Ledger | None, *, repeatable: bool = True
    ) -> None:
        self._plan, self._rounds, self._ledger = plan, rounds, ledger
        self._repeatable = repeatable
        self.wasted = False  # an earlier start has paid for rounds that are paid again
        self._paid = 0  # rounds before this one are paid
        self._open: list[tuple[int, int]] = []  # (round, charge) paid and not marked done
        self._before: dict[Any, list[int]] = {}  # what an interrupted run paid, by round and phase

    def check(self, folder: RunFolder) -> None:
        """What was paid so far must be what this run would have paid."""
        charges = list(self._ledger.charges) if self._ledger is not None else []
        if not charges:
            return
        planned: dict[Any, Any] = {
            (round_, phase): encode_event(event)
            for round_ in range(self._rounds)
            for phase, event in self._plan.events(round_)
        }
        for charge in charges:
            round_, phase = charge.label.get("round"), charge.label.get("phase")
            same = planned.get((round_, phase)) == encode_event(charge.event)
            if same or round_ == -1:
                self._before.setdefault((round_, phase), []).append(charge.id)
            else:
                raise TacitError(
                    f"{folder.path} holds another run (what round {round_} was charged differs):"
                    " choose another folder."
                )

    def resume(self, round_: int) -> None:
        """Continue before this round; a crash after its checkpoint may have left charges open."""
        self._paid = round_
        if self._repeatable and self._ledger is not None:
            self._ledger.done_all(
                charge for (r, _), ids in self._before.items() if 0 <= r < round_ for charge in ids
            )
        if not self._repeatable:
            self._mark_done(round_)
            paid = self._before.items()
            self.wasted = any(round_ <= r or len(ids) > 1 for (r, _), ids in paid)
            self._before = {}

    def _mark_done(self, round_: int) -> None:
        """Of the charges for a round the last is the one that the checkpoint has."""
        if self._ledger is not None:
            self._ledger.done_all(
                ids[-1] for (r, _), ids in self._before.items() if 0 <= r < round_
            )

    def pay_ahead(self, until: int) -> None:
        """Pay for further rounds while the devices compute, where that can cost nothing twice."""
        if self._repeatable:
            self.pay(until)

    def pay(self, until: int) -> None:
        """Pay for the rounds before ``until``, as far as the run goes."""
        until = min(until, self._rounds)
        if self._ledger is None or until <= self._paid:
            return
        due: list[tuple[DpEvent, Label]] = []
        rounds: list[int] = []
        for round_ in range(self._paid, until):
            for phase, event in self._plan.events(round_):
                known = self._before.get((round_, phase), [])
                self._open += [(round_, charge) for charge in known]
                if not known:
                    due.append((event, {"round": round_, "phase": phase}))
                    rounds.append(round_)
        self._open += zip(rounds, self._ledger.charge_all(due), strict=True)
        self._paid = until

    def settle(self, round_: int) -> None:
        """Mark what was paid for the rounds before this one as done."""
        if self._ledger is not None:
            self._ledger.done_all(charge for paid, charge in self._open if paid < round_)
        self._open = [due for due in self._open if due[0] >= round_]
