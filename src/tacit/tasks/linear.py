"""Least squares and quadratics.

``LeastSquares``: ``factor (x.w + b - y)^2``. The factor is 1/2 unless a paper says otherwise
(DP-FedEXP's synthetic problem prints 1).

``Quadratic`` reads the two forms of the papers' synthetic problems. DP-NormFedAvg: one record a
client with a matrix ``a`` and a ``center``, ``||a^T (w - center)||^2 / 2``, that is the quadratic
with ``Q = a a^T``. AdaptDP-FedAvg: a record is a vector ``x = z`` with ``y = z.b``, and the loss
``(z.(w - b))^2 / 2 = (z.w - y)^2 / 2`` is least squares that can be fitted exactly.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.errors import ConfigError
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
from tacit.tasks.metrics import defined, mean_squared_error, r_squared
from tacit.tasks.unit import formed, outer, settled


def refuse_classes(name: str, classes: int) -> None:
    """A regression has no classes: say so before labels are taken for numbers."""
    if classes:
        raise ConfigError(
            f"{name} is a regression but the data has {classes} classes: "
            "choose a classifier such as logistic or multinomial."
        )


@dataclass(frozen=True, kw_only=True)
class LinearModel(Ridge):
    """A loss of scores ``x.w + b``: one score, or one for each class.

    The gradient of a record is the slope of its loss in the scores times its features, so its norm
    is known without forming it, and training can stay in the span of a client's records.
    """

    features: int
    bias: bool = True

    @abstractmethod
    def score_loss(self, score: Array, record: Record) -> Array:
        """The loss of one record whose score is this; reads no features."""

    def lifted(self, x: Array) -> Array:
        """The features that the weights meet, of one record or of rows."""
        return x

    def rows(self, params: Params, records: Record) -> Array:
        """The features of a batch that the weights meet, one row each."""
        return self.lifted(flat_rows(records, params["w"]))

    def output(self, params: Params, record: Record) -> Array:
        """The score of one record."""
        return linear_output(params, self.lifted(flat(record, params["w"])))

    def outputs(self, params: Params, records: Record) -> Array:
        """The scores of a batch."""
        return linear_output(params, self.rows(params, records))

    def loss(self, params: Params, record: Record) -> Array:
        """The loss of one record."""
        return self.score_loss(self.output(params, record), record)

    def losses(self, params: Params, records: Record) -> Array:
        """The losses of a batch."""
        return self.score_losses(self.outputs(params, records), records)

    def score_losses(self, scores: Array, records: Record) -> Array:
        """The losses of a batch with these scores."""
        return jax.vmap(self.score_loss)(scores, targets(records))

    def slopes(self, scores: Array, records: Record) -> Array:
        """The derivative of each record's loss in its scores."""
        return jax.grad(lambda s: jnp.sum(self.score_losses(s, records)))(scores)

    def by_record(self, params: Params, records: Record) -> ByRecord:
        """A record's gradient is its features times the slopes of its loss in the scores."""
        x = self.rows(params, records)
        return linear_by_record(params, x, self.slopes(linear_output(params, x), records))


def targets(records: Record) -> Record:
    """Everything of a batch but its features."""
    return {name: column for name, column in records.items() if name != "x"}


@dataclass(frozen=True, kw_only=True)
class LeastSquares(LinearModel):
    """Linear regression: ``factor (x.w + b - y)^2``."""

    score_scale: ClassVar[float] = 0.3  # targets of size about 1

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

    def score_loss(self, score: Array, record: Record) -> Array:
        """The scaled squared residual."""
        return self.factor * jnp.square(score - jnp.reshape(record["y"], ()).astype(score.dtype))

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

    def by_record(self, params: Params, records: Record) -> ByRecord:
        """``a a^T (w - center)``, or ``(x.w - y) x``."""
        gap = self.outputs(params, records)
        if "a" in records:
            matrix = jnp.asarray(records["a"]).astype(gap.dtype)
            return formed(settled({"w": jnp.einsum("ndr,nr->nd", matrix, gap)}))
        return linear_by_record(params, flat_rows(records, gap), gap)

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


def linear_by_record(params: Params, x: Array, slopes: Array) -> ByRecord:
    """Gradients of losses of ``linear_output``, from rows of features and slopes in the scores."""
    found = outer(x, settled(slopes.reshape(len(slopes), -1)), bias="b" in params)

    def combined(lengths: Array) -> Params:
        sums = found.combined(lengths)
        return {name: sums[name].reshape(params[name].shape) for name in params}

    return ByRecord(found.norms, combined)
