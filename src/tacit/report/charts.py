"""Charts of a page: vector graphics from Matplotlib that take the colour of the page's text.

Every chart keeps its numbers beside it, as the CSV that a reader can download.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

# Distinguishable for colour-blind readers on light and on dark ground; dashes tell them apart too.
COLOURS = ("#0083c9", "#e06c00", "#009e73", "#c76a9f", "#b58900", "#6f8fd9")
_DASHES = ("-", "--", "-.", ":")
_INK = "#010203"  # replaced by the colour of the text
_STYLE: Any = {
    "font.size": 11,
    "font.family": "sans-serif",
    "svg.fonttype": "none",
    "svg.hashsalt": "tacit",
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _INK,
}
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """A picture with a title, a remark and its numbers; ``oracle``: it looks at private records."""

    name: str
    title: str
    note: str
    svg: str
    table: str
    oracle: bool = False


def lines(
    name: str,
    title: str,
    series: Mapping[str, Points],
    *,
    across: str,
    up: str,
    note: str = "",
    bands: Mapping[str, Sequence[tuple[float, float, float]]] | None = None,
    limit: tuple[str, float] | None = None,
    others: Mapping[str, Points] | None = None,
    order: Sequence[str] = (),
    log: bool = False,
    low: float | None = None,
    high: float | None = None,
    marked: bool = False,
    oracle: bool = False,
) -> Chart:
    """One line for each series; ``bands`` are (x, low, high), ``limit`` a level to stay below.

    ``others`` are lines to compare with, in the colour of the text. ``order`` gives a series the
    same colour in all charts of a page; ``marked`` shows every point;
    ``low`` and ``high`` are the ends of the upward axis.
    """

    def draw(axes: Any) -> None:
        for label, points in series.items():
            number = (list(order) or list(series)).index(label)
            colour = COLOURS[number % len(COLOURS)]
            x, y = zip(*points, strict=True)
            mark = "o" if len(points) == 1 or marked else ""
            axes.plot(
                x,
                y,
                label=_plain(label),
                gid=f"{name}-line-{number}",
                color=colour,
                linestyle=_DASHES[number % 4],
                marker=mark,
                linewidth=2,
            )
            if bands and label in bands:
                axes.fill_between(*zip(*bands[label], strict=True), color=colour, alpha=0.2, lw=0)
        for label, points in (others or {}).items():
            axes.plot(*zip(*points, strict=True), label=label, color=_INK, linestyle=":")
        if limit is not None:
            axes.axhline(limit[1], color=_INK, linestyle=":", label=limit[0])
        if across == "round":
            axes.xaxis.get_major_locator().set_params(integer=True)
        if log:
            axes.set_xscale("log")
            axes.set_yscale("log")
        margin = 0.03 * (high or 0.0)
        axes.set_ylim(bottom=None if low is None else low - margin)
        axes.set_ylim(top=None if high is None else high + margin)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        if len(series) > 1 or limit is not None or others:
            axes.legend(frameon=False)

    rows: list[Sequence[Any]] = [("series", across, up)]
    all_lines = {**series, **(others or {})}
    rows += [(label, x, y) for label, points in all_lines.items() for x, y in points]
    return Chart(name, title, note, _svg(draw, title), _csv(rows), oracle)


def matrix(
    name: str,
    title: str,
    counts: np.ndarray[Any, Any],
    labels: Sequence[str],
    note: str,
    oracle: bool,
) -> Chart:
    """A confusion matrix: true labels down, answers across, as shares of each true label."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)

    def draw(axes: Any) -> None:
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        places = range(len(labels))
        axes.set_xticks(places, labels)
        axes.set_yticks(places, labels)
        axes.set_xlabel("answer of the model")
        axes.set_ylabel("true label")
        if len(labels) <= 20:
            for row in places:
                for column in places:
                    if counts[row, column]:
                        ink = "#ffffff" if shares[row, column] > 0.55 else "#102030"
                        axes.text(
                            column,
                            row,
                            f"{int(counts[row, column])}",
                            ha="center",
                            va="center",
                            color=ink,
                            fontsize=8,
                        )
        axes.grid(False)

    rows: list[Sequence[Any]] = [("true label", *labels)]
    rows += [(label, *line.tolist()) for label, line in zip(labels, counts, strict=True)]
    return Chart(name, title, note, _svg(draw, title, (5.2, 4.8)), _csv(rows), oracle)


def spread(name: str, title: str, values: Sequence[float], across: str, note: str) -> Chart:
    """How many clients have which value; it looks at private records."""

    def draw(axes: Any) -> None:
        axes.hist(values, bins=min(20, max(5, len(values) // 3)), color=COLOURS[0])
        axes.set_xlabel(across)
        axes.set_ylabel("clients")

    rows: list[Sequence[Any]] = [("client", across)]
    rows += list(enumerate(values))
    return Chart(name, title, note, _svg(draw, title), _csv(rows), True)


def _svg(draw: Callable[[Any], None], title: str, size: tuple[float, float] = (6.4, 3.9)) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.subplots()
        axes.patch.set_alpha(0)
        axes.grid(alpha=0.2)
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    drawn = text.getvalue().partition("<svg")[2]
    drawn = re.sub(r'(width|height)="[\d.]+pt" ?', "", drawn, count=2)
    drawn = drawn.replace(_INK, "currentColor")
    drawn = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font: \1px sans-serif", drawn)
    return f'<svg role="img" aria-label="{escape(title)}"{drawn}'


def _plain(label: str) -> str:
    """A label without mathematics: the name of a folder may hold a dollar."""
    return label.replace("$", r"\$")


def _csv(rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
