"""The picture of the README and the home page, from stored results.

Left: the epsilon that a paper prints, and the true one of the whole run. Right: accuracy over the
total epsilon, at equal honest privacy, and what the paper printed.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, NamedTuple

from experiments.reproduce.catalogue import ENTRIES
from experiments.reproduce.store import Store
from experiments.reproduce.summary import Summary
from tacit.accounting.guarantee import rounded_up

_TRUE, _PRINTED, _AUTO, _OTHER = "#D55E00", "#0072B2", "#009E73", "#CC79A7"
_STYLE: Any = {"font.size": 11, "svg.fonttype": "path", "svg.hashsalt": "tacit"}
_FMNIST = "norm/table2-fmnist"


class Claim(NamedTuple):
    """A printed setting: its name, the printed epsilon (None if there is none), the true one."""

    name: str
    printed: float | None
    true: float


# name, entry, row, method, printed epsilon; the claims of the entries' own lines are compared.
_CLAIMS: tuple[tuple[str, str, str, str, float | None], ...] = (
    ("AdaptDP-FedAvg, MNIST, level 1", "adaptdp/table2-t3", "T3 MNIST, Lv.1", "DP-FedAvg", None),
    ("DP-FedEXP, local, PrivUnit", "fedexp/table4", "LDP (PrivUnit)", "DP-FedEXP", 6),
    ("DP-FedEXP, local, Gaussian", "fedexp/table4", "LDP (Gaussian)", "DP-FedEXP", 15.659),
    ("DP-FedEXP, central", "fedexp/table4", "CDP", "DP-FedEXP", 15.261),
    (
        "DP-ScaffNew, v = 1 assumed",
        "scaffnew/figure12",
        "1 local steps",
        "DP-ScaffNew, clip 1",
        3.3,
    ),
    ("Dynamic LDP, MNIST", "dynamic/figure3", "(1, 0.0001)", "dynamic LDP, 1000 rounds", 1),
)


def claims(store: Store) -> list[Claim]:
    """The printed and the true epsilon of settings of all papers that allow the comparison."""
    found = []
    for name, entry, row, method, printed in _CLAIMS:
        line = next(x for x in ENTRIES[entry].lines if (x.row, x.method) == (row, method))
        stated = printed is None or f"{printed:g}" in line.claimed
        assert stated, f"{name}: {line.claimed} does not say {printed}"
        cell = Summary(ENTRIES[entry], store).cell(row, method, None)
        if cell is not None:
            found.append(Claim(name, printed, cell.epsilon))
    return found


def curves(store: Store, auto: list[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """Accuracy on Fashion-MNIST (pixels, 3,000 clients) over the total epsilon."""
    from experiments.studies.auto_targets import TARGETS, newest

    entry = ENTRIES[_FMNIST]
    summary = Summary(entry, store)
    found: dict[str, list[tuple[float, float]]] = {"auto": []}
    for epsilon in TARGETS["A"].promised:
        values = [row["accuracy"] for row in newest(auto, "A", epsilon)]
        if values:
            found["auto"].append((epsilon, statistics.fmean(values)))
    for method in ("normalise", "clip"):
        points = found.setdefault(method, [])
        for line in entry.lines:
            if line.method != method:
                continue
            for stage in entry.stages(line):
                cell = summary.cell(line.row, method, stage)
                if cell is not None:
                    points.append((stage or cell.epsilon, cell.mean))
            if line.printed is not None:
                stated = float(line.row.removeprefix("epsilon "))
                found.setdefault(f"{method}, printed", []).append((stated, line.printed.value))
    return {name: sorted(points) for name, points in found.items()}


def draw(store: Store, auto: list[dict[str, Any]], path: Path) -> Path:
    """Write the picture as SVG, with a light ground of its own: readable on light and dark."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1, wspace=0.06)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(11, 4.2), layout=layout, facecolor="white")
        left, right = figure.subplots(1, 2, width_ratios=(1.12, 1))
        _draw_claims(left, claims(store))
        _draw_curves(right, curves(store, auto))
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
            axes.title.set_fontsize(12)
            axes.title.set_fontweight("bold")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
    return path


def _draw_claims(axes: Any, found: list[Claim]) -> None:
    for place, claim in enumerate(reversed(found)):
        if claim.printed is not None:
            axes.plot([claim.printed, claim.true], [place, place], color="#999999", linewidth=2)
            axes.plot(claim.printed, place, "o", color=_PRINTED, markersize=9, zorder=3)
        axes.plot(claim.true, place, "D", color=_TRUE, markersize=9, zorder=3)
        axes.annotate(
            rounded_up(claim.true, 4),
            (max(claim.true, claim.printed or 0.0), place),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            fontsize=10,
        )
        if claim.printed is None:
            axes.annotate(
                "no epsilon printed",
                (claim.true, place),
                xytext=(-11, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                fontsize=9,
                color="#555555",
            )
    axes.plot([], [], "o", color=_PRINTED, markersize=9, label="printed in the paper")
    axes.plot([], [], "D", color=_TRUE, markersize=9, label="true, for the whole run")
    axes.set_xscale("log")
    axes.set_xlim(0.4, 20_000)
    axes.set_ylim(-0.6, len(found) - 0.4)
    axes.set_xticks([1, 10, 100, 1000, 10_000], ["1", "10", "100", "1,000", "10,000"])
    axes.set_yticks(range(len(found)), [claim.name for claim in reversed(found)])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("epsilon (a larger one protects less)")
    axes.set_title("What papers print, and what is true")
    axes.legend(frameon=False, fontsize=10, loc="lower right")


def _draw_curves(axes: Any, found: dict[str, list[tuple[float, float]]]) -> None:
    looks = {
        "auto": (_AUTO, "-", "o", "auto: nothing to tune"),
        "normalise": (_TRUE, "--", "s", "DP-NormFedAvg, tuned by an oracle"),
        "clip": (_OTHER, "-.", "^", "clipping, tuned by an oracle"),
        "normalise, printed": (_PRINTED, ":", "D", "DP-NormFedAvg, as printed"),
    }
    for name, (colour, dashes, mark, label) in looks.items():
        points = found.get(name, [])
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            color=colour,
            linestyle=dashes,
            marker=mark,
            markersize=7,
            linewidth=2,
            label=label,
        )
    axes.set_xscale("log")
    axes.set_xticks([1, 2, 5, 8], ["1", "2", "5", "8"])
    axes.minorticks_off()
    axes.set_ylim(54, 103)  # room for the names
    axes.set_yticks([60, 70, 80, 90])
    axes.grid(color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("epsilon of a client, for the whole run")
    axes.set_ylabel("test accuracy, %")
    axes.set_title("Fashion-MNIST over 3,000 clients")
    axes.legend(frameon=False, fontsize=10, loc="upper left")
