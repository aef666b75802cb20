"""Metrics on the host: plain numpy over a model's outputs and the targets.

Each returns ``None`` where the records do not define it (AUC of one class, concordance without a
comparable pair), so that a small or lopsided test set never stops a run. Outputs that are not
finite count as wrong answers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


def accuracy(scores: Floats, labels: NDArray[np.generic]) -> float | None:
    """The share of rows whose largest score is at the label; rows with NaN are wrong."""
    if labels.size == 0:
        return None
    right = np.argmax(scores, axis=-1) == labels
    return float(np.mean(right & np.isfinite(scores).all(axis=-1)))


def auc(scores: Floats, labels: NDArray[np.generic]) -> float | None:
    """The chance that a positive outranks a negative, ties counting half (Mann and Whitney)."""
    positive = np.asarray(labels) > 0
    many, few = int(positive.sum()), int((~positive).sum())
    if many == 0 or few == 0 or not np.isfinite(scores).all():
        return None
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2.0)[place]
    return float((ranks[positive].sum() - many * (many + 1) / 2) / (many * few))


def mean_squared_error(predictions: Floats, targets: NDArray[np.generic]) -> float | None:
    """The mean of squared residuals."""
    if targets.size == 0:
        return None
    gap = np.asarray(predictions, np.float64) - np.asarray(targets, np.float64)
    return float(np.mean(np.square(gap)))


def r_squared(predictions: Floats, targets: NDArray[np.generic]) -> float | None:
    """The share of the targets' variance that is explained; undefined for constant targets."""
    spread = np.var(np.asarray(targets, np.float64)) if targets.size else 0.0
    error = mean_squared_error(predictions, targets)
    return None if error is None or spread == 0 else float(1 - error / spread)


def poisson_deviance(means: Floats, counts: NDArray[np.generic]) -> float | None:
    """The mean deviance of counts under Poisson means: 0 for a perfect fit."""
    if counts.size == 0:
        return None
    y = np.asarray(counts, np.float64)
    m = np.maximum(np.asarray(means, np.float64), np.finfo(np.float64).tiny)
    log_term = y * np.log(np.where(y > 0, y, 1.0) / m)
    return float(np.mean(2 * (np.where(y > 0, log_term, 0.0) - y + m)))


def concordance(risks: Floats, events: NDArray[np.generic], times: Floats) -> float | None:
    """Harrell's index: the share of comparable pairs in which the earlier event has more risk.

    A pair is comparable when one had its event while the other was still observed: at a later
    time, or at the same time without an event. Equal risks count half.
    """
    if not np.isfinite(risks).all():
        return None
    happened = np.asarray(events) > 0
    good, pairs = 0.0, 0
    for i in np.flatnonzero(happened):
        later = (times > times[i]) | ((times == times[i]) & ~happened)
        rival = risks[later]
        good += float(np.sum(rival < risks[i]) + 0.5 * np.sum(rival == risks[i]))
        pairs += rival.size
    return good / pairs if pairs else None


def defined(**values: float | None) -> dict[str, float]:
    """The metrics that the records define."""
    return {name: value for name, value in values.items() if value is not None}
