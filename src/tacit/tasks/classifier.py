"""What all classifiers with one score for each class share: cross-entropy, accuracy, AUC."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy.special import softmax

from tacit.errors import ConfigError
from tacit.tasks.base import HostRecords, Params, Record, Ridge
from tacit.tasks.metrics import accuracy, auc, defined


@dataclass(frozen=True, kw_only=True)
class Classifier(Ridge):
    """Labels 0 to ``classes - 1``; ``output`` gives one score (logit) for each class."""

    classes: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_classes(self.classes)

    def loss(self, params: Params, record: Record) -> Array:
        """Cross-entropy of the softmax of the scores."""
        return softmax_loss(self.output(params, record), record)

    def probabilities(self, outputs: NDArray[np.floating]) -> NDArray[np.floating]:
        """The softmax of the scores."""
        return softmax(np.asarray(outputs, np.float64), axis=-1)

    def metrics(self, outputs: NDArray[np.floating], records: HostRecords) -> dict[str, float]:
        """Accuracy and, for two classes, AUC."""
        return softmax_metrics(outputs, records)


def cross_entropy(scores: Array, label: Array) -> Array:
    """``logsumexp(scores) - scores[label]``; a label outside the classes gives NaN, not a guess.

    Written as log(1 + sum over the others): its derivative has no difference of near-equal numbers,
    so a record that is almost fitted is bounded by the norm that its gradient really has.
    """
    label = jnp.asarray(label).reshape(()).astype(jnp.int32)
    classes = jnp.arange(scores.shape[-1])
    picked = jnp.take(scores, jnp.clip(label, 0, classes[-1]))
    others = jnp.where(classes == label, -jnp.inf, scores - picked)
    known = (label >= 0) & (label < scores.shape[-1])
    return jnp.where(known, jax.nn.softplus(jax.nn.logsumexp(others)), jnp.nan)


def softmax_loss(scores: Array, record: Record) -> Array:
    """Cross-entropy of one record's scores with its label ``y``: a loss for your own model."""
    return cross_entropy(scores, record["y"])


def softmax_metrics(outputs: NDArray[np.floating], records: HostRecords) -> dict[str, float]:
    """Accuracy and, for two classes, AUC of scores: metrics for your own model."""
    labels = np.ravel(records["y"])
    ranked = auc(outputs[:, 1] - outputs[:, 0], labels) if outputs.shape[-1] == 2 else None
    return defined(accuracy=accuracy(outputs, labels), auc=ranked)


def require_classes(classes: int) -> None:
    """Refuse a classifier of fewer than two classes."""
    if classes < 2:
        raise ConfigError(
            f"a classifier needs at least 2 classes and the data has {classes}: "
            "choose a regression such as least-squares, or state the number of classes."
        )
