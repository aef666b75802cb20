"""Generated images of random stroke glyphs, to learn a projection without any real record.

A glyph class is a set of random curves. Its instances vary: control points move, the glyph is
rotated, sheared, scaled and shifted, and the stroke width changes. Directions that separate the
classes but not the instances of one class also separate handwritten shapes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.features.scattering import Images

_POINTS = 32  # along a curve
_CHUNK = 500


def glyphs(
    classes: int, instances: int, side: int = 28, *, seed: int = 0
) -> tuple[Images, NDArray[np.int32]]:
    """Images in [0, 1] with ``instances`` instances of every class, and their class indices."""
    rng = np.random.default_rng(seed)
    strokes = rng.integers(1, 4, size=classes)
    shapes = _shapes(rng, classes, int(strokes.max()))
    labels = np.repeat(np.arange(classes, dtype=np.int32), instances)
    drawn = np.arange(shapes.shape[1])[None, :] < strokes[labels][:, None]
    parts = [
        _drawn(rng, shapes[labels[s : s + _CHUNK]], drawn[s : s + _CHUNK], side)
        for s in range(0, len(labels), _CHUNK)
    ]
    return np.concatenate(parts), labels


def _shapes(rng: np.random.Generator, classes: int, most: int) -> NDArray[np.float64]:
    """Four control points per stroke in [-1, 1]; a stroke often starts where another one ended."""
    points = rng.uniform(-1, 1, (classes, most, 4, 2))
    for stroke in range(1, most):
        joined = rng.random(classes) < 0.6
        end = rng.integers(0, 2, classes) * 3
        points[joined, stroke, 0] = points[joined, stroke - 1, end[joined]]
    closed = rng.random((classes, most)) < 0.25
    points[closed, 3] = points[closed, 0]
    curves = _bezier(points)
    low, high = curves.min(axis=(1, 2)), curves.max(axis=(1, 2))
    centred = points - ((low + high) / 2)[:, None, None]
    return np.asarray(centred / ((high - low).max(axis=1) / 2 + 1e-3)[:, None, None, None])


def _drawn(
    rng: np.random.Generator, shapes: NDArray[np.float64], drawn: NDArray[np.bool_], side: int
) -> Images:
    count = len(shapes)
    moved = shapes + rng.normal(0, 0.09, shapes.shape)
    turn, shear = rng.normal(0, 0.18, count), rng.normal(0, 0.25, count)
    stretch = np.exp(rng.normal(0, 0.15, (count, 2)))
    matrix = np.empty((count, 2, 2))
    matrix[:, 0, 0], matrix[:, 0, 1] = np.cos(turn), -np.sin(turn) + shear
    matrix[:, 1, 0], matrix[:, 1, 1] = np.sin(turn), np.cos(turn)
    moved = np.einsum("nij,nskj->nski", matrix * stretch[:, None, :], moved)
    size = side * 0.33 * np.exp(rng.normal(0, 0.08, count))
    shift = side / 2 - 0.5 + rng.normal(0, 0.05 * side, (count, 1, 1, 2))
    curves = _bezier(moved * size[:, None, None, None] + shift)
    curves = np.where(drawn[:, :, None, None], curves, 1e3)
    thickness = side / 28 * rng.uniform(0.7, 1.7, (count, 1))
    return _inked(curves.reshape(count, -1, 2), thickness, side)


def _bezier(control: NDArray[np.float64]) -> NDArray[np.float64]:
    t = np.linspace(0, 1, _POINTS)
    basis = np.stack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3])
    return np.einsum("kp,nskd->nspd", basis, control)


def _inked(points: NDArray[np.float64], thickness: NDArray[np.float64], side: int) -> Images:
    """Full intensity within the stroke, fading over one pixel."""
    axis = np.arange(side, dtype=np.float32)
    dx = (axis[None, None, :] - points[:, :, :1].astype(np.float32)) ** 2
    dy = (axis[None, None, :] - points[:, :, 1:].astype(np.float32)) ** 2
    image = np.full((len(points), side, side), np.inf, np.float32)
    for p in range(points.shape[1]):
        np.minimum(image, dy[:, p, :, None] + dx[:, p, None, :], out=image)
    ink: Images = np.clip(thickness[:, :, None].astype(np.float32) + 0.5 - np.sqrt(image), 0, 1)
    return ink
