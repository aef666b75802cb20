"""Privacy loss distributions on a grid: pessimistic discretisation, tilting, and epsilon.

A dominating pair (P, Q) is described by the probability mass of its privacy loss log(dP/dQ) between
grid edges, under P and under Q. Connect-the-dots moves the mass of a cell to its two edges and
preserves its mass under P and under Q, so the pair on the grid dominates the true one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.pairs import Pair

Floats = NDArray[np.float64]

_BLOCK = 64


@dataclass(frozen=True)
class GridLaw:
    """Mass ``probs[i]`` at the loss ``(first + i) * step``, and ``infinite`` at infinity."""

    step: float
    first: int
    probs: Floats
    infinite: float

    @property
    def losses(self) -> Floats:
        """The losses of the grid points."""
        return self.step * (self.first + np.arange(len(self.probs), dtype=np.float64))

    def cumulant(self, theta: float) -> float:
        """log E exp(theta * loss) over the finite losses.

        On a grid, exp(theta * loss) is the product of a factor for the block and a factor within
        the block, so few exponentials are needed. They start at the largest term, so none overflow.
        """
        far, blocks = self._from_top if theta > 0 else self._from_bottom
        decay = -abs(theta) * self.step
        within = blocks @ np.exp(decay * np.arange(_BLOCK))
        total = float(within @ np.exp(decay * _BLOCK * np.arange(len(blocks), dtype=np.float64)))
        return theta * self.step * far + math.log(total)

    @cached_property
    def _from_top(self) -> tuple[int, Floats]:
        last = int(np.flatnonzero(self.probs)[-1])
        return self.first + last, _blocked(self.probs[last::-1])

    @cached_property
    def _from_bottom(self) -> tuple[int, Floats]:
        least = int(np.flatnonzero(self.probs)[0])
        return self.first + least, _blocked(self.probs[least:])

    def tilted(self, theta: float) -> Floats:
        """The probabilities of the finite losses, weighted by exp(theta * loss) and normalised."""
        with np.errstate(divide="ignore"):
            return np.exp(np.log(self.probs) + (theta * self.losses - self.cumulant(theta)))


def _blocked(values: Floats) -> Floats:
    return np.pad(values, (0, -len(values) % _BLOCK)).reshape(-1, _BLOCK)


def on_grid(pair: Pair, step: float, span: tuple[float, float]) -> GridLaw:
    """Pessimistic discretisation (connect-the-dots) of the pair's loss on multiples of ``step``.

    Mass below the span moves up to its lower end. Mass above the span counts as infinite loss.
    """
    low, high = span
    # One extra cell on both sides: rounding must not push an atom at the end out of the grid.
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    edges = step * np.arange(first, last + 1, dtype=np.float64)
    p_mass, q_mass = pair.masses(edges)
    inside_p, inside_q = p_mass[1:-1], q_mass[1:-1]
    with np.errstate(over="ignore", invalid="ignore"):
        up = (inside_p - inside_q * np.exp(edges[:-1])) / -math.expm1(-step)
    up = np.clip(np.nan_to_num(up, nan=np.inf), 0.0, inside_p)
    probs = np.zeros(len(edges))
    probs[1:] += up
    probs[:-1] += inside_p - up
    probs[0] += p_mass[0]
    return GridLaw(step, first, probs, float(p_mass[-1]))


def epsilon_at(
    losses: Floats, probs: Floats, infinite: float, delta: float, *, whole: bool = False
) -> float:
    """The epsilon at which a distribution on a grid has hockey-stick divergence delta.

    ``whole`` says that no mass lies below the first loss. Otherwise epsilon is at least that loss.
    """
    from scipy.signal import lfilter  # imported here: it takes a second to load, few runs need it

    step = float(losses[1] - losses[0]) if len(losses) > 1 else 1.0
    above = np.cumsum(probs[::-1])[::-1]  # mass at or above each loss
    # D(j) = sum_{k>j} p_k (1 - exp(l_j - l_k)) = (1 - e^-h) above(j+1) + e^-h D(j+1)
    drive = np.append(above[1:], 0.0)[::-1] * -math.expm1(-step)
    divergence = np.asarray(lfilter([1.0], [1.0, -math.exp(-step)], drive))[::-1]
    within = np.flatnonzero(divergence + infinite <= delta)
    if not len(within):
        return math.inf
    j = int(within[0])
    rest = above[j] - divergence[j]
    if (j == 0 and not whole) or not 0 < rest < math.inf:
        return float(losses[j])
    inside = losses[j] + math.log(max(above[j] + infinite - delta, 1e-300) / rest)
    return float(np.clip(inside, losses[j - 1] if j else -math.inf, losses[j]))
