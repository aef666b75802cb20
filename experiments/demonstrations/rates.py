"""What an attack achieves: true positives at given false positives, beside the exact bound.

An attack gives each candidate a score; larger means "it was there". Scores come in groups (all
candidates of one model or of one site), because candidates that share noise are not independent:
standard errors are of groups drawn again with replacement.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Guarantee
from tacit.accounting.best_attack import RATES, best_attack

Floats = NDArray[np.float64]
REPEATS, POINTS = 200, 40


class Scores(NamedTuple):
    """The score of each candidate (a row for each group), and whether it was there."""

    values: Floats
    inside: NDArray[np.bool_]

    @property
    def sides(self) -> tuple[Floats, Floats]:
        """The scores of those who were there, and of those who were not."""
        return self.values[self.inside], self.values[~self.inside]


def true_rate(inside: Floats, outside: Floats, rate: float) -> float:
    """The share of right accusations where ``rate`` of the others are accused.

    A coin decides at the threshold itself, where scores may be equal.
    """
    place = len(outside) - 1 - int(rate * len(outside))
    if place < 0:
        return 1.0
    threshold = np.partition(outside, place)[place]
    left = rate - float((outside > threshold).mean())
    coin = left / float((outside == threshold).mean())
    return float((inside > threshold).mean() + coin * (inside == threshold).mean())


def measured(scores: Scores, guarantee: Guarantee | None = None) -> list[dict[str, Any]]:
    """True positives at each of the usual rates, their standard errors, and the exact bound."""
    draws = np.random.default_rng(0)
    groups = len(scores.values)
    again: list[list[float]] = []
    for _ in range(REPEATS):
        rows = draws.integers(groups, size=groups)
        sides = Scores(scores.values[rows], scores.inside[rows]).sides
        again.append([true_rate(*sides, rate) for rate in RATES])
    errors = np.std(again, axis=0)
    most = bounds(guarantee, RATES)
    return [
        {
            "false_positives": rate,
            "true_positives": true_rate(*scores.sides, rate),
            "standard_error": float(error),
            "at_most": limit,
        }
        for rate, error, limit in zip(RATES, errors, most, strict=True)
    ]


def bounds(guarantee: Guarantee | None, rates: tuple[float, ...]) -> list[float]:
    """The most true positives that any attack can have; 1 where nothing is guaranteed."""
    if guarantee is None or math.isinf(guarantee.epsilon):
        return [1.0] * len(rates)
    return [most for _, most in best_attack(guarantee.event, guarantee.relation, rates)]


def curves(scores: Scores, guarantee: Guarantee | None = None) -> dict[str, list[float]]:
    """The measured curve and the exact bound, for a picture on logarithmic axes."""
    inside, outside = scores.sides
    least = max(1e-4, 5 / len(outside))
    rates = tuple(float(r) for r in np.geomspace(least, 1, POINTS))
    return {
        "false_positives": [_short(r) for r in rates],
        "true_positives": [_short(true_rate(inside, outside, r)) for r in rates],
        "at_most": [_short(most) for most in bounds(guarantee, rates)],
    }


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def percent(value: float) -> str:
    """A rate for a table, with as many digits as it deserves."""
    shown = 100 * value
    return f"{shown:.0f} %" if shown >= 99.95 else f"{shown:.{1 if shown >= 1 else 2}f} %"


def cells(found: list[dict[str, Any]]) -> list[str]:
    """One cell for each rate: the measured share with its error, and the bound."""
    return [
        f"{percent(r['true_positives'])} ± {100 * r['standard_error']:.2f}"
        f" (at most {percent(r['at_most'])})"
        if r["at_most"] < 1
        else f"{percent(r['true_positives'])} ± {100 * r['standard_error']:.2f}"
        for r in found
    ]
