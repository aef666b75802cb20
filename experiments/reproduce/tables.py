"""The tables of the results pages: numbers with their true epsilon, and the chosen settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from experiments.reproduce.entry import BUDGETS, Entry, Line, Stage
from experiments.reproduce.summary import Cell, Summary
from tacit.accounting.guarantee import rounded_up

NOTHING = "-"
LONG = 30  # rows; a longer table is folded


def table(entry: Entry, summary: Summary) -> Iterator[str]:
    """Every line of an entry: printed, rerun, its true epsilon, and at honest budgets."""
    budgets = [b for b in BUDGETS if b in entry.budgets]
    names = ["row", "method", "true epsilon", "printed", "rerun here", "claimed epsilon"]
    names += [f"epsilon {budget:g}" for budget in budgets]
    rows = []
    for line in entry.lines:
        cells = [summary.cell(line.row, line.method, stage) for stage in (None, *budgets)]
        if not any(cells):
            continue
        shown = [line.row, line.method, _epsilon(cells[0]), _printed(entry, line)]
        shown += [_numbers(entry, cells[0]), line.claimed or NOTHING]
        shown += [_numbers(entry, cell) for cell in cells[1:]]
        rows.append(f"| {' | '.join(shown)} |")
    label = f"{entry.quantity.label[0].upper()}{entry.quantity.label[1:]}"
    written = [
        f"| {' | '.join(names)} |",
        f"|{'---|' * 2}{'---:|' * (len(names) - 2)}",
        *rows,
        "",
    ]
    if len(rows) > LONG:
        yield from folded(f"{label}: all {len(rows)} rows", written)
    else:
        yield f"{label}:\n"
        yield from written


def choices(entry: Entry, summary: Summary) -> Iterator[str]:
    """The chosen point of each grid, and whether it is at the edge; folded."""
    stages: tuple[Stage, ...] = (None, *(b for b in BUDGETS if b in entry.budgets))
    rows = []
    for line in entry.lines:
        chosen = [_chosen(line, summary.cell(line.row, line.method, s), s) for s in stages]
        if any(text != NOTHING for text in chosen):
            rows.append(f"| {line.row} | {line.method} | {' | '.join(chosen)} |")
    if not rows:
        return
    names = ["the paper's stage" if s is None else f"epsilon {s:g}" for s in stages]
    inside = [
        f"| row | method | {' | '.join(names)} |",
        f"|{'---|' * (2 + len(names))}",
        *rows,
        "",
        f"Grids: {'; '.join(_grids(entry))}.\n",
    ]
    title = "Chosen settings (oracle-tuned on the selection seed; * at the edge of the grid)"
    yield from folded(title, inside)


def folded(title: str, inside: Iterable[str]) -> Iterator[str]:
    """A part that a reader opens; on the site and on a hosting platform."""
    yield f'<details markdown="1">\n<summary>{title}</summary>\n'
    yield from inside
    yield "</details>\n"


def _printed(entry: Entry, line: Line) -> str:
    if line.printed is None:
        return NOTHING
    spread = f" ± {entry.quantity.show(line.printed.std)}" if line.printed.std is not None else ""
    return entry.quantity.show(line.printed.value) + spread


def _numbers(entry: Entry, cell: Cell | None) -> str:
    if cell is None:
        return NOTHING
    if cell.failed:
        return "not possible"
    if not math.isfinite(cell.mean):
        return "diverges"
    show = entry.quantity.show
    return show(cell.mean) + (f" ± {show(cell.std)}" if len(cell.values) > 1 else "")


def _epsilon(cell: Cell | None) -> str:
    if cell is None:
        return NOTHING
    return "none" if math.isinf(cell.epsilon) else rounded_up(cell.epsilon, 4)


def _grid(line: Line, stage: Stage) -> Any:
    return line.grid if stage is None or line.honest_grid is None else line.honest_grid


def _chosen(line: Line, cell: Cell | None, stage: Stage) -> str:
    if cell is None or not cell.settings:
        return NOTHING
    grid = _grid(line, stage)
    return ", ".join(
        f"{key.split('.')[-1]} {value:g}{'*' if value in (grid[key][0], grid[key][-1]) else ''}"
        for key, value in cell.settings.items()
    )


def _grids(entry: Entry) -> list[str]:
    found = dict.fromkeys(
        f"{key.split('.')[-1]} in {{{', '.join(f'{v:g}' for v in values)}}}"
        for line in entry.lines
        for grid in (line.grid, line.honest_grid or {})
        for key, values in grid.items()
    )
    return list(found)
