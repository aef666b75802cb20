"""A plot of an attack against the trade-off curve that a guarantee allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TradeOff:
    """True positives at rates of false positives: the most that is allowed, and an attack's."""

    title: str
    rates: Sequence[float]
    allowed: Sequence[float]
    measured: Sequence[tuple[float, float]]  # intervals
    confidence: float
    shown: tuple[float, float]  # the rates that prove the lower bound on epsilon
    epsilon: float


def draw_trade_off(found: TradeOff, path: str | Path) -> Path:
    """Plot true over false positives: what is allowed, what was measured, and its proof."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rates, least = found.rates, min(found.rates)
    with mpl.rc_context({"font.size": 11}):
        figure = Figure(figsize=(6.4, 4.8), layout="constrained")
        axes = figure.subplots()
        axes.plot(rates, found.allowed, color="#D55E00", linewidth=2, label="allowed, at most")
        axes.fill_between(
            rates,
            [low for low, _ in found.measured],
            [high for _, high in found.measured],
            color="#0072B2",
            alpha=0.35,
            linewidth=0,
            label=f"this attack ({found.confidence:.0%} intervals)",
        )
        axes.plot(rates, rates, color="#666666", linestyle=":", label="guessing")
        axes.plot(
            *found.shown,
            marker="o",
            color="#000000",
            linestyle="none",
            label=f"shows epsilon of at least {found.epsilon:.3g}",
        )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(least, 1)
        axes.set_ylim(least, 1.05)
        axes.set_xlabel("false positives")
        axes.set_ylabel("true positives")
        axes.set_title(found.title, loc="left", fontsize=11)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="lower right")
        figure.savefig(Path(path), dpi=150)
    return Path(path)
