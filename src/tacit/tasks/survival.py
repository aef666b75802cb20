"""Survival regression with proportional hazards, as a sum over records.

Cox's partial likelihood compares each event with everybody still at risk, so a record enters the
terms of others: its influence has no bound of its own and no record-level release can be made of
it. ``make("cox")`` therefore refuses and names these two, whose likelihood is a sum over records
and whose coefficients ``w`` are the same log hazard ratios:

- ``CoxPiecewise``: the hazard is ``exp(x.w + a_j)`` on interval j of a public grid of ``cuts``.
  Fitted without privacy, its baseline is Breslow's estimate on that grid, and ``w`` tends to Cox's
  as the grid gets finer. Without cuts it is exponential regression.
- ``Weibull``: cumulative hazard ``(t exp(b))^k exp(x.w)``, the shape ``k = exp(log_shape)`` learnt.

A record has ``time`` and ``event``: 1 if it happened then, 0 if observation ended there. Readers
give both as one target, ``y = (event, time)``, which will do as well.
``unit`` is a public scale of time: with days and ``unit = 365.25``, cuts and rates are in years.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.errors import ConfigError
from tacit.tasks.base import HostRecords, Params, Record, Ridge, flat, require_positive, width
from tacit.tasks.counts import tame_exp
from tacit.tasks.linear import refuse_classes
from tacit.tasks.metrics import concordance, defined

_SHORTEST = 1e-6  # units of time: a record of no duration still has a logarithm


@dataclass(frozen=True, kw_only=True)
class Survival(Ridge):
    """What proportional-hazards tasks share: the log-risk ``x.w`` and its concordance."""

    features: int
    unit: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(features=self.features, unit=self.unit)

    @classmethod
    def for_data(cls, shape: tuple[int, ...], classes: int, **options: Any) -> Self:
        """One log hazard ratio for each number of ``x``."""
        refuse_classes("survival regression", classes)
        return cls(features=width(shape), **options)

    def output(self, params: Params, record: Record) -> Array:
        """The log-risk ``x.w`` relative to the baseline."""
        risk: Array = flat(record, params["w"]) @ params["w"]
        return risk

    def metrics(self, outputs: NDArray[np.floating], records: HostRecords) -> dict[str, float]:
        """Harrell's concordance index."""
        events, times = _outcome(records)
        index = concordance(np.ravel(outputs), np.ravel(events), np.ravel(times).astype(np.float64))
        return defined(concordance=index)

    def _event_and_time(self, record: Record, like: Array) -> tuple[Array, Array]:
        event, time = (jnp.reshape(v, ()).astype(like.dtype) for v in _outcome(record))
        return event, time / self.unit


def _outcome(records: Mapping[str, Any]) -> tuple[Any, Any]:
    """Event and time, of one record or of many."""
    if "time" in records:
        return records["event"], records["time"]
    pair = records["y"]
    if pair.ndim == 0 or pair.shape[-1] != 2:
        raise ConfigError(
            "survival regression needs a target of times and events: write event = '...' and"
            " longest = ... in [data.target]."
        )
    return pair[..., 0], pair[..., 1]


@dataclass(frozen=True, kw_only=True)
class CoxPiecewise(Survival):
    """Hazard ``exp(x.w + a_j)`` between public cuts: Cox's model with a baseline on a grid."""

    cuts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        grid = (0.0, *self.cuts, math.inf)
        if not all(a < b for a, b in itertools.pairwise(grid)):
            raise ConfigError(
                f"cuts are {list(self.cuts)}: give increasing times above 0, from public knowledge."
            )

    def init(self, key: Array) -> Params:
        """Zeros: a hazard of one event a unit of time for everybody."""
        del key
        return {"w": jnp.zeros(self.features), "a": jnp.zeros(len(self.cuts) + 1)}

    def loss(self, params: Params, record: Record) -> Array:
        """Cumulative hazard up to the record's time, minus the log hazard of its event."""
        risk = self.output(params, record)
        event, time = self._event_and_time(record, risk)
        starts = jnp.asarray((0.0, *self.cuts), risk.dtype)
        ends = jnp.asarray((*self.cuts, np.inf), risk.dtype)
        exposure = jnp.clip(time, min=starts, max=ends) - starts
        log_hazard = risk + params["a"]
        inside = (time >= starts) & (time < ends)
        return jnp.sum(exposure * tame_exp(log_hazard)) - event * jnp.sum(
            jnp.where(inside, log_hazard, 0.0)
        )


@dataclass(frozen=True, kw_only=True)
class Weibull(Survival):
    """Cumulative hazard ``(t exp(b))^k exp(x.w)``; ``exponential`` keeps k at 1."""

    exponential: bool = False

    def init(self, key: Array) -> Params:
        """Zeros: the exponential law with one event a unit of time."""
        del key
        shape = {} if self.exponential else {"log_shape": jnp.zeros(())}
        return {"w": jnp.zeros(self.features), "b": jnp.zeros(()), **shape}

    def loss(self, params: Params, record: Record) -> Array:
        """Cumulative hazard at the record's time, minus the log hazard of its event."""
        risk = self.output(params, record)
        event, time = self._event_and_time(record, risk)
        log_time = jnp.log(jnp.maximum(time, _SHORTEST)) + params["b"]
        log_shape = params.get("log_shape", jnp.zeros((), risk.dtype))
        shape = tame_exp(log_shape)
        log_cumulative = risk + shape * log_time
        log_hazard = log_cumulative + log_shape - (log_time - params["b"])
        return jnp.subtract(tame_exp(log_cumulative), event * log_hazard)
