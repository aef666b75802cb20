"""The page of one reproduction: what was printed, what came out here, the true guarantees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments.reproduce.entry import Entry, Line, Stage, stage_name
from experiments.reproduce.summary import Cell, Summary
from tacit.accounting.guarantee import rounded_up
from tacit.report.charts import Chart, lines
from tacit.report.page import Page, Table, write_page

QUICK = (
    "QUICK: a few rounds and one seed. These numbers are not the paper's, nor is their epsilon;"
    " they show that the command works."
)


def write_report(entry: Entry, summary: Summary, path: Path, *, quick: bool) -> Path:
    """The page of what is stored of an entry."""
    done = [
        (line, stage, cell)
        for line in entry.lines
        for stage in entry.stages(line)
        if (cell := summary.cell(line.row, line.method, stage)) is not None
    ]
    mark = " QUICK" if quick else ""
    results = Table(
        "Results",
        ("row", "method", "stage", "true epsilon", "delta", "printed", "here", "seeds"),
        [_row(entry, *each, mark) for each in done],
        f"Here and printed: {entry.quantity.label}. The true epsilon is for the whole run; ± is"
        " the standard deviation over seeds. All runs are simulations with seeds.",
    )
    tables = [results]
    if entry.judge and not quick:
        tables.append(_claims(entry, summary))
    tables.append(_guarantees(done))
    path.parent.mkdir(parents=True, exist_ok=True)
    charts = list(_charts(entry, done))
    return write_page(
        Page(entry.title, (), [("Over the rounds", charts)], tables, QUICK if quick else ""), path
    )


Done = list[tuple[Line, Stage, Cell]]


def _row(entry: Entry, line: Line, stage: Stage, cell: Cell, mark: str) -> tuple[str, ...]:
    shown = entry.quantity.show
    spread = f" ± {shown(cell.std)}" if len(cell.values) > 1 else ""
    return (
        line.row,
        line.method,
        stage_name(stage),
        rounded_up(cell.epsilon, 4) + mark,
        f"{cell.records[0].delta:g}",
        "" if line.printed is None else shown(line.printed.value),
        (cell.failed or shown(cell.mean) + spread) + mark,
        str(len(cell.values)),
    )


def _claims(entry: Entry, summary: Summary) -> Table:
    judged = entry.judge(summary) if entry.judge else []
    rows = [
        ("the paper's settings" if v.stage is None else f"epsilon {v.stage:g}", v.answer, v.why)
        for v in judged
    ]
    return Table("Does the claim hold?", ("at", "answer", "why"), rows, entry.claim)


def _guarantees(done: Done) -> Table:
    """Each sentence once, with the lines that it holds for."""
    said: dict[str, list[str]] = {}
    for line, stage, cell in done:
        name = f"{line.row}, {line.method}, {stage_name(stage)}"
        said.setdefault(cell.records[0].guarantee or "No guarantee.", []).append(name)
    rows = [("; ".join(names), sentence) for sentence, names in said.items()]
    return Table("Guarantees", ("lines", "guarantee"), rows)


def _charts(entry: Entry, done: Done) -> Iterator[Chart]:
    """The metric of the entry over the rounds: one chart for each row and stage."""
    metric, panels = entry.quantity.metric, dict[tuple[str, str], dict[str, Cell]]()
    for line, stage, cell in done:
        if any(metric in record.curves for record in cell.records):
            panels.setdefault((line.row, stage_name(stage)), {})[line.method] = cell
    order = list(dict.fromkeys(line.method for line, _, _ in done))
    for number, ((row, name), cells) in enumerate(panels.items()):
        means, bands = {}, {}
        for method, cell in cells.items():
            found = next(record for record in cell.records if metric in record.curves)
            curves = np.asarray(found.curves[metric], float)
            means[method] = list(zip(found.looks, curves.mean(axis=0).tolist(), strict=True))
            ends = curves.min(axis=0).tolist(), curves.max(axis=0).tolist()
            bands[method] = list(zip(found.looks, *ends, strict=True))
        yield lines(
            f"curve-{number}",
            f"{row}, {name}",
            means,
            across="round",
            up=metric,
            bands=bands,
            order=order,
            note="Bands: from the worst to the best seed.",
            oracle=metric.startswith("oracle/"),
        )
