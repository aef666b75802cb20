"""Runs the units of an entry, in this process or over several, and keeps each result at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from experiments.reproduce.entry import Entry
from experiments.reproduce.jobs import due, run_unit
from experiments.reproduce.store import Record, Store
from tacit.run.parallel import over_cores


@dataclass(frozen=True)
class Step:
    """A unit that is finished: where the entry stands, in rounds of training."""

    record: Record
    done: int
    known: int  # rounds that are known to be needed; a selection is followed by more


def run_entry(
    entry: Entry,
    store: Store,
    *,
    jobs: int = 1,
    on_step: Callable[[Step], None] = lambda _: None,
) -> None:
    """Run whatever is missing; stopping at any time loses no finished unit."""
    done = 0
    while units := due(entry, store):
        known = done + sum(unit.rounds for unit in units)
        for unit, record in over_cores(run_unit, units, jobs):
            store.add(record)
            done += unit.rounds
            on_step(Step(record, done, known))
