"""The pictures of the demonstrations, drawn from their stored numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Distinguishable for colour-blind readers, as in the other pictures of Tacit.
COLOURS = {
    "without privacy": "#D55E00",
    "epsilon 8": "#0072B2",
    "epsilon 1": "#009E73",
}
# Darker than the attacks, on which they may lie, and with dashes of their own.
BOUNDS: Any = {"epsilon 8": ("#00304d", (0, (4, 2))), "epsilon 1": ("#00402c", (0, (1, 1)))}
_STYLE: Any = {"font.size": 11}
_TERMS = "one record is protected, delta 1e-5"


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _trade_off(axes: Any, rows: Sequence[dict[str, Any]], title: str) -> None:
    """Measured curves, and the exact bounds as dashes."""
    for row in rows:
        curve, colour = row["curve"], COLOURS[row["name"]]
        axes.loglog(
            curve["false_positives"],
            np.maximum(curve["true_positives"], 1e-9),
            color=colour,
            linewidth=2,
            label=f"{row['name']}: attack",
        )
        if row["name"] != "without privacy":
            axes.loglog(
                curve["false_positives"],
                curve["at_most"],
                color=BOUNDS[row["name"]][0],
                linewidth=2,
                linestyle=BOUNDS[row["name"]][1],
                zorder=3,  # where attack and bound coincide, both can be seen
                label=f"{row['name']}: no attack is above",
            )
    axes.loglog([1e-4, 1], [1e-4, 1], color="#777777", linewidth=1, linestyle=":", label="guessing")
    axes.set_xlim(4e-4, 1)
    axes.set_ylim(4e-4, 1.2)
    axes.set_xlabel("false alarms (share of non-members accused)")
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def model(found: dict[str, Any], path: Path) -> None:
    """Membership from the released model."""
    figure = _figure(7.0, 5.0)
    axes = figure.subplots()
    terms = f"{_TERMS}, replace-one, trusted server"
    _trade_off(axes, found["rows"], f"Was this record used? From the model\n({terms})")
    axes.set_ylabel("members recognised")
    axes.legend(frameon=False, fontsize=10)
    figure.savefig(path, dpi=130)


def messages(found: dict[str, Any], path: Path) -> None:
    """Membership from messages, for two attackers."""
    figure = _figure(10.0, 5.0)
    panels = figure.subplots(1, 2, sharey=True)
    titles = {
        "stranger": "The server knows the record alone",
        "insider": "The server knows all other records too",
    }
    for axes, (attacker, title) in zip(panels, titles.items(), strict=True):
        _trade_off(axes, [r for r in found["rows"] if r["attacker"] == attacker], title)
    panels[0].set_ylabel("members recognised")
    panels[1].legend(frameon=False, fontsize=10, loc="lower right")
    terms = f"{_TERMS}, zero-out, against the server"
    figure.suptitle(f"Was this record at the site? From five messages ({terms})", fontsize=11)
    figure.savefig(path, dpi=130)


def _grid(figure: Any, title: str, rows: Sequence[tuple[str, list[list[int]]]], side: int) -> None:
    panels = figure.subplots(len(rows), len(rows[0][1]), gridspec_kw={"wspace": 0, "hspace": 0})
    for line, (name, images) in zip(panels, rows, strict=True):
        for axes, image in zip(line, images, strict=True):
            axes.imshow(np.reshape(image, (side, side)), cmap="gray_r", vmin=0, vmax=255)
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set_color("#cccccc")
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", labelpad=8)
    figure.suptitle(title, fontsize=11)


def reconstruction(found: dict[str, Any], path: Path) -> None:
    """Originals and what was read, for sites of one record and of several."""
    figure = _figure(8.4, 8.6)
    parts = figure.subfigures(2, 1, hspace=0.04)
    for part, alone in zip(parts, (True, False), strict=True):
        rows = [r for r in found["rows"] if (r["records_of_the_site"] == 1) == alone]
        several = rows[0]["records_of_the_site"]
        title = (
            "A site with one record, an honest model"
            if alone
            else f"A site with {several} records, a model that the server chose"
        )
        shown = [("original", found["originals"]), *((r["name"], r["images"]) for r in rows)]
        _grid(part, f"{title}\n({_TERMS}, replace-one, against the server)", shown, found["side"])
    figure.savefig(path, dpi=110)


def printed_images(found: dict[str, Any], path: Path) -> None:
    """What messages at "epsilon 15.66 per round" show of an image."""
    figure = _figure(8.4, 4.2)
    names = (
        "one message,\nprinted noise",
        "50 messages,\nprinted noise",
        "50 messages,\n15.66 in all",
    )
    rows = [(name, row["images"]) for name, row in zip(names, found["rows"], strict=True)]
    title = (
        'Images read from messages at "epsilon 15.66"\n'
        "(one client is protected, delta 1e-5, replace-one, against the server)"
    )
    _grid(figure, title, [("original", found["originals"]), *rows], found["side"])
    figure.savefig(path, dpi=110)


def rounds(found: dict[str, Any], path: Path) -> None:
    """How fast a server becomes certain."""
    styles = (
        ("#D55E00", "o", "DP-FedEXP, printed Gaussian noise"),
        ("#CC79A7", "s", "DP-FedEXP, printed PrivUnit"),
        ("#E69F00", "^", "AdaptDP's baseline, printed noise"),
        ("#0072B2", "D", "DP-FedEXP, epsilon 15.66 over the run (delta 1e-5)"),
    )
    figure = _figure(7.6, 4.6)
    axes = figure.subplots()
    for row, (colour, marker, label) in zip(found["rows"], styles, strict=True):
        points = row["by_rounds"]
        seen = [p["rounds"] for p in points]
        axes.plot(
            seen,
            [p["true_positives"] for p in points],
            color=colour,
            marker=marker,
            linestyle="none",
            label=label,
        )
        if points[0]["at_most"] is not None:
            axes.plot(seen, [p["at_most"] for p in points], color=colour, linewidth=1.5)
    axes.plot([], [], color="#444444", linewidth=1.5, label="exact bound (Gaussian noise)")
    axes.set_xscale("log")
    ticks = (1, 2, 5, 10, 20, 50, 150)
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, 1.04)
    axes.set_xlabel("rounds that the server has seen")
    axes.set_ylabel("recognised at 0.1 % false alarms")
    title = "What a server learns about one client (AdaptDP: about one record)"
    terms = "neighbours: replace-one, at opposite ends of the bound; against the server"
    axes.set_title(f"{title}\n({terms})", loc="left", fontsize=11)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=10, loc="upper right", bbox_to_anchor=(1, 0.9))
    figure.savefig(path, dpi=130)


DRAWN = {
    "model-membership": (model, "attacks-model.png"),
    "message-membership": (messages, "attacks-messages.png"),
    "reconstruction": (reconstruction, "attacks-images.png"),
    "printed-settings": (rounds, "attacks-rounds.png"),
    "printed-images": (printed_images, "attacks-printed.png"),
}


def draw(name: str, found: dict[str, Any], folder: Path) -> Path:
    """Draw the picture of one demonstration."""
    import matplotlib as mpl

    function, file = DRAWN[name]
    with mpl.rc_context(_STYLE):
        function(found, folder / file)
    return folder / file
