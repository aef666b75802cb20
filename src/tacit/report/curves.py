"""Plots of training: metrics over rounds, and the path of the model in two dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tacit.measurements import Row

# Distinguishable for colour-blind readers, and by their dashes in black and white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", "-.", ":")
_STYLE: Any = {"font.size": 11, "svg.fonttype": "none"}


def draw_curves(
    runs: Mapping[str, Sequence[Row]], metric: str, path: str | Path, title: str
) -> Path:
    """Write a PNG or SVG with the metric of every run over its rounds."""
    lines = {name: _points(rows, metric) for name, rows in runs.items()}
    return _draw(lines, path, title, metric)


def draw_metrics(
    rows: Sequence[Row], metrics: Mapping[str, str], path: str | Path, title: str, label: str
) -> Path | None:
    """Plot several metrics of one run over its rounds; None if the run has none of them."""
    lines = {name: _points(rows, metric) for metric, name in metrics.items()}
    present = {name: points for name, points in lines.items() if points}
    return _draw(present, path, title, label) if present else None


def draw_trajectory(models: Sequence[NDArray[np.float64]], path: str | Path, title: str) -> Path:
    """Plot the path of the model in the plane of its first two principal components."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    stacked = np.stack(models)
    centred = stacked - stacked.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    flat = centred @ directions[:2].T
    if flat.shape[1] < 2:
        flat = np.column_stack([flat, np.zeros(len(flat))])
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(5.6, 5.0), layout="constrained")
        axes = _axes(figure, title)
        axes.plot(flat[:, 0], flat[:, 1], color=_COLOURS[0], linewidth=1.5, marker=".")
        axes.plot(*flat[0], marker="o", color=_COLOURS[2], linestyle="none", label="start")
        axes.plot(*flat[-1], marker="s", color=_COLOURS[1], linestyle="none", label="end")
        axes.set_xlabel("first principal direction")
        axes.set_ylabel("second principal direction")
        axes.legend(frameon=False)
        figure.savefig(Path(path), dpi=150)
    return Path(path)


def _points(rows: Sequence[Row], metric: str) -> list[tuple[int, float]]:
    return [(row.round, row.value) for row in rows if row.metric == metric]


def _draw(
    lines: Mapping[str, list[tuple[int, float]]], path: str | Path, title: str, label: str
) -> Path:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.0, 4.2), layout="constrained")
        axes = _axes(figure, title)
        for number, (name, points) in enumerate(lines.items()):
            axes.plot(
                *zip(*points, strict=True),
                label=name,
                color=_COLOURS[number % len(_COLOURS)],
                linestyle=_DASHES[number % len(_DASHES)],
                linewidth=2,
            )
        axes.set_xlabel("round")
        axes.set_ylabel(label)
        axes.legend(frameon=False)
        figure.savefig(Path(path), dpi=150)
    return Path(path)


def _axes(figure: Any, title: str) -> Any:
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return axes
