"""Summaries of records: means over seeds, and whether a claim holds at a stage."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any, Literal

from experiments.reproduce.entry import Entry, Line, Stage, stage_name
from experiments.reproduce.jobs import chosen, digest, reported_seeds
from experiments.reproduce.store import Record, Store, merged

Answer = Literal["yes", "no", "not clear", "not run"]


@dataclass(frozen=True)
class Cell:
    """One line at one stage: the numbers of its seeds, and the guarantee."""

    values: tuple[float, ...]
    settings: dict[str, Any]
    records: tuple[Record, ...]
    wanted: int

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float:
        """The standard deviation over seeds; 0 for one seed."""
        finite = len(self.values) > 1 and all(map(math.isfinite, self.values))
        return statistics.stdev(self.values) if finite else 0.0

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.std / math.sqrt(len(self.values))

    @property
    def epsilon(self) -> float:
        """The true epsilon of the whole run."""
        return self.records[0].epsilon

    @property
    def failed(self) -> str:
        """The reason if it could not run."""
        return self.records[0].failed


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim at a stage, with the numbers behind it."""

    stage: Stage
    answer: Answer
    why: str
    brief: str = ""  # for the headline table


class Summary:
    """All stored results of an entry."""

    def __init__(self, entry: Entry, store: Store) -> None:
        self.entry, self._store = entry, store
        self._cells: dict[tuple[str, str, str], Cell] = {}
        for line in entry.lines:
            for stage in entry.stages(line):
                cell = self._cell(line, stage)
                if cell is not None:
                    self._cells[line.row, line.method, stage_name(stage)] = cell

    def cell(self, row: str, method: str, stage: Stage) -> Cell | None:
        """The numbers of a line at a stage, if they are stored."""
        return self._cells.get((row, method, stage_name(stage)))

    def also(self, row: str, method: str, stage: Stage, label: str) -> list[float]:
        """Another quantity of the same runs."""
        cell = self.cell(row, method, stage)
        return merged(cell.records, label, reported_seeds(self.entry)) if cell else []

    @property
    def rows(self) -> list[str]:
        """The rows in their order."""
        return list(dict.fromkeys(line.row for line in self.entry.lines))

    def expected(self, rows: list[str], stage: Stage) -> list[str]:
        """The rows that have this stage."""
        there = {line.row for line in self.entry.lines if stage in self.entry.stages(line)}
        return [row for row in rows if row in there]

    @property
    def seeds(self) -> int:
        """The smallest number of seeds of any stored cell."""
        return min((len(cell.values) for cell in self._cells.values()), default=0)

    @property
    def share(self) -> float:
        """The share of the cells that are stored."""
        return len(self._cells) / max(1, self._wanted)

    @property
    def progress(self) -> float:
        """The share of the cells that are stored with all seeds."""
        done = sum(len(cell.values) >= cell.wanted for cell in self._cells.values())
        return done / max(1, self._wanted)

    @property
    def _wanted(self) -> int:
        return sum(len(self.entry.stages(line)) for line in self.entry.lines)

    @property
    def seconds(self) -> float:
        """The total time of all records."""
        return sum(record.seconds for record in self._store.of(self.entry.name))

    def _cell(self, line: Line, stage: Stage) -> Cell | None:
        found = chosen(self.entry, self._store, line, stage)
        if found is None:
            return None
        settings, config = found
        records = self._store.with_digest(self.entry.name, digest(self.entry, config))
        seeds = reported_seeds(self.entry)
        values = merged(records, self.entry.quantity.label, seeds)
        if not values:
            return None
        return Cell(tuple(values), settings, tuple(records), len(seeds))


def better(
    summary: Summary, first: str, second: str, rows: list[str] | None = None
) -> list[Verdict]:
    """Whether a method beats another by two standard errors of the difference, at each stage."""
    return [
        _better_at(summary, first, second, rows or summary.rows, stage)
        for stage in (None, *summary.entry.budgets)
    ]


def _better_at(summary: Summary, first: str, second: str, rows: list[str], stage: Stage) -> Verdict:
    counts, parts = {"yes": 0, "no": 0, "not clear": 0}, list[str]()
    quantity = summary.entry.quantity
    show = quantity.show
    for row in summary.expected(rows, stage):
        one, other = summary.cell(row, first, stage), summary.cell(row, second, stage)
        if one is None or other is None:  # a verdict needs all of its rows
            return Verdict(stage, "not run", "")
        if one.failed or other.failed:
            continue
        gap, error = difference(one, other)
        if quantity.better == "low":
            gap = -gap
        answer = "yes" if gap > 2 * error else "no" if gap < -2 * error else "not clear"
        if not quantity.learnt(one.mean) and not quantity.learnt(other.mean):
            answer = "not clear"  # the order of two failures means nothing
        counts[answer] += 1
        parts.append(f"{row}: {show(one.mean)} against {show(other.mean)} ({answer})")
    total = sum(counts.values())
    brief = f"{counts['yes']} of {total}" if total > 1 else parts[0].split(": ")[1] if parts else ""
    return Verdict(stage, _overall(counts), "; ".join(parts), brief.split(" (")[0])


def difference(one: Cell, other: Cell) -> tuple[float, float]:
    """The mean difference over seeds (a seed draws the same for both), and its standard error."""
    gaps = [a - b for a, b in zip(one.values, other.values, strict=False)]
    if not all(map(math.isfinite, gaps)):
        return one.mean - other.mean, 0.0
    error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    return statistics.fmean(gaps), error


def _overall(counts: dict[str, int]) -> Answer:
    total = sum(counts.values())
    if not total:
        return "not run"
    if counts["yes"] == total:
        return "yes"
    return "no" if counts["no"] >= counts["yes"] and counts["no"] > 0 else "not clear"
