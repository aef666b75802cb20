"""The plots in the folder of a run, for the metrics that it has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.measurements import Row
from tacit.report.curves import draw_curves, draw_metrics, draw_trajectory

_HEADLINES = (
    "test/accuracy",
    "test/loss",
    "oracle/held_out/accuracy",
    "oracle/distance",
    "oracle/accuracy",
    "oracle/loss",
)
_RADIUS = {"server/radius": "clip radius C_r", "oracle/gradient_rms": "root-mean-square norm"}
_STEPS = {"server/step_size": "step taken", "oracle/target_step": "step without noise"}
_RATIO = {"oracle/signal_to_noise": "signal to noise"}


def draw_run(
    rows: Sequence[Row],
    trajectory: Sequence[NDArray[np.float64]],
    folder: Path,
    name: str,
    title: str,
) -> list[Path]:
    """Plot the main metric and the quantities of the method: radius, ratios, steps, path."""
    drawn: list[Path | None] = []
    measured = list(dict.fromkeys(row.metric for row in rows))
    headline = next((m for m in _HEADLINES if m in measured), None)
    if headline is not None:
        drawn.append(draw_curves({name: rows}, headline, folder / "curves.png", title))
    quantiles = {m: m.removeprefix("oracle/") for m in measured if "/tau_" in m}
    for metrics, file, label in (
        (_RADIUS, "radius.png", "norm"),
        (quantiles, "ratios.png", "quantile over mean of squared norms"),
        (_STEPS, "steps.png", "server's step size"),
        (_RATIO, "signal.png", "signal to noise of a round"),
    ):
        shown = {m: label_ for m, label_ in metrics.items() if m in measured}
        if "oracle/gradient_rms" in shown and "server/radius" not in shown:
            continue
        drawn.append(draw_metrics(rows, shown, folder / file, title, label))
    if len(trajectory) > 2:
        drawn.append(draw_trajectory(trajectory, folder / "trajectory.png", title))
    return [path for path in drawn if path is not None]
