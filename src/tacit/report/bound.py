"""A plot of ScaffNew's error bound over the number of iterations, for one budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tacit.accounting import Budget
    from tacit.schedules.scaffnew import ScaffNewProblem


def draw_bound(problem: ScaffNewProblem, budget: Budget, path: Path) -> Path:
    """Plot the bound on psi_T over T, its start, and T* if it is positive."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from tacit.schedules.scaffnew import bound_curve, scaffnew_plan

    plan = scaffnew_plan(problem, budget.epsilon, budget.delta)
    last = max(10.0, 5 * plan.iterations, 3 * problem.smoothness / problem.strong_convexity)
    iterations = sorted({int(t) for t in np.geomspace(1, last, 200)})
    with mpl.rc_context({"font.size": 11}):
        figure = Figure(figsize=(7.0, 4.2), layout="constrained")
        axes = figure.subplots()
        curve = bound_curve(problem, budget.epsilon, budget.delta, iterations)
        axes.loglog(iterations, curve, color="#0072B2", linewidth=2, label="bound")
        axes.axhline(problem.psi0, color="#000000", linestyle=":", label="before training")
        if plan.iterations > 0:
            axes.axvline(
                plan.iterations,
                color="#D55E00",
                linestyle="--",
                label=f"T* = {plan.iterations:.0f}",
            )
        axes.set_xlabel("iterations T")
        axes.set_ylabel("bound on the squared error")
        title = f"DP-ScaffNew at epsilon {budget.epsilon:g}, delta {budget.delta:g}"
        axes.set_title(title, loc="left", fontsize=11)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        figure.savefig(path, dpi=150)
    return path
