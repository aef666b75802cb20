"""What an epsilon means: the best that any attack can do, whatever it computes.

An attacker sees everything that the observer sees, knows all other data, and guesses whether a
unit's contribution is there. Of such guesses the share of right accusations (true positives) is
bounded by the share of wrong ones (false positives):

    Gaussian noise          Phi(Phi^-1(alpha) + mu), exactly (Dong, Roth and Su, 2022)
    any (epsilon, delta)    min( exp(epsilon) alpha + delta, 1 - exp(-epsilon) (1 - delta - alpha) )

Other events have many valid pairs (epsilon, delta); the least bound over some of them counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from scipy.special import ndtr, ndtri

from tacit.accounting.events import DpEvent
from tacit.accounting.guarantee import Relation
from tacit.accounting.leaves import Leaf, leaves
from tacit.accounting.pld import pld_epsilon

RATES = (0.001, 0.01, 0.05)
_DELTAS = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.4)
_UP = 1 + 1e-9
_NEARLY_NOTHING = 0.01  # an epsilon that is worth no further search


def best_attack(
    event: DpEvent,
    relation: Relation,
    rates: Iterable[float] = RATES,
    deltas: Iterable[float] = _DELTAS,
) -> tuple[tuple[float, float], ...]:
    """Pairs of a false-positive rate and the largest true-positive rate at it.

    Where a bound has to be put together of points of the privacy profile, ``deltas`` says which.
    """
    return _best(tuple(leaves(event, relation)), relation, tuple(rates), tuple(sorted(deltas)))


@lru_cache(maxsize=64)
def _best(
    parts: tuple[Leaf, ...], relation: Relation, rates: tuple[float, ...], deltas: tuple[float, ...]
) -> tuple[tuple[float, float], ...]:
    if any(leaf.kind == "none" for leaf in parts):
        return tuple((rate, 1.0) for rate in rates)
    if all(leaf.kind == "gaussian" and leaf.sampled == "no" for leaf in parts):
        mu = parts[0].size if parts else 0.0
        return tuple((rate, gaussian_rate(rate, mu)) for rate in rates)
    known: list[tuple[float, float]] = []
    for delta in deltas:
        known.append((pld_epsilon(parts, delta, relation), delta))
        if known[-1][0] < _NEARLY_NOTHING:
            break  # a larger delta only adds to the bound
    return tuple((rate, bounded_rate(rate, known)) for rate in rates)


def gaussian_rate(rate: float, mu: float) -> float:
    """The exact trade-off of Gaussian noise."""
    return min(1.0, float(ndtr(ndtri(rate) + mu)) * _UP)


def bounded_rate(rate: float, pairs: Iterable[tuple[float, float]]) -> float:
    """The least bound that pairs of epsilon and delta give."""
    found = 1.0
    for epsilon, delta in pairs:
        if epsilon > 700:
            continue
        found = min(
            found,
            math.exp(epsilon) * rate + delta,
            1 - math.exp(-epsilon) * (1 - delta - rate),
        )
    return min(1.0, max(found, rate) * _UP)
