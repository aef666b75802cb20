"""Projections learnt on generated glyphs only, cached on disk under a digest.

``lda``: Fisher's discriminants of 1,000 glyph classes: the directions with the largest ratio of
between-class to within-class variance, scaled to unit variance within classes. ``pca``: the
directions of largest variance, whitened to variance 1 except for those of very small variance.
Whitening lets gradient descent learn all directions at a similar speed, which matters if noise
limits the number of steps.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.cache_folder import cache_folder
from tacit.features.glyphs import glyphs

_VERSION = 2  # increase it with every change that affects the learnt maps
_CLASSES, _INSTANCES, _SEED = 1_000, 40, 0
_SHRINKAGE = 0.05  # times the mean variance, added to the within-class variance
_FLOOR = 0.03  # times the mean variance, added to every variance before whitening
_CHUNK = 1_000

Matrix = NDArray[np.float32]
Before = Callable[[NDArray[Any]], NDArray[Any]]


class Learnt(NamedTuple):
    """The mean of the generated features and the matrix of the projection."""

    mean: Matrix
    matrix: Matrix

    def __hash__(self) -> int:
        return hash((self.mean.tobytes(), self.matrix.tobytes()))


def learn(
    kind: Literal["lda", "pca"],
    dimensions: int,
    before: Before,
    shape: tuple[int, int],
    digest: str,
) -> Learnt:
    """The projection to ``dimensions`` dimensions, from the cache if it was learnt before."""
    parts = _cached(f"{kind}|{digest}", shape, lambda: _whole(kind, before, shape))
    return Learnt(parts.mean, parts.matrix[:, :dimensions])


def centre_of(before: Before, shape: tuple[int, int], digest: str) -> Learnt:
    """The mean of the generated features, without a projection."""

    def mean() -> Learnt:
        features, _ = _generated(before, shape)
        return Learnt(features.mean(axis=0), np.zeros((0, 0), np.float32))

    return _cached(f"centre|{digest}", shape, mean)


def apply_learnt(learnt: Learnt, x: NDArray[np.generic]) -> Matrix:
    """(x - mean) @ matrix."""
    flat = np.asarray(x, np.float32).reshape(len(x), -1)
    return np.asarray((flat - learnt.mean) @ learnt.matrix, np.float32)


def _whole(kind: Literal["lda", "pca"], before: Before, shape: tuple[int, int]) -> Learnt:
    features, labels = _generated(before, shape)
    return discriminants(features, labels) if kind == "lda" else whitening(features)


def _generated(before: Before, shape: tuple[int, int]) -> tuple[Matrix, NDArray[np.int32]]:
    images, labels = glyphs(_CLASSES, _INSTANCES, max(shape), seed=_SEED)
    images = images[:, : shape[0], : shape[1]]
    parts = [
        np.asarray(before(images[s : s + _CHUNK]), np.float32).reshape(
            len(images[s : s + _CHUNK]), -1
        )
        for s in range(0, len(images), _CHUNK)
    ]
    return np.concatenate(parts), labels


def discriminants(features: Matrix, labels: NDArray[np.int32]) -> Learnt:
    """Fisher's discriminant directions, best first; labels must be sorted, with equal counts."""
    from scipy.linalg import eigh

    mean = features.mean(axis=0)
    classes = int(labels[-1]) + 1
    grouped = features.reshape(classes, -1, features.shape[1])
    centres = grouped.mean(axis=1)
    rest = (grouped - centres[:, None]).reshape(len(features), -1)
    within = rest.T @ rest / len(rest)
    within += _SHRINKAGE * np.trace(within) / len(within) * np.eye(len(within), dtype=within.dtype)
    between = np.cov(centres, rowvar=False)
    values, vectors = eigh(np.asarray(between, np.float64), np.asarray(within, np.float64))
    kept = values > 1e-9
    return Learnt(mean, np.asarray(vectors[:, kept][:, ::-1], np.float32))


def whitening(features: Matrix) -> Learnt:
    """Principal directions, largest first, scaled to variance 1 if above the floor."""
    mean = features.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(features, rowvar=False))
    scaled = vectors / np.sqrt(np.maximum(values, 0) + _FLOOR * np.mean(values) + 1e-12)
    return Learnt(mean, np.asarray(scaled[:, ::-1], np.float32))


def _cached(what: str, shape: tuple[int, int], make: Callable[[], Learnt]) -> Learnt:
    text = f"{_VERSION}|{what}|{shape}|{_CLASSES}|{_INSTANCES}|{_SEED}|{_SHRINKAGE}|{_FLOOR}"
    path = cache_folder("features") / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.npz"
    try:
        with np.load(path) as found:
            return Learnt(found["mean"], found["matrix"])
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        learnt = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}.tmp.npz")
        np.savez(fresh, mean=learnt.mean, matrix=learnt.matrix)
        fresh.replace(path)
    except OSError:
        pass  # without a writable cache the next run is only slower
    return learnt
