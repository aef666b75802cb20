"""Run the units of an entry, in one or several processes, and store each result immediately."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from experiments.reproduce.entry import Entry
from experiments.reproduce.jobs import due, run_unit
from experiments.reproduce.store import Record, Store
from tacit.run.parallel import over_cores


@dataclass(frozen=True)
class Step:
    """A finished unit, and the progress of the entry in rounds of training."""

    record: Record
    done: int
    known: int  # rounds known so far; more follow after a selection


def run_entry(
    entry: Entry,
    store: Store,
    *,
    jobs: int = 1,
    on_step: Callable[[Step], None] = lambda _: None,
) -> None:
    """Run everything that is missing; an interruption loses no finished unit."""
    done = 0
    while units := due(entry, store):
        known = done + sum(unit.rounds for unit in units)
        for unit, record in over_cores(run_unit, units, jobs):
            store.add(record)
            done += unit.rounds
            on_step(Step(record, done, known))
