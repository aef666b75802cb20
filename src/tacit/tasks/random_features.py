"""Softmax regression on random features: a two-layer network whose first layer is frozen.

The model of AdaptDP-FedAvg's convex experiments (128 units for Bank Marketing, 512 for MNIST and
Fashion-MNIST). The first layer is drawn from a public seed, so it is no parameter, is never sent
and costs no privacy. Its weights are normal with variance 2/units: with relu a record keeps its
squared norm on average, so a clip radius means the same for any number of units.

``transform`` maps records through the frozen layer once; ``head`` is the task that is left.
Training ``head`` on transformed records equals training this task, at a fraction of the work.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.tasks.base import (
    HostRecords,
    Params,
    Record,
    Task,
    Transform,
    require_positive,
    width,
)
from tacit.tasks.classifier import Classifier, softmax_loss
from tacit.tasks.linear import LinearModel, linear_zeros
from tacit.tasks.logistic import Multinomial


@dataclass(frozen=True, kw_only=True)
class RandomFeatures(LinearModel, Classifier):
    """``relu(x W) @ w + b`` with ``W`` frozen; convex in ``w`` and ``b``."""

    log_odds: ClassVar[bool] = True

    units: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(features=self.features, units=self.units)

    @classmethod
    def for_data(cls, shape: tuple[int, ...], classes: int, **options: Any) -> Self:
        """A frozen layer over all numbers of ``x``."""
        return cls(features=width(shape), classes=classes, **options)

    def init(self, key: Array) -> Params:
        """Zeros: only the second layer is learnt."""
        del key
        return linear_zeros((self.units, self.classes), self.bias)

    def score_loss(self, score: Array, record: Record) -> Array:
        """Cross-entropy of the softmax of the scores."""
        return softmax_loss(score, record)

    def constants(self, feature_norm: float) -> tuple[float, float]:
        """Those of the head, with the features bounded through the frozen layer's norm."""
        lifted = feature_norm * _frozen_norm(self.features, self.units, self.seed)
        return self.head.constants(lifted)

    def unfrozen(self) -> tuple[Task, Transform]:
        """The head, on transformed records."""
        return self.head, self.transform

    @property
    def head(self) -> Multinomial:
        """The task over transformed records: softmax regression on ``units`` features."""
        return Multinomial(features=self.units, classes=self.classes, bias=self.bias, l2=self.l2)

    def transform(self, records: HostRecords) -> dict[str, NDArray[np.generic]]:
        """The records with ``x`` passed through the frozen layer, on the host."""
        x = np.asarray(records["x"])
        rows = np.asarray(x.reshape(len(x), -1), np.float64)
        lifted = np.maximum(rows @ _frozen(self.features, self.units, self.seed), 0)
        return {**records, "x": lifted.astype(x.dtype if x.dtype.kind == "f" else np.float32)}

    def lifted(self, x: Array) -> Array:
        """The features after the frozen layer."""
        return jax.nn.relu(x @ jnp.asarray(_frozen(self.features, self.units, self.seed), x.dtype))


@functools.lru_cache(maxsize=8)
def _frozen(features: int, units: int, seed: int) -> NDArray[np.float64]:
    layer = np.random.default_rng(seed).standard_normal((features, units))
    return np.asarray(layer * np.sqrt(2 / units), np.float64)


@functools.lru_cache(maxsize=8)
def _frozen_norm(features: int, units: int, seed: int) -> float:
    return float(np.linalg.norm(_frozen(features, units, seed), ord=2))
