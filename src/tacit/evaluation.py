"""Records as a method and its model take them, and what a model says of them.

The simulator and the server's public test take records through ``Evaluator.prepared`` alone, so
nobody can hand them records that the method has not prepared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.algorithm import Algorithm
from tacit.precision import Precision, cast, precision
from tacit.tasks.base import HostRecords, Params, Task, Transform

_AT_ONCE = 4096  # records
Judge = Callable[[Task, Params, Any], tuple[Array, ...]]


class Evaluator:
    """A method's task on records, in one precision.

    ``task`` is what is trained: where the given task has a frozen first layer, the rest of it.
    """

    def __init__(self, algorithm: Algorithm, task: Task, dtype: Precision) -> None:
        self._algorithm, self._whole, self._dtype = algorithm, task, dtype
        unfrozen = task.unfrozen()
        self._lift: Transform | None
        self.task, self._lift = (task, None) if unfrozen is None else unfrozen

    def prepared(self, records: HostRecords) -> HostRecords:
        """The records as the method wants them, past the task's frozen layer if it has one."""
        ready = self._algorithm.prepared({k: np.asarray(v) for k, v in records.items()})
        narrow = {k: cast(np.asarray(v), self._dtype) for k, v in ready.items()}
        return narrow if self._lift is None else self._lift(narrow)

    def __call__(self, params: Params, records: HostRecords) -> dict[str, float]:
        """Mean loss and the task's metrics on the records, as their owner holds them."""
        losses, outputs = self._all(_judged, params, records)
        with precision(self._dtype):
            penalty = float(self._whole.penalty(params))
        return {
            "loss": float(np.mean(losses, dtype=np.float64)) + penalty,
            **self._whole.metrics(outputs, records),
        }

    def outputs(self, params: Params, records: HostRecords) -> NDArray[Any]:
        """What the model says of each record; their targets are not needed."""
        return self._all(_said, params, records)[0]

    def _all(self, judge: Judge, params: Params, records: HostRecords) -> tuple[NDArray[Any], ...]:
        """What ``judge`` finds, a part of the records at a time."""
        total = len(next(iter(records.values())))
        found = []
        with precision(self._dtype):
            for start in range(0, total, _AT_ONCE):
                rows = slice(start, start + _AT_ONCE)
                part = self.prepared({k: v[rows] for k, v in records.items()})
                found.append([np.asarray(each) for each in judge(self.task, params, part)])
        return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


@partial(jax.jit, static_argnums=0)
def _judged(task: Task, params: Params, records: Any) -> tuple[Array, Array]:
    """Losses and outputs of the records; equal tasks share the compiled program."""
    return task.losses(params, records), task.outputs(params, records)


@partial(jax.jit, static_argnums=0)
def _said(task: Task, params: Params, records: Any) -> tuple[Array]:
    """The outputs alone."""
    return (task.outputs(params, records),)
