"""The figures of the results page: vector graphics, readable in print and on a phone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.reproduce.entry import Entry, Figure, Stage
from experiments.reproduce.summary import Cell, Summary
from tacit.report.curves import _COLOURS, _DASHES, _STYLE, _axes

_FEW = 5  # with more curves in a panel, spreads are not drawn
_NAMES_A_ROW = 4
_MARKS = ("o", "s", "^", "D", "v", "P", "X")


def draw(entry: Entry, figure: Figure, summary: Summary, path: Path) -> bool:
    """Write an SVG; False if there is nothing to show yet."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    found = (
        _row_panels(figure, summary) if figure.kind == "rows" else _round_panels(figure, summary)
    )
    if not found:
        return False
    columns = min(2, len(found))
    lines = math.ceil(len(found) / columns)
    most = max(len(curves) for _, curves in found)
    foot = 0.25 * math.ceil(most / _NAMES_A_ROW) + 0.1 if most > _FEW else 0.0
    with mpl.rc_context({**_STYLE, "svg.hashsalt": entry.name}):
        canvas = Canvas(figsize=(4.4 * columns, 3.4 * lines + foot), layout="constrained")
        rows = canvas.subfigures(
            2 if foot else 1, 1, squeeze=False, height_ratios=(3.4 * lines, foot)[: 1 + bool(foot)]
        ).ravel()
        grid = rows[0].subfigures(lines, columns, squeeze=False).ravel()
        for place, (title, curves) in zip(grid, found, strict=False):
            axes = _axes(place, title)
            _plot(axes, curves, bands=not foot)
            axes.set_xlabel(figure.xlabel)
            axes.set_ylabel(figure.ylabel)
            if "x" in figure.log:
                _logarithmic(axes.xaxis, axes.set_xscale)
            if "y" in figure.log:
                _logarithmic(axes.yaxis, axes.set_yscale)
            if not foot:
                axes.legend(frameon=False, fontsize=8)
        if foot:
            _names_once(canvas, rows[1])
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, metadata={"Date": None, "Creator": None})
    return True


def _names_once(canvas: Any, place: Any) -> None:
    """Put the names of many curves below the panels, where they hide no curve."""
    from matplotlib.axes import Axes

    named: dict[str, Any] = {}
    for axes in canvas.findobj(Axes):
        handles, names = axes.get_legend_handles_labels()
        named |= dict(zip(names, handles, strict=True))
    place.legend(
        list(named.values()),
        list(named),
        loc="center",
        ncols=_NAMES_A_ROW,
        frameon=False,
        fontsize=8,
    )


Curve = tuple[str, Sequence[float], Any, Any]  # name, x, mean, spread
Panel = tuple[str, list[Curve]]


def _logarithmic(axis: Any, set_scale: Any) -> None:
    """A logarithmic axis, with plain numbers if they are short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    set_scale("log")
    low, high = axis.get_view_interval()
    if high < 100 * low:
        wide = high > 10 * low
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if wide else (1, 1.5, 2, 3, 5, 7)))
        axis.set_minor_formatter(NullFormatter())
    if low >= 1e-3 and high <= 1e4:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _plot(axes: Any, curves: list[Curve], *, bands: bool) -> None:
    for number, (name, x, mean, spread) in enumerate(curves):
        colour = _COLOURS[number % len(_COLOURS)]
        axes.plot(
            x,
            mean,
            label=name,
            color=colour,
            linestyle=_DASHES[number % len(_DASHES)],
            marker=_MARKS[number % len(_MARKS)] if len(x) < 20 else None,
            markersize=4,
            linewidth=1.8,
        )
        if bands:
            axes.fill_between(
                x, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0
            )


def _row_panels(figure: Figure, summary: Summary) -> list[Panel]:
    """The methods over the rows: a panel for each stage, or the figure's own panels."""
    if figure.panels:
        drawn = [
            (title, _short(_row_curves(summary, figure.stage, methods)))
            for title, methods in figure.panels.items()
        ]
    else:
        everyone = tuple(line.method for line in summary.entry.lines)
        stages = (None, *summary.entry.budgets)
        drawn = [(_stage_title(stage), _row_curves(summary, stage, everyone)) for stage in stages]
    return [(title, curves) for title, curves in drawn if curves]


def _row_curves(summary: Summary, stage: Stage, methods: tuple[str, ...]) -> list[Curve]:
    points: dict[str, list[tuple[float, Cell]]] = {}
    for line in summary.entry.lines:
        cell = summary.cell(line.row, line.method, stage)
        if cell is None or line.x is None or line.method not in methods:
            continue
        if math.isfinite(cell.mean):
            points.setdefault(line.method, []).append((line.x, cell))
    return [_over_rows(method, found) for method, found in points.items()]


def _short(curves: list[Curve]) -> list[Curve]:
    """The curves with the common prefix of their names removed; the last part is kept."""
    parts = [name.split(", ") for name, *_ in curves]
    shared = 0
    for heads in zip(*(names[:-1] for names in parts), strict=False):
        if len(set(heads)) > 1:
            break
        shared += 1
    names = [", ".join(own[shared:]) for own in parts]
    return [(name, *rest) for name, (_, *rest) in zip(names, curves, strict=True)]


def _over_rows(method: str, found: list[tuple[float, Cell]]) -> Curve:
    found = sorted(found, key=lambda point: point[0])
    mean = np.array([cell.mean for _, cell in found])
    return method, [x for x, _ in found], mean, np.array([cell.std for _, cell in found])


def _round_panels(figure: Figure, summary: Summary) -> list[Panel]:
    """One panel per row: methods, or several metrics of one method, over the rounds."""
    panels: list[Panel] = []
    for row in figure.rows or summary.rows:
        curves: list[Curve] = []
        for line in summary.entry.lines:
            if line.row != row or (figure.methods and line.method not in figure.methods):
                continue
            cell = summary.cell(row, line.method, figure.stage)
            if cell is None:
                continue
            curves += [
                curve
                for metric, label in figure.metrics.items()
                if (curve := _over_rounds(cell, metric, label or line.method)) is not None
            ]
        if curves:
            panels.append((row, curves))
    return panels


def _over_rounds(cell: Cell, metric: str, name: str) -> Curve | None:
    kept = [record for record in cell.records if record.curves.get(metric)]
    if not kept:
        return None
    values = np.array([curve for record in kept for curve in record.curves[metric]], float)
    looks, seen = np.array(kept[0].looks), np.isfinite(values).all(axis=0)
    if not seen.any():
        return None
    return name, looks[seen].tolist(), values.mean(axis=0)[seen], values.std(axis=0)[seen]


def _stage_title(stage: Stage) -> str:
    return "The paper's settings" if stage is None else f"Epsilon {stage:g} for the whole run"
