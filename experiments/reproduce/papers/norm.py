"""DP-NormFedAvg (Das, Hashemi, Sanghavi and Dhillon, arXiv:2106.07094)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from experiments.reproduce.entry import Entry, Figure, Line, Quantity
from experiments.reproduce.summary import Answer, Summary, Verdict, better

NORM, CLIP = "normalise", "clip"
BOUNDS = {NORM: "normalize", CLIP: "clip"}
_STARTS = {"I1": 1.0, "I2": 0.2}
_TUNED = "I1, step and C tuned"
_STEPS, _SCALES = (0.001, 0.003), (20.0, 40.0, 50.0, 100.0)


def _quadratic(start: str, step: float, scale: float, method: str) -> dict[str, Any]:
    return {
        "data": {"name": "client-quadratics", "reader": {"start": _STARTS[start]}},
        "task": {"name": "quadratic"},
        "privacy": {"epsilon": 5.0, "delta": 1e-6},
        "algorithm": {
            "name": "dp-norm-fedavg",
            "bound": BOUNDS[method],
            "scale": scale,
            "local_steps": 20,
            "local_lr": step,
            "server_ratio": 1.0,
        },
        "train": {"rounds": 500, "block": 10},
    }


def _fixed(start: str, step: float, scale: float, method: str) -> Line:
    return Line(
        row=f"{start}, step {step:g}, C {scale:g}",
        method=method,
        config=_quadratic(start, step, scale, method),
        stages=(None,),
        x=scale,
        claimed="(5, 1e-6), constant not given",
    )


def _tuned(method: str) -> Line:
    return Line(
        row=_TUNED,
        method=method,
        config=_quadratic("I1", 0.001, 20.0, method),
        grid={
            "algorithm.local_lr": (0.001, 0.003),
            "algorithm.scale": (10.0, 20.0, 50.0, 100.0),
        },
        claimed="(5, 1e-6), constant not given",
    )


_GAP = Quantity(
    metric="oracle/suboptimality",
    label="suboptimality, mean of the last 50 rounds",
    over="mean of last",
    count=10,
    better="low",
    style=".3f",
)


def _above_and_tuned(summary: Summary) -> list[Verdict]:
    """As printed: at equal C above the updates. At honest budgets: each with its best settings."""
    above = [line.row for line in summary.entry.lines if line.x is not None and line.x >= 50]
    printed = better(summary, NORM, CLIP, list(dict.fromkeys(above)))[0]
    tuned = better(summary, NORM, CLIP, [_TUNED])
    why = f"{printed.why}; but {tuned[0].why}" if tuned[0].why else printed.why
    return [replace(printed, why=why), *tuned[1:]]


FIGURE2 = Entry(
    name="norm/figure2",
    title="Suboptimality on the quadratic (Figures 1 and 2)",
    claim="Normalising updates ends closer to the optimum than clipping them (C of 50 and 100).",
    quantity=_GAP,
    lines=tuple(
        _fixed(start, step, scale, method)
        for start in _STARTS
        for step in _STEPS
        for scale in _SCALES
        for method in BOUNDS
    )
    + tuple(_tuned(method) for method in BOUNDS),
    delta=1e-6,
    seeds=3,
    looks=5,
    keep=("oracle/suboptimality", "oracle/signal_to_noise"),
    redraw=True,
    judge=_above_and_tuned,
    figures=(
        Figure(
            name="suboptimality",
            title="C = 100 and C = 50, start I1",
            kind="rounds",
            metrics={"oracle/suboptimality": ""},
            rows=("I1, step 0.001, C 100", "I1, step 0.003, C 50"),
            ylabel="suboptimality",
            log="y",
        ),
    ),
    finding=(
        "The paper sets its noise by a theorem with an unspecified constant; here it is exact for"
        " (5, 1e-6) under zero-out with full participation (z = 21.91). The paper itself says that"
        " both methods are nearly equal for C of 40 and below, so the verdict on its settings uses"
        " C of 50 and 100 (this restriction was made after the first rows were seen). At equal C,"
        " normalising also takes larger steps, so the row where both are tuned is the fair"
        " comparison."
    ),
    minutes=12,
)


def _more_signal(summary: Summary) -> list[Verdict]:
    """The mean ratio over the rounds for both bounds, at the settings of the figure."""
    parts, good = [], True
    for row in _SHOWN:
        ratios = []
        for method in (NORM, CLIP):
            cell = summary.cell(row, method, None)
            curves = [c for r in cell.records for c in r.curves.get(_RATIO, [])] if cell else []
            if not curves:
                return [Verdict(None, "not run", "")]
            ratios.append(sum(sum(curve) / len(curve) for curve in curves) / len(curves))
        good &= ratios[0] >= 0.99 * ratios[1]
        parts.append(f"{row}: {ratios[0]:.3f} against {ratios[1]:.3f}")
    answer: Answer = "yes" if good else "no"
    return [Verdict(None, answer, "; ".join(parts), parts[0].split(": ")[1])]


_RATIO = "oracle/signal_to_noise"
_SHOWN = ("I1, step 0.001, C 100", "I1, step 0.001, C 40")

FIGURE3 = FIGURE2.view(
    name="norm/figure3",
    title="Signal-to-noise ratio over the rounds (Figure 3)",
    claim="The ratio of signal to noise is never lower for normalised updates.",
    judge=_more_signal,
    figures=(
        Figure(
            name="snr",
            title="Signal to noise, start I1",
            kind="rounds",
            metrics={_RATIO: ""},
            rows=_SHOWN,
            ylabel="norm of signal / norm of noise",
        ),
    ),
)

FIGURE1 = FIGURE2.view(
    name="norm/figure1",
    title="Suboptimality over the rounds (Figure 1, left)",
    claim="Normalising ends below clipping where C is above the updates.",
    figures=FIGURE2.figures,
)

_NEAR = Quantity(
    metric="oracle/relative_distance",
    label="distance to the optimum over that of the start",
    better="low",
    style=".3f",
)

FIGURE4 = Entry(
    name="norm/figure4",
    title="The way to the optimum (Figure 1, right, and Figure 4)",
    claim="Normalising comes closer to the optimum than clipping (C of 100 and 50).",
    quantity=_NEAR,
    lines=tuple(
        replace(_fixed("I1", step, scale, method), stages=None)
        for step, scale in ((0.001, 100.0), (0.003, 50.0))
        for method in BOUNDS
    ),
    delta=1e-6,
    seeds=3,
    looks=5,
    keep=("oracle/relative_distance",),
    redraw=True,
    judge=partial(better, first=NORM, second=CLIP),
    figures=(
        Figure(
            name="distance",
            title="Start I1, settings of the paper",
            kind="rounds",
            metrics={"oracle/relative_distance": ""},
            ylabel="distance to the optimum / start",
        ),
    ),
    finding=(
        "The paper draws smoothed projections of the paths on a plane that it does not specify."
        " Shown here is the distance to the optimum, which these plots illustrate. The honest"
        " budgets keep the paper's step and C, so they show the effect of the noise, not which"
        " method is better when tuned."
    ),
    minutes=3,
)

ENTRIES = (FIGURE1, FIGURE2, FIGURE3, FIGURE4)
