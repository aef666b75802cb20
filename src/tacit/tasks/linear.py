"""Least squares and quadratics.

``LeastSquares``: ``factor (x.w + b - y)^2``. The factor is 1/2 unless a paper says otherwise
(DP-FedEXP's synthetic problem prints 1).

``Quadratic`` reads the two forms of the papers' synthetic problems. DP-NormFedAvg: one record a
client with a matrix ``a`` and a ``center``, ``||a^T (w - center)||^2 / 2``, that is the quadratic
with ``Q = a a^T``. AdaptDP-FedAvg: a record is a vector ``x = z`` with ``y = z.b``, and the loss
``(z.(w - b))^2 / 2 = (z.w - y)^2 / 2`` is least squares that can be fitted exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.errors import ConfigError
from tacit.tasks.base import (
    HostRecords,
    Params,
    Record,
    Ridge,
    flat,
    flat_rows,
    require_positive,
    width,
)
from tacit.tasks.metrics import defined, mean_squared_error, r_squared


def refuse_classes(name: str, classes: int) -> None:
    """A regression has no classes: say so before labels are taken for numbers."""
    if classes:
        raise ConfigError(
            f"{name} is a regression but the data has {classes} classes: "
            "choose a classifier such as logistic or multinomial."
        )


@dataclass(frozen=True, kw_only=True)
class LeastSquares(Ridge):
    """Linear regression: ``factor (x.w + b - y)^2``."""

    features: int
    bias: bool = False
    factor: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(features=self.features, factor=self.factor)

    @classmethod
    def for_data(cls, shape: tuple[int, ...], classes: int, **options: Any) -> Self:
        """One weight for each number of ``x``."""
        refuse_classes("least squares", classes)
        return cls(features=width(shape), **options)

    def init(self, key: Array) -> Params:
        """Zeros."""
        del key
        return linear_zeros((self.features,), self.bias)

    def output(self, params: Params, record: Record) -> Array:
        """The prediction."""
        return linear_output(params, flat(record, params["w"]))

    def loss(self, params: Params, record: Record) -> Array:
        """The scaled squared residual."""
        gap = self.output(params, record) - jnp.reshape(record["y"], ()).astype(params["w"].dtype)
        return self.factor * jnp.square(gap)

    def sq_norms(self, params: Params, records: Record) -> Array:
        """``(2 factor residual)^2 (||x||^2 + bias)``."""
        x = flat_rows(records, params["w"])
        gap = linear_output(params, x) - jnp.reshape(records["y"], (-1,)).astype(x.dtype)
        return jnp.square(2 * self.factor * gap) * (jnp.sum(x * x, axis=1) + self.bias)

    def constants(self, feature_norm: float) -> tuple[float, float]:
        """(l2, 2 factor (R^2 + bias) + l2)."""
        return self.l2, 2 * self.factor * (feature_norm**2 + self.bias) + self.l2

    def metrics(self, outputs: NDArray[np.floating], records: HostRecords) -> dict[str, float]:
        """Mean squared error and explained variance."""
        y = np.ravel(records["y"])
        return defined(mse=mean_squared_error(outputs, y), r2=r_squared(outputs, y))


@dataclass(frozen=True, kw_only=True)
class Quadratic(Ridge):
    """``||a^T (w - center)||^2 / 2``, or ``(x.w - y)^2 / 2`` for records with ``x`` and ``y``."""

    features: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(features=self.features)

    @classmethod
    def for_data(cls, shape: tuple[int, ...], classes: int, **options: Any) -> Self:
        """One weight for each row of the matrix ``a``, or each number of the vector ``x``."""
        refuse_classes("the quadratic", classes)
        if len(shape) not in (1, 2):
            raise ConfigError(
                f"a record of the quadratic is a vector or a matrix, not of shape {shape}."
            )
        return cls(features=shape[0], **options)

    def init(self, key: Array) -> Params:
        """Zeros."""
        del key
        return linear_zeros((self.features,), bias=False)

    def output(self, params: Params, record: Record) -> Array:
        """What is squared: ``a^T (w - center)`` or ``x.w - y``; it is to become 0."""
        w = params["w"]
        if "a" in record:
            matrix = jnp.asarray(record["a"]).astype(w.dtype)
            return jnp.dot(matrix.T, w - jnp.asarray(record["center"]).astype(w.dtype))
        return jnp.dot(flat(record, w), w) - jnp.reshape(record["y"], ()).astype(w.dtype)

    def loss(self, params: Params, record: Record) -> Array:
        """Half the squared norm of the output."""
        return 0.5 * jnp.sum(jnp.square(self.output(params, record)))

    def sq_norms(self, params: Params, records: Record) -> Array:
        """``||a a^T (w - center)||^2``, or ``(x.w - y)^2 ||x||^2``."""
        gap = self.outputs(params, records)
        if "a" in records:
            matrix = jnp.asarray(records["a"]).astype(gap.dtype)
            return jnp.sum(jnp.square(jnp.einsum("ndr,nr->nd", matrix, gap)), axis=1)
        x = flat_rows(records, gap)
        return jnp.square(gap) * jnp.sum(x * x, axis=1)

    def constants(self, feature_norm: float) -> tuple[float, float]:
        """(l2, R^2 + l2); R bounds ``||x||``, or the spectral norm of ``a``."""
        return self.l2, feature_norm**2 + self.l2


def linear_zeros(shape: tuple[int, ...], bias: bool) -> dict[str, Array]:
    """Weights ``w`` of this shape and, if wanted, one bias ``b`` for each output."""
    weights = {"w": jnp.zeros(shape)}
    return {**weights, "b": jnp.zeros(shape[1:])} if bias else weights


def linear_output(params: Params, x: Array) -> Array:
    """``x @ w + b`` for one vector or for rows."""
    z: Array = x @ params["w"]
    return z + params["b"] if "b" in params else z
