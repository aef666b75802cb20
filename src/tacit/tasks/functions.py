"""A task from plain functions: any pair (init, loss of one record) is a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.errors import ConfigError
from tacit.tasks.base import HostRecords, Params, Record, Task

Init = Callable[[Array], Params]
Loss = Callable[[Params, Record], Array]
Output = Callable[[Params, Record], Array]
Metrics = Callable[[NDArray[np.floating], HostRecords], dict[str, float]]
Penalty = Callable[[Params], Array]


@dataclass(frozen=True, kw_only=True)
class FunctionTask(Task):
    """What ``from_functions`` and the adapters return; equal if made of the same functions."""

    init_fn: Init
    loss_fn: Loss
    output_fn: Output | None = None
    metrics_fn: Metrics | None = None
    penalty_fn: Penalty | None = None

    def init(self, key: Array) -> Params:
        """What your ``init`` returns."""
        return self.init_fn(key)

    def output(self, params: Params, record: Record) -> Array:
        """What your ``output`` returns; nothing without one."""
        return jnp.zeros(0) if self.output_fn is None else self.output_fn(params, record)

    def loss(self, params: Params, record: Record) -> Array:
        """What your ``loss`` returns, a single number."""
        loss = jnp.asarray(self.loss_fn(params, record))
        if loss.shape != ():
            raise ConfigError(
                f"the loss of one record has shape {loss.shape}: it must be a single number, "
                "for instance the sum or mean over what the record holds."
            )
        return loss

    def penalty(self, params: Params) -> Array | float:
        """What your ``penalty`` returns."""
        return 0.0 if self.penalty_fn is None else self.penalty_fn(params)

    def metrics(self, outputs: NDArray[np.floating], records: HostRecords) -> dict[str, float]:
        """What your ``metrics`` returns."""
        return {} if self.metrics_fn is None else self.metrics_fn(outputs, records)


def from_functions(
    init: Init,
    loss: Loss,
    output: Output | None = None,
    metrics: Metrics | None = None,
    penalty: Penalty | None = None,
) -> FunctionTask:
    """A task of your own functions.

    ``init(key)`` returns the parameters, ``loss(params, record)`` the loss of one record (its
    columns without the leading axis). ``output(params, record)`` and ``metrics(outputs, records)``
    are for evaluation, ``penalty(params)`` is a public regulariser.
    """
    return FunctionTask(
        init_fn=init, loss_fn=loss, output_fn=output, metrics_fn=metrics, penalty_fn=penalty
    )
