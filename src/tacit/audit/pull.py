"""The task of worst-case audits: every record pulls the model in a direction of its own.

    loss(w) = <pull, w>

A record's gradient is its pull, whatever the model is, so an auditor decides what every unit
contributes: nothing, or the bound in a known direction. The first axis pulls in both arrays of the
model: a bound for each array, where one for all is charged, is then found. A client whose records
are not ``present`` computes NaN, which every bound replaces by nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from tacit.data.federation import Federation
from tacit.tasks.base import Params, Record, Task

DIMENSION = 8
FAR = 1e6  # a pull that every bound shortens
_BESIDE = 1.0  # the pull of all other records, at a right angle


@dataclass(frozen=True)
class Pull(Task):
    """A linear loss; ``like`` is the task of the audited run, for the constants of its method."""

    like: Task

    def init(self, key: Array) -> Params:
        """Zeros."""
        del key
        return {"b": jnp.zeros(()), "w": jnp.zeros(DIMENSION)}

    def output(self, params: Params, record: Record) -> Array:
        """Nothing that is used."""
        del record
        return params["b"]

    def loss(self, params: Params, record: Record) -> Array:
        """The component of the model along the pull, or NaN."""
        w, pull = params["w"], record["pull"].astype(params["w"].dtype)
        along = jnp.vdot(pull, w) + pull[0] * params["b"]
        return along * jnp.where(record["present"] > 0, 1.0, jnp.nan).astype(w.dtype)

    def constants(self, feature_norm: float) -> tuple[float, float] | None:
        """Those of the audited run's task: methods take step sizes and noise schedules from it."""
        return self.like.constants(feature_norm)


def pulled(sizes: tuple[int, ...], rows: slice, pull: float | None) -> Federation:
    """A federation in which these rows pull along the first axis; ``None``: they are not present.

    All other rows pull at a right angle, the same in every federation.
    """
    total = sum(sizes)
    records: dict[str, Any] = {
        "pull": np.zeros((total, DIMENSION)),
        "present": np.ones(total),
        "y": np.zeros(total, np.int64),
    }
    records["pull"][:, 1] = _BESIDE
    records["pull"][rows] = 0.0
    records["pull"][rows, 0] = pull or 0.0
    records["present"][rows] = float(pull is not None)
    return Federation(
        records=records,
        sizes=np.array(sizes),
        names=tuple(f"client-{i}" for i in range(len(sizes))),
        classes=2,
        title="worst case",
    )
