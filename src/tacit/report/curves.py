"""A picture of training: a metric over rounds, one line for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tacit.run.folder import Row

# Distinguishable with any colour vision, and in print by their dashes.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", "-.", ":")


def draw_curves(
    runs: Mapping[str, Sequence[Row]], metric: str, path: str | Path, title: str
) -> Path:
    """Write a PNG or SVG with the metric of every run over its rounds."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 11, "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.0, 4.2), layout="constrained")
        axes = figure.subplots()
        for number, (name, rows) in enumerate(runs.items()):
            points = [(row.round, row.value) for row in rows if row.metric == metric]
            axes.plot(
                *zip(*points, strict=True),
                label=name,
                color=_COLOURS[number % len(_COLOURS)],
                linestyle=_DASHES[number % len(_DASHES)],
                linewidth=2,
            )
        axes.set_xlabel("round")
        axes.set_ylabel(metric)
        axes.set_title(title, loc="left", fontsize=11)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        target = Path(path)
        figure.savefig(target, dpi=150)
    return target
