"""What comes of a run, whichever engine ran it: a model, what was measured, and the guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Guarantee
from tacit.measurements import Row
from tacit.model import Model
from tacit.planning import Plan
from tacit.preludes.base import Released
from tacit.released_scaling import Scaling
from tacit.tasks.base import Params


@dataclass(frozen=True)
class Result:
    """A trained model with its history and its guarantee."""

    params: Params
    guarantee: Guarantee
    rows: list[Row]
    rounds: int
    stopped: str | None = None
    seconds: float = 0.0  # of training, over all starts
    released: Released = field(default_factory=dict)  # by the prelude, if there was one
    model: Model | None = None  # to predict with; None for problems without features
    trajectory: list[NDArray[np.float64]] = field(default_factory=list)  # models, at each look

    @property
    def metrics(self) -> dict[str, float]:
        """The last value of every metric."""
        return {row.metric: row.value for row in self.rows}

    @property
    def scaling(self) -> Scaling:
        """Released means and scales, by column."""
        return {
            name: (found["mean"], found["scale"])
            for name, found in self.released.items()
            if isinstance(found, Mapping)
        }

    def summary(self, plan: Plan, *, seed: int | None, digest: str) -> dict[str, Any]:
        """What the run's folder keeps in ``summary.json``."""
        clients = plan.population.clients
        scaling = {name: {"mean": m, "scale": s} for name, (m, s) in self.scaling.items()}
        return {
            "guarantee": self.guarantee.as_dict(),
            "metrics": self.metrics,
            "scaling": scaling,
            "rounds": self.rounds,
            "stopped": self.stopped,
            "seconds": round(self.seconds, 3),
            "clients": clients,
            "expected_cohort": plan.algorithm.cohort.expected(clients),
            "seed": seed,
            "digest": digest,
            "versions": versions(),
        }


def versions() -> dict[str, str]:
    """The packages that decide numbers."""
    found = {name: version(name) for name in ("jax", "dp-accounting", "numpy", "scipy")}
    return {"tacit": version("tacit-fl"), **found}
