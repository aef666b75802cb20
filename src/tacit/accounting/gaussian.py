"""The exact privacy of Gaussian noise (specification 0.1 and E003-9).

A Gaussian mechanism is described by ``mu = sensitivity / standard deviation``. Composition is exact:
the squares add. Its privacy profile is

    delta(eps) = Phi(mu/2 - eps/mu) - exp(eps) * Phi(-mu/2 - eps/mu),

evaluated here in log space, so that no epsilon up to 1e6 overflows.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr

from tacit.accounting.guarantee import Relation, check_delta, check_epsilon
from tacit.errors import TacitError

_SAFE = 1e-12  # relative step to the safe side after root finding


def gdp_log_delta(epsilon: float, mu: float) -> float:
    """The logarithm of ``delta(epsilon)``; minus infinity for ``mu = 0``."""
    if mu == 0:
        return -math.inf
    if math.isinf(mu):
        return 0.0
    first = float(log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    gap = second - first
    if gap >= 0:  # both terms agree to rounding: delta is below what can be told apart
        return first + math.log(1e-16)
    return first + math.log(-math.expm1(gap))


def gdp_delta(epsilon: float, mu: float) -> float:
    """The smallest delta at which noise of parameter ``mu`` gives this epsilon."""
    _check_mu(mu)
    return math.exp(gdp_log_delta(epsilon, mu))


def gdp_eps(mu: float, delta: float) -> float:
    """The smallest epsilon that noise of parameter ``mu`` gives at this delta."""
    _check_mu(mu)
    if check_delta(delta) == 0:
        return 0.0 if mu == 0 else math.inf
    if mu == 0 or math.isinf(mu):
        return mu
    target = math.log(delta)
    if gdp_log_delta(0.0, mu) <= target:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(-2 * target)  # the zCDP bound is never below
    root = float(brentq(lambda e: gdp_log_delta(e, mu) - target, 0.0, high, xtol=1e-14, rtol=1e-14))
    return root * (1 + _SAFE)


def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest ``mu`` that keeps (epsilon, delta): noise is ``sensitivity * sqrt(T) / mu``."""
    check_epsilon(epsilon)
    if check_delta(delta) == 0:
        raise TacitError("Gaussian noise cannot give delta = 0: give a positive delta (1e-5).")
    target = math.log(delta)
    low = math.sqrt(2 * zcdp_rho(epsilon, delta))
    high = 2 * low
    while gdp_log_delta(epsilon, high) < target:
        low, high = high, 2 * high
    root = float(
        brentq(lambda m: gdp_log_delta(epsilon, m) - target, low, high, xtol=1e-15, rtol=1e-14)
    )
    return root * (1 - _SAFE)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The zCDP budget rho that the plain conversion allows at (epsilon, delta)."""
    log_term = -math.log(delta)
    return (epsilon / (math.sqrt(epsilon + log_term) + math.sqrt(log_term))) ** 2


def joint_mu_squared(vector: float, scalar: float, relation: Relation = "replace-one") -> float:
    """The squared ``mu`` of releasing a mean and the mean of squared norms together (E003-9).

    ``vector`` is (C/(M s1))^2 and ``scalar`` is (C^2/(M s2))^2, for noise s1 on the mean and s2 on
    the mean of squared norms of M clients. Replacing a norm a by b moves the first by at most
    (a+b)/M and the second by |a^2-b^2|/M, never both fully: the maximum over b in [0, 1] of
    (1+b)^2 (vector + scalar (1-b)^2) is 4 vector, the cost of the mean alone, unless scalar is
    above 2.77 vector.
    """
    if vector < 0 or scalar < 0:
        raise TacitError("the squared ratios of a joint release cannot be negative.")
    if relation == "add-remove":
        return vector + scalar
    candidates = [0.0, 1.0]
    if scalar > 2 * vector:
        candidates.append((1 - math.sqrt(1 - 2 * vector / scalar)) / 2)
    return max((1 + b) ** 2 * (vector + scalar * (1 - b) ** 2) for b in candidates)


def _check_mu(mu: float) -> None:
    if not mu >= 0:
        raise TacitError(f"mu is {mu}; it is sensitivity over noise and cannot be negative or NaN.")
