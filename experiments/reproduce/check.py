"""Rerun a few stored results and check that they agree within their noise."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace

from experiments.reproduce.catalogue import ENTRIES, missing_data
from experiments.reproduce.entry import stage_name
from experiments.reproduce.jobs import Unit, digest, run_unit
from experiments.reproduce.store import Record, Store

_RELATIVE = 0.02  # used if the spread over seeds is unknown


@dataclass(frozen=True)
class Compared:
    """One stored number and its rerun."""

    entry: str
    row: str
    method: str
    stage: str
    seed: int
    stored: float
    found: float
    allowed: float

    @property
    def agrees(self) -> bool:
        """Whether the difference is within the noise."""
        if not math.isfinite(self.stored):
            return not math.isfinite(self.found)
        return abs(self.stored - self.found) <= self.allowed


def check(
    store: Store, *, count: int = 3, seconds: float = 60.0, seed: int = 0
) -> Iterator[Compared]:
    """Rerun one seed of some stored records, chosen at random among the short ones."""
    known = [unit for name in ENTRIES for unit in _repeatable(store, name, seconds)]
    for unit, record in random.Random(seed).sample(known, min(count, len(known))):
        again = run_unit(unit)
        label = unit.entry.quantity.label
        stored = record.values[label]
        spread = statistics.stdev(stored) if len(stored) > 1 else 0.0
        yield Compared(
            entry=record.entry,
            row=record.row,
            method=record.method,
            stage=record.stage,
            seed=unit.seeds[0],
            stored=stored[0],
            found=again.values[label][0],
            allowed=max(3 * spread, _RELATIVE * abs(stored[0]), 1e-9),
        )


def stale(store: Store) -> list[str]:
    """Entries with records from settings that are no longer used."""
    found = []
    for name, entry in ENTRIES.items():
        wanted = {
            digest(entry, config)
            for line in entry.lines
            for stage in entry.stages(line)
            for _, config in line.candidates(stage, entry.delta)
        }
        if any(record.digest not in wanted for record in store.of(name)):
            found.append(name)
    return found


def _repeatable(store: Store, name: str, seconds: float) -> Iterator[tuple[Unit, Record]]:
    entry = ENTRIES[name]
    if missing_data(entry):
        return
    units = {
        (digest(entry, config), stage_name(stage)): Unit(
            entry, line, stage, settings, config, (), False
        )
        for line in entry.lines
        for stage in entry.stages(line)
        for settings, config in line.candidates(stage, entry.delta)
    }
    for record in store.of(name):
        unit = units.get((record.digest, record.stage))
        if unit is not None and record.seconds <= seconds and not record.failed:
            yield replace(unit, seeds=(record.seeds[0],)), record
