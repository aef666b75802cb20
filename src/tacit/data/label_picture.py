"""A plot of the label counts of every client.

Label counts of clients are private: use this in simulations only, with all data on one machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.federation import Federation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMED = 40
_SHOWN = 1000
_DISTINCT = 20
_LEVELS = 400


def label_counts(federation: Federation) -> NDArray[np.int64]:
    """Records of each client (rows) by label (columns); one column if there are no labels."""
    labels = federation.records.get("y")
    if not federation.classes or labels is None or labels.ndim != 1:
        return federation.sizes[:, None].copy()
    owner = np.repeat(np.arange(federation.clients), federation.sizes)
    cell = owner * federation.classes + labels.astype(np.int64)
    counts = np.bincount(cell, minlength=federation.clients * federation.classes)
    return counts.reshape(federation.clients, federation.classes)


def who_holds_what(federation: Federation) -> Figure:
    """Stacked bars of label counts: named bars for few clients, a dense sorted plot for many.

    With more than 1,000 clients, 1,000 evenly spaced ones of the sorted clients are drawn.
    """
    from matplotlib.figure import Figure

    counts = label_counts(federation)
    few = federation.clients <= _NAMED
    figure = Figure(figsize=(8, 1.4 + 0.24 * federation.clients) if few else (10, 4.5), dpi=120)
    axes = figure.add_subplot()
    if few:
        _named_bars(axes, counts, federation.names)
    else:
        _dense_band(axes, counts)
    axes.set_title(_title(federation), fontsize=11, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    _legend(figure, axes, counts.shape[1])
    figure.tight_layout()
    return figure


def _named_bars(axes: Any, counts: NDArray[np.int64], names: tuple[str, ...]) -> None:
    places = np.arange(len(counts))
    left = np.zeros(len(counts))
    for label, column in enumerate(counts.T):
        axes.barh(places, column, left=left, height=0.8, color=_colour(label, counts.shape[1]))
        left += column
    axes.set_yticks(places, [n if len(n) <= 24 else n[:21] + "..." for n in names], fontsize=8)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.set_xlabel("records")


def _dense_band(axes: Any, counts: NDArray[np.int64]) -> None:
    # if clients have a main label, those with the same one are neighbours, the largest first
    size = counts.sum(axis=1)
    led = bool(np.median(counts.max(axis=1) / size) > 2 / counts.shape[1])
    order = np.lexsort((-size, counts.argmax(axis=1))) if led else np.argsort(-size, kind="stable")
    if len(order) > _SHOWN:
        order = order[np.linspace(0, len(order) - 1, _SHOWN).astype(np.int64)]
    shown = counts[order]
    tops = np.cumsum(shown, axis=1)
    highest = tops[:, -1].max() * 1.02
    levels = (np.arange(_LEVELS) + 0.5) * highest / _LEVELS
    label = np.stack([np.searchsorted(top, levels, side="right") for top in tops], axis=1)
    colours = [_colour(i, counts.shape[1])[:3] for i in range(counts.shape[1])]
    axes.imshow(
        np.array([*colours, (1.0, 1.0, 1.0)])[label],
        extent=(-0.5, len(shown) - 0.5, 0, highest),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
    )
    note = "" if len(shown) == len(counts) else f", {len(shown)} of {len(counts)} shown"
    axes.set_xlabel(f"clients, sorted by {'main label and size' if led else 'size'}{note}")
    axes.set_ylabel("records")


def _colour(label: int, labels: int) -> Any:
    import matplotlib

    if labels <= _DISTINCT:
        return matplotlib.colormaps["tab10" if labels <= 10 else "tab20"](label)
    return matplotlib.colormaps["turbo"](label / (labels - 1))


def _legend(figure: Figure, axes: Any, labels: int) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.patches import Patch

    if labels == 1:
        return
    if labels <= _DISTINCT:
        patches = [Patch(color=_colour(i, labels), label=str(i)) for i in range(labels)]
        axes.legend(
            handles=patches,
            title="label",
            bbox_to_anchor=(1.01, 1),
            loc="upper left",
            frameon=False,
            fontsize=8,
            title_fontsize=8,
        )
        return
    shades = ScalarMappable(Normalize(0, labels - 1), "turbo")
    figure.colorbar(shades, ax=axes, label="label", pad=0.02)


def _title(federation: Federation) -> str:
    low, high = int(federation.sizes.min()), int(federation.sizes.max())
    each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return (
        f"{federation.title}: {federation.clients:,} clients, "
        f"{int(federation.sizes.sum()):,} records, {each} each"
    )
