"""Logistic regression: two classes with one score, many classes with one score each.

Both are convex with constants that hold for every record inside a public bound on the features:
the curvature of the logistic loss is at most 1/4, that of the softmax at most 1/2. The papers'
setting without a bias is ``bias = false``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy.special import expit

from tacit.errors import ConfigError
from tacit.tasks.base import HostRecords, Params, Record, require_positive, width
from tacit.tasks.classifier import Classifier, softmax_loss
from tacit.tasks.linear import LinearModel, linear_zeros
from tacit.tasks.metrics import accuracy, auc, defined


@dataclass(frozen=True, kw_only=True)
class Logistic(LinearModel):
    """Two classes, labels 0 and 1; the output is the log-odds of 1."""

    log_odds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(features=self.features)

    @classmethod
    def for_data(cls, shape: tuple[int, ...], classes: int, **options: Any) -> Self:
        """One weight for each number of ``x``."""
        if classes != 2:
            raise ConfigError(
                f"logistic needs 2 classes and the data has {classes}: "
                f"choose {'multinomial' if classes > 2 else 'least-squares'}."
            )
        return cls(features=width(shape), **options)

    def init(self, key: Array) -> Params:
        """Zeros."""
        del key
        return linear_zeros((self.features,), self.bias)

    def score_loss(self, score: Array, record: Record) -> Array:
        """``log(1 + exp(-s z))`` with the sign ``s`` of the label."""
        sign = 1 - 2 * jnp.reshape(record["y"], ()).astype(score.dtype)
        return jax.nn.softplus(sign * score)

    def constants(self, feature_norm: float) -> tuple[float, float]:
        """(l2, (R^2 + bias) / 4 + l2)."""
        return self.l2, (feature_norm**2 + self.bias) / 4 + self.l2

    def probabilities(self, outputs: NDArray[np.floating]) -> NDArray[np.floating]:
        """Of label 0 and of label 1."""
        z = np.ravel(np.asarray(outputs, np.float64))
        return np.stack([expit(-z), expit(z)], axis=1)

    def metrics(self, outputs: NDArray[np.floating], records: HostRecords) -> dict[str, float]:
        """Accuracy and AUC."""
        labels, z = np.ravel(records["y"]), np.ravel(outputs)
        scores = np.stack([np.zeros_like(z), z], axis=1)
        return defined(accuracy=accuracy(scores, labels), auc=auc(z, labels))


@dataclass(frozen=True, kw_only=True)
class Multinomial(LinearModel, Classifier):
    """Softmax regression with a column of weights for each class."""

    log_odds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(features=self.features)

    @classmethod
    def for_data(cls, shape: tuple[int, ...], classes: int, **options: Any) -> Self:
        """A weight for each number of ``x`` and each class."""
        return cls(features=width(shape), classes=classes, **options)

    def init(self, key: Array) -> Params:
        """Zeros."""
        del key
        return linear_zeros((self.features, self.classes), self.bias)

    def score_loss(self, score: Array, record: Record) -> Array:
        """Cross-entropy of the softmax of the scores."""
        return softmax_loss(score, record)

    def constants(self, feature_norm: float) -> tuple[float, float]:
        """(l2, (R^2 + bias) / 2 + l2)."""
        return self.l2, (feature_norm**2 + self.bias) / 2 + self.l2
