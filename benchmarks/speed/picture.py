"""A plot of the results: seconds per round by side (wall and CPU), and the machine's limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

STYLES: dict[str, dict[str, Any]] = {
    "wall": {"label": "wall", "color": "#00695c", "fmt": "o", "markersize": 6},
    "cpu": {"label": "CPU", "color": "#ef6c00", "fmt": "s", "markersize": 5, "mfc": "white"},
}


def draw(found: dict[str, Any], path: Path) -> None:
    """Plot all sides of every work."""
    works = {n: w for n, w in sorted(found["works"].items()) if _sides(w)}
    if not works:
        return
    heights = [len(_sides(work)) + 0.8 for work in works.values()]
    figure = Figure(figsize=(8, 0.55 * sum(heights) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(works), 1, height_ratios=heights, squeeze=False)
    peak = max(found["gemm_gflops"].values())
    for axes, (name, work) in zip(grid[:, 0], works.items(), strict=True):
        _bars(axes, name, work, peak)
    grid[0, 0].legend(loc="lower right", frameon=False, fontsize=8, ncols=3)
    grid[-1, 0].set_xlabel("seconds per round (median and quartiles; logarithmic)")
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """The same bytes from the same data."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def _bars(axes: Axes, name: str, work: dict[str, Any], peak: float) -> None:
    sides = _sides(work)
    for number, (side, result) in enumerate(sides.items()):
        for offset, (what, style) in zip((-0.12, 0.12), STYLES.items(), strict=True):
            spread = result["per_round"][what]
            error = [[spread["median"] - spread["low"]], [spread["high"] - spread["median"]]]
            shown = style if number == 0 else {**style, "label": None}
            axes.errorbar(spread["median"], number + offset, xerr=error, **shown)
        ratio = work.get("ratios", {}).get(side)
        if ratio:
            high = max(result["per_round"][what]["high"] for what in STYLES)
            note = f"   {ratio['wall']:.1f}x wall, {ratio['cpu']:.1f}x CPU"
            axes.text(high, number, note, va="center", fontsize=8)
    if work["gflop"] > 0.1:
        limit = work["gflop"] / peak
        axes.axvline(limit, color="#c62828", linewidth=1, linestyle=":", label="GEMM peak")
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.5, high * 8)
    axes.set_ylim(-0.5, len(sides) - 0.5)
    axes.grid(axis="x", color="#eceff1")
    axes.set_yticks(range(len(sides)), list(sides))
    axes.invert_yaxis()
    axes.set_title(f"{name}: {work['title']}", fontsize=9, loc="left")
    axes.tick_params(labelsize=8, which="both")
    for place in ("top", "right"):
        axes.spines[place].set_visible(False)


def _sides(work: dict[str, Any]) -> dict[str, Any]:
    return {name: side for name, side in work["sides"].items() if "per_round" in side}
