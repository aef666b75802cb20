"""The remaining work of an entry, in units for the processes.

A unit is one configuration with some seeds. If a stage has a grid, all its points are run first, on
the selection seed; then the best one is run on the reported seeds.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from experiments.reproduce.entry import (
    SELECTION_SEED,
    Config,
    Entry,
    Line,
    Quantity,
    Stage,
    stage_name,
)
from experiments.reproduce.store import Record, Store, merged
from tacit.errors import DataError, TacitError
from tacit.run.result import versions

_LONG = 60.0  # minutes; in a longer entry every seed is a separate unit


@dataclass(frozen=True)
class Unit:
    """One configuration with its missing seeds."""

    entry: Entry
    line: Line
    stage: Stage
    settings: Mapping[str, Any]
    config: Config
    seeds: tuple[int, ...]
    reported: bool

    @property
    def rounds(self) -> int:
        """The rounds of all seeds, as a measure of the work."""
        return len(self.seeds) * int(self.config["train"]["rounds"])


def digest(entry: Entry, config: Config) -> str:
    """A fingerprint of everything that affects the results of a configuration, except the seed."""
    # Results are stored under the name that this algorithm had when they were computed.
    method = config["algorithm"]
    if method["name"] == "fedexp-variants":
        config = {**config, "algorithm": {**method, "name": "dp-fedexp"}}
    what = {
        "config": config,
        "looks": entry.looks,
        "redraw": entry.redraw,
        "delta": entry.delta,
        "train": entry.train,
    }
    text = json.dumps(what, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def due(entry: Entry, store: Store) -> list[Unit]:
    """The units that can run now: the paper's stage first, and the selection of each stage."""
    units: list[Unit] = []
    seen: set[tuple[str, tuple[int, ...]]] = set()
    for line in entry.lines:
        for stage in entry.stages(line):
            for unit in _of_stage(entry, store, line, stage):
                key = digest(entry, unit.config), unit.seeds
                if key not in seen:
                    seen.add(key)
                    units.append(unit)
    return sorted(units, key=lambda unit: unit.stage is not None)


def _of_stage(entry: Entry, store: Store, line: Line, stage: Stage) -> list[Unit]:
    points = list(line.candidates(stage, entry.delta))
    if len(points) > 1:
        missing = [
            Unit(entry, line, stage, settings, config, (SELECTION_SEED,), False)
            for settings, config in points
            if SELECTION_SEED not in store.seeds(entry.name, digest(entry, config))
        ]
        if missing:
            return missing
    found = chosen(entry, store, line, stage)
    assert found is not None
    settings, config = found
    there = store.seeds(entry.name, digest(entry, config))
    seeds = tuple(seed for seed in reported_seeds(entry) if seed not in there)
    # A result is stored when its unit is finished. Long seeds are separate units, so that an
    # interruption loses only one of them.
    groups = [(seed,) for seed in seeds] if entry.minutes >= _LONG else [seeds]
    return [Unit(entry, line, stage, settings, config, g, True) for g in groups if g]


def reported_seeds(entry: Entry) -> range:
    """The seeds whose mean and spread are reported."""
    return range(entry.seeds)


def chosen(
    entry: Entry, store: Store, line: Line, stage: Stage
) -> tuple[dict[str, Any], Config] | None:
    """The best grid point on the selection seed; None if points are missing."""
    points = list(line.candidates(stage, entry.delta))
    if len(points) == 1:
        return points[0]
    scores = []
    for settings, config in points:
        records = store.with_digest(entry.name, digest(entry, config))
        values = merged(records, entry.quantity.label, [SELECTION_SEED])
        if not values:
            return None
        scores.append((_score(values[0], entry.quantity), settings, config))
    best = min(scores, key=lambda score: score[0])
    return best[1], best[2]


def _score(value: float, quantity: Quantity) -> float:
    if not math.isfinite(value):
        return math.inf
    return value if quantity.better == "low" else -value


def run_unit(unit: Unit) -> Record:
    """Run a unit: train it, or only account for it."""
    begun = time.monotonic()
    entry, quantities = unit.entry, (unit.entry.quantity, *unit.entry.also)
    common: dict[str, Any] = {
        "entry": entry.name,
        "row": unit.line.row,
        "method": unit.line.method,
        "stage": stage_name(unit.stage),
        "settings": dict(unit.settings),
        "digest": digest(entry, unit.config),
        "seeds": list(unit.seeds),
        "versions": versions(),
        "command": f"tacit reproduce {entry.name}",
    }
    try:
        found = _trained(unit, quantities) if entry.train else _accounted(unit)
    except DataError:  # missing files are not a result
        raise
    except TacitError as error:
        nothing = {q.label: [math.nan] * len(unit.seeds) for q in quantities}
        found = {"values": nothing, "failed": str(error)}
    return Record(**common, **found, seconds=round(time.monotonic() - begun, 2))


def _trained(unit: Unit, quantities: tuple[Quantity, ...]) -> dict[str, Any]:
    from experiments.reproduce.prepared import guarantee, run_many

    entry = unit.entry
    kept = entry.keep if unit.reported else ()
    metrics = dict.fromkeys([*(q.metric for q in quantities), *kept])
    run, outcomes = run_many(
        unit.config,
        unit.seeds,
        delta=entry.delta,
        metrics=list(metrics),
        looks=entry.looks,
        redraw=entry.redraw,
    )
    sure = guarantee(run)
    noise = getattr(run.plan.algorithm, "noise", 0.0)
    return {
        "values": {q.label: [q.of(o.curves[q.metric]) for o in outcomes] for q in quantities},
        "rounds": run.plan.rounds,
        "epsilon": sure.epsilon,
        "delta": sure.delta,
        "guarantee": sure.sentence(),
        "noise": float(noise) if isinstance(noise, (int, float)) else None,
        "looks": outcomes[0].rounds if kept else [],
        "curves": {metric: [_short(o.curves[metric]) for o in outcomes] for metric in kept},
    }


def _short(curve: list[float]) -> list[float]:
    """Round to enough digits for a plot."""
    return [float(f"{value:.5g}") for value in curve]


def _accounted(unit: Unit) -> dict[str, Any]:
    from experiments.reproduce.prepared import guarantee, prepare

    entry = unit.entry
    run = prepare(unit.config, entry.delta)
    sure = guarantee(run)
    values = {entry.quantity.label: sure.epsilon}
    if entry.account is not None:
        values |= entry.account(run)
    return {
        "values": {name: [value] * len(unit.seeds) for name, value in values.items()},
        "rounds": run.plan.rounds,
        "epsilon": sure.epsilon,
        "delta": sure.delta,
        "guarantee": sure.sentence(),
    }
