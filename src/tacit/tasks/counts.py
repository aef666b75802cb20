"""Poisson regression for counts: ``exp(z) - y z`` with the log-rate ``z = x.w + b``.

A column ``exposure`` (time under observation) multiplies the rate when the records have one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.tasks.base import (
    ByRecord,
    HostRecords,
    Params,
    Record,
    Ridge,
    flat,
    flat_rows,
    require_positive,
    width,
)
from tacit.tasks.linear import linear_by_record, linear_output, linear_zeros, refuse_classes
from tacit.tasks.metrics import defined, mean_squared_error, poisson_deviance

_LARGEST = 20.0  # a log-rate above this is far outside any data; exp(20) is half a billion


@dataclass(frozen=True, kw_only=True)
class Poisson(Ridge):
    """Counts 0, 1, 2, … with a log-linear rate; the output is the log-rate."""

    features: int
    bias: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(features=self.features)

    @classmethod
    def for_data(cls, shape: tuple[int, ...], classes: int, **options: Any) -> Self:
        """One weight for each number of ``x``."""
        refuse_classes("Poisson regression", classes)
        return cls(features=width(shape), **options)

    def init(self, key: Array) -> Params:
        """Zeros: a rate of 1."""
        del key
        return linear_zeros((self.features,), self.bias)

    def output(self, params: Params, record: Record) -> Array:
        """The log-rate, exposure included."""
        z = linear_output(params, flat(record, params["w"]))
        return z + _log_exposure(record, z)

    def loss(self, params: Params, record: Record) -> Array:
        """The negative log-likelihood without the term that no parameter enters."""
        z = self.output(params, record)
        return tame_exp(z) - jnp.reshape(record["y"], ()).astype(z.dtype) * z

    def by_record(self, params: Params, records: Record) -> ByRecord:
        """``(rate - y) x``."""
        z = self.outputs(params, records)
        gap = jnp.exp(jnp.minimum(z, _LARGEST)) - jnp.reshape(records["y"], (-1,)).astype(z.dtype)
        return linear_by_record(params, flat_rows(records, z), gap)

    def predictions(self, outputs: NDArray[np.floating]) -> NDArray[np.floating]:
        """The rate of each record."""
        return np.exp(np.minimum(np.ravel(outputs), _LARGEST))

    def metrics(self, outputs: NDArray[np.floating], records: HostRecords) -> dict[str, float]:
        """Mean deviance and mean squared error of the rate."""
        y, rate = np.ravel(records["y"]), np.exp(np.minimum(np.ravel(outputs), _LARGEST))
        return defined(deviance=poisson_deviance(rate, y), mse=mean_squared_error(rate, y))


def tame_exp(z: Array) -> Array:
    """``exp`` up to 20, its tangent beyond: convex, and never infinite in float32."""
    low = jnp.minimum(z, _LARGEST)
    return jnp.exp(low) * (1 + z - low)


def _log_exposure(record: Record, like: Array) -> Array | float:
    if "exposure" not in record:
        return 0.0
    return jnp.log(jnp.reshape(record["exposure"], ()).astype(like.dtype))
