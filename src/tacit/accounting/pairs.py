"""Dominating pairs (P, Q): the probability of the privacy loss between edges, under P and under Q.

``masses(edges)`` gives the probability, under P and under Q, that the loss lies in (-inf, e0],
(e0, e1], ..., (e_last, inf). Sampling, swapping and symmetrising are wrappers around a base pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri_exp

from tacit.accounting.guarantee import Relation
from tacit.accounting.leaves import Leaf

Floats = NDArray[np.float64]


class Pair(Protocol):
    """A pair (P, Q), described by its privacy loss distribution."""

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Probability under P and under Q of the len(edges) + 1 cells between the edges."""
        ...

    def span(self, below: float, above: float) -> tuple[float, float]:
        """Losses (low, high): P has at most mass ``below`` under low and ``above`` over high."""
        ...


def dominating_pairs(leaf: Leaf, relation: Relation) -> tuple[Pair, Pair]:
    """The pairs for the two directions of the relation; they are equal if it is symmetric."""
    base: Pair
    if leaf.kind == "gaussian":
        base = GaussianPair(leaf.size)
    elif leaf.kind == "laplace":
        base = LaplacePair(leaf.size)
    else:
        base = PurePair(leaf.size)
    if leaf.sampled == "no" or leaf.rate >= 1:
        return base, base
    sampled = SampledPair(base, leaf.rate)
    if relation != "replace-one":
        return sampled, SwappedPair(sampled)
    symmetric = SymmetricPair(sampled)
    return symmetric, symmetric


@dataclass(frozen=True)
class GaussianPair:
    """P = N(mu, 1), Q = N(0, 1); the loss is mu x - mu^2/2."""

    mu: float

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Differences of the normal distribution function, computed from the nearer tail."""
        points = edges / self.mu + self.mu / 2
        return _normal_cells(points - self.mu), _normal_cells(points)

    def span(self, below: float, above: float) -> tuple[float, float]:
        """mu^2/2 plus and minus mu times a normal quantile."""
        down, up = (self.mu * -float(ndtri_exp(math.log(tail))) for tail in (below, above))
        return self.mu**2 / 2 - down, self.mu**2 / 2 + up


@dataclass(frozen=True)
class LaplacePair:
    """Two Laplace distributions, shifted by ``epsilon`` scales; the loss has atoms at +-epsilon."""

    epsilon: float

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Two atoms; between them the densities exp((l - eps)/2)/4 and exp(-(l + eps)/2)/4."""
        inner = np.clip(edges, -self.epsilon, self.epsilon)
        p_below = np.where(
            edges < -self.epsilon,
            0.0,
            np.where(edges >= self.epsilon, 1.0, np.exp((inner - self.epsilon) / 2) / 2),
        )
        q_above = np.where(
            edges < -self.epsilon,
            1.0,
            np.where(edges >= self.epsilon, 0.0, np.exp(-(inner + self.epsilon) / 2) / 2),
        )
        p = np.diff(p_below, prepend=0.0, append=1.0)
        q = -np.diff(q_above, prepend=1.0, append=0.0)
        return p, q

    def span(self, below: float, above: float) -> tuple[float, float]:
        """The loss never leaves [-epsilon, epsilon]."""
        del below, above
        return -self.epsilon, self.epsilon


@dataclass(frozen=True)
class PurePair:
    """Randomised response: it dominates every mechanism that is epsilon-DP."""

    epsilon: float

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """One atom at +epsilon and one at -epsilon."""
        cells = np.searchsorted(edges, [self.epsilon, -self.epsilon], side="left")
        likely, unlikely = expit(self.epsilon), expit(-self.epsilon)
        p, q = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
        np.add.at(p, cells, [likely, unlikely])
        np.add.at(q, cells, [unlikely, likely])
        return p, q

    def span(self, below: float, above: float) -> tuple[float, float]:
        """The loss is epsilon or -epsilon."""
        del below, above
        return -self.epsilon, self.epsilon


@dataclass(frozen=True)
class SampledPair:
    """(rate P + (1 - rate) Q, Q): the loss l becomes log(1 - rate + rate exp(l)).

    The base is one of the symmetric pairs above: its loss under Q is minus its loss under P.
    """

    base: Pair
    rate: float

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """The masses of the base between the losses that sampling maps to the edges."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            small = np.log1p(np.expm1(np.minimum(edges, 30.0)) / self.rate)
            large = edges - math.log(self.rate)  # exp(-30) is below rounding
        inner = np.where(edges > 30.0, large, small)
        inner = np.where(edges <= math.log1p(-self.rate), -np.inf, inner)
        p, q = self.base.masses(inner)
        return self.rate * p + (1 - self.rate) * q, q

    def span(self, below: float, above: float) -> tuple[float, float]:
        """Images of base losses: the lower end comes from Q, the upper end from P."""
        low, high = -self.base.span(below, below)[1], self.base.span(below, above)[1]
        return self._image(low), self._image(high)

    def swapped_span(self, below: float, above: float) -> tuple[float, float]:
        """The span of the loss of (Q, rate P + (1 - rate) Q)."""
        low, high = self.base.span(below, above)
        return -self._image(-low), -self._image(-high)

    def _image(self, loss: float) -> float:
        return float(np.logaddexp(math.log1p(-self.rate), loss + math.log(self.rate)))


@dataclass(frozen=True)
class SwappedPair:
    """(Q, P): the other direction of a relation that is not symmetric."""

    base: SampledPair

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """The masses of the base with the sign of the loss reversed."""
        p, q = self.base.masses(-edges[::-1])
        return q[::-1], p[::-1]

    def span(self, below: float, above: float) -> tuple[float, float]:
        """The losses under Q with the sign reversed."""
        return self.base.swapped_span(below, above)


@dataclass(frozen=True)
class SymmetricPair:
    """The base above loss 0, the swapped base below 0, and the remaining mass at 0."""

    base: SampledPair

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Masses for edges that include 0 (those of every grid do)."""
        zero = int(np.searchsorted(edges, 0.0))
        p_up, q_up = self.base.masses(edges[zero:])
        p_down, q_down = SwappedPair(self.base).masses(edges[: zero + 1])
        p = np.concatenate([p_down[: zero + 1], p_up[1:]])
        q = np.concatenate([q_down[: zero + 1], q_up[1:]])
        p[zero] += max(0.0, 1.0 - float(p.sum()))
        q[zero] += max(0.0, 1.0 - float(q.sum()))
        return p, q

    def span(self, below: float, above: float) -> tuple[float, float]:
        """The lower end of the swapped base and the upper end of the base."""
        low, high = self.base.swapped_span(below, above)[0], self.base.span(below, above)[1]
        return min(low, 0.0), max(high, 0.0)


def _normal_cells(points: Floats) -> Floats:
    """Standard normal masses of the cells between points, with full relative precision."""
    below = np.concatenate([[0.0], ndtr(points), [1.0]])
    above = np.concatenate([[1.0], ndtr(-points), [0.0]])
    right = np.concatenate([[False], points > 0])
    return np.where(right, above[:-1] - above[1:], below[1:] - below[:-1])
