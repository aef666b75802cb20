"""The exact privacy profile of Gaussian noise (Gaussian differential privacy, GDP).

A Gaussian mechanism is described by ``mu = sensitivity / standard deviation``. Composition is
exact: the squared mu add up. The privacy profile is

    delta(eps) = Phi(mu/2 - eps/mu) - exp(eps) * Phi(-mu/2 - eps/mu),

evaluated in log space, so that no epsilon up to 1e6 overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import erfcx, log_ndtr

from tacit.accounting.guarantee import Relation, check_delta, check_epsilon
from tacit.errors import TacitError

_SAFE = 1e-12  # relative step to the safe side after root finding
_ROUNDING = 2e-9  # upper bound on the rounding error of log delta
_LARGE_MU = 1e8  # above this, the zCDP bound is as precise as floating point allows
_SMALL_MU = 1e-4  # below this, subtracting the two terms of the profile would cancel


def gdp_log_delta(epsilon: float, mu: float) -> float:
    """The logarithm of ``delta(epsilon)``; minus infinity for ``mu = 0``."""
    if mu == 0:
        return -math.inf
    if math.isinf(mu):
        return 0.0
    if mu < _SMALL_MU and epsilon >= 0:
        return _log_delta_of_small_mu(epsilon, mu)
    first = float(log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    gap = second - first
    if gap >= 0:  # the terms are equal up to rounding: delta is below floating-point resolution
        return first + math.log(1e-16)
    return first + math.log(-math.expm1(gap))


def _log_delta_of_small_mu(epsilon: float, mu: float) -> float:
    """The profile as phi(m - mu/2) (R(m - mu/2) - R(m + mu/2)), with m = eps/mu and Mills' ratio R.

    The difference uses the derivative R' = m R - 1 at the midpoint. The result is too small by at
    most mu^2/12 (in log delta), which is added.
    """
    m = epsilon / mu
    if m < 1e3:
        slope = 1 - m * math.sqrt(math.pi / 2) * float(erfcx(m / math.sqrt(2)))
    else:
        slope = (1 - 3 / m / m) / m / m
    if slope == 0:
        return -math.inf
    density = -((m - mu / 2) ** 2) / 2 - math.log(2 * math.pi) / 2
    return density + math.log(mu) + math.log(slope) + mu * mu / 12


def gdp_delta(epsilon: float, mu: float) -> float:
    """The smallest delta of a Gaussian mechanism with parameter ``mu`` at this epsilon."""
    _check_mu(mu)
    if math.isnan(epsilon):
        raise TacitError("epsilon is NaN; give a number.")
    return math.exp(gdp_log_delta(epsilon, mu))


def gdp_eps(mu: float, delta: float) -> float:
    """The smallest epsilon of a Gaussian mechanism with parameter ``mu`` at this delta."""
    _check_mu(mu)
    if check_delta(delta) == 0:
        return 0.0 if mu == 0 else math.inf
    if mu == 0 or math.isinf(mu):
        return mu
    target = math.log(delta) - _ROUNDING
    if gdp_log_delta(0.0, mu) <= target:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(-2 * target)  # the zCDP bound is an upper bound
    if mu > _LARGE_MU:
        return high
    _, share = _crossing(lambda t: gdp_log_delta(t * high, mu) > target, 0.0, 1.0)
    return min((share * (1 + _SAFE) + 2e-14) * high, high)


def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest ``mu`` within (epsilon, delta); the noise is ``sensitivity * sqrt(T) / mu``."""
    check_epsilon(epsilon)
    if check_delta(delta) == 0:
        raise TacitError("Gaussian noise cannot give delta = 0: give a positive delta (1e-5).")
    target = math.log(delta) - _ROUNDING
    low = max(math.sqrt(2 * zcdp_rho(epsilon, delta)), delta)  # delta(0) is below mu / 2
    if low > _LARGE_MU:
        return low
    high = 2 * low
    while gdp_log_delta(epsilon, high) < target:
        low, high = high, 2 * high
    factor, _ = _crossing(
        lambda t: gdp_log_delta(epsilon, low * math.exp(t)) < target, 0.0, math.log(high / low)
    )
    return low * math.exp(factor) * (1 - 50 * _SAFE)  # so that gdp_eps(mu) is within the budget


def _crossing(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Bisection: two numbers between which the condition changes from true to false.

    SciPy's root finders need fewer steps, but loading them takes half a second.
    """
    for _ in range(54):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def classical_sigma(epsilon: float, delta: float) -> float:
    """The textbook noise for a sensitivity of 1; it is proved for epsilon up to 1 only."""
    check_epsilon(epsilon)
    if check_delta(delta) == 0:
        raise TacitError("Gaussian noise cannot give delta = 0: give a positive delta (1e-5).")
    if epsilon > 1:
        raise TacitError(
            f"the classical formula is proved for epsilon up to 1, not {epsilon:g}: use the exact"
            " profile (gdp_mu)."
        )
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest zCDP parameter rho that the standard conversion allows at (epsilon, delta)."""
    log_term = -math.log(delta)
    return (epsilon / (math.sqrt(epsilon + log_term) + math.sqrt(log_term))) ** 2


def joint_mu_squared(vector: float, scalar: float, relation: Relation = "replace-one") -> float:
    """The squared ``mu`` of releasing a mean together with the mean of the squared norms.

    ``vector`` is (C/(M s1))^2 and ``scalar`` is (C^2/(M s2))^2, for noise s1 on the mean and s2 on
    the mean of squared norms of M clients. DP-FedEXP (arXiv:2504.09850) accounts for the two
    releases separately, which is not tight: replacing a client of norm a by one of norm b changes
    the mean by at most (a+b)/M and the scalar by |a^2-b^2|/M, and both cannot be largest at once.
    The maximum over b in [0, 1] of (1+b)^2 (vector + scalar (1-b)^2) is 4 vector, the cost of the
    mean alone, unless scalar is above 2.77 vector.
    """
    if not (0 <= vector < math.inf and 0 <= scalar < math.inf):
        raise TacitError("the squared ratios of a joint release must be finite and not negative.")
    if relation != "replace-one":
        return vector + scalar
    candidates = [0.0, 1.0]
    if scalar > 2 * vector:
        candidates.append((1 - math.sqrt(1 - 2 * vector / scalar)) / 2)
    return max((1 + b) ** 2 * (vector + scalar * (1 - b) ** 2) for b in candidates)


def _check_mu(mu: float) -> None:
    if not mu >= 0:
        raise TacitError(f"mu is {mu}; it is sensitivity / noise and cannot be negative or NaN.")
