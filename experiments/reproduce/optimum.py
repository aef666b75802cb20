"""The minimiser of regularised logistic regression, as a reference for private models.

It is computed by accelerated proximal gradient steps (FISTA with restarts) in double precision,
from the records of all clients: an oracle value, for simulations only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_STEPS = 20_000
_ENOUGH = 1e-12

Vector = NDArray[np.float64]


def logistic_optimum(
    x: Vector, y: Vector, *, l2: float, l1: float = 0.0, box: float = float("inf")
) -> Vector:
    """argmin of mean log-loss + l2/2 |w|^2 + l1 |w|_1 over |w_j| <= box; labels are 0 and 1."""
    signs = 2 * y - 1
    smooth = float(np.linalg.norm(x, 2) ** 2) / (4 * len(x)) + l2
    step, momentum = 1 / smooth, 1.0
    w = np.zeros(x.shape[1])
    ahead = w
    for _ in range(_STEPS):
        slope = _gradient(x, signs, ahead) + l2 * ahead
        moved = _prox(ahead - step * slope, step * l1, box)
        change = moved - w
        if float(np.linalg.norm(change)) <= _ENOUGH * max(1.0, float(np.linalg.norm(w))):
            return moved
        restart = float((ahead - moved) @ change) > 0
        following = 1.0 if restart else (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = moved + (0.0 if restart else (momentum - 1) / following) * change
        w, momentum = moved, following
    return w


def _gradient(x: Vector, signs: Vector, w: Vector) -> Vector:
    margins: Any = signs * (x @ w)
    return -(x.T @ (signs / (1 + np.exp(margins)))) / len(x)


def _prox(w: Vector, weight: float, box: float) -> Vector:
    return np.sign(w) * np.minimum(np.maximum(np.abs(w) - weight, 0), box)
