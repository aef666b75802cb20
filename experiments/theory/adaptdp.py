"""The printed calibration of AdaptDP-FedAvg, to reproduce the numbers of its paper.

Equation (3) converts the bound of Wang et al. at the single order alpha* = 1 + ceil(2 log(1/delta)
/ eps): half of epsilon is used by the conversion, half by the gradients. Equation (1) gives a
quarter each to the scalars and the gradients. The bound does not go to zero as the noise grows, so
no noise meets a small budget: such cases are refused. Everything here is looser than
``tacit.accounting``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tacit.accounting.guarantee import rounded_up
from tacit.accounting.renyi import alpha_star, wang_floor, wang_wor
from tacit.errors import BudgetError


@dataclass(frozen=True)
class Silo:
    """The parameters of one client: records, batch size, rounds, local steps."""

    records: int
    batch: int
    rounds: int
    steps: int

    @property
    def rate(self) -> float:
        """The share of the records in a batch."""
        return self.batch / self.records


def equation_3_epsilon(sigma: float, silo: Silo, delta: float) -> tuple[float, int]:
    """The smallest epsilon that equation (3) gives for this noise, and its order.

    ``sigma`` is the noise on the mean gradient in units of C, the sensitivity is 2/b.
    """
    mu, log_term = 2 / silo.batch / sigma, math.log(1 / delta)
    best, order = math.inf, 2
    for alpha in range(2, 2_000):
        spent = 2 * silo.rounds * silo.steps * wang_wor(mu, silo.rate, alpha)
        low = 2 * log_term / (alpha - 1)  # below this, the order would be different
        high = math.inf if alpha == 2 else 2 * log_term / (alpha - 2)
        found = max(spent, low)
        if found < min(best, high):
            best, order = found, alpha
        if low < best / 1e3 or (spent > best and low < best):
            break
    return best, order


def equation_3_noise(epsilon: float, delta: float, silo: Silo) -> float:
    """The noise of DP-FedAvg by equation (3): half of epsilon for the gradients."""
    return _least(silo.rounds * silo.steps, epsilon / 2, epsilon, delta, silo.batch, silo.rate)


def equation_1_noise(
    epsilon: float, delta: float, silo: Silo, radius_batch: int | None = None
) -> tuple[float, float]:
    """The noise of AdaptDP-FedAvg by equation (1): for gradients, and for scalars."""
    gradients = _least(silo.rounds * silo.steps, epsilon / 4, epsilon, delta, silo.batch, silo.rate)
    if radius_batch is None:
        order = alpha_star(epsilon, delta)
        return gradients, (2 / silo.records) * math.sqrt(2 * order * silo.rounds / epsilon)
    scalars = _least(
        silo.rounds, epsilon / 4, epsilon, delta, radius_batch, radius_batch / silo.records
    )
    return gradients, scalars


def _least(
    count: int, allowed: float, epsilon: float, delta: float, batch: int, rate: float
) -> float:
    order = alpha_star(epsilon, delta)
    floor = count * wang_floor(rate, order)
    if floor >= allowed:
        share = allowed / epsilon
        feasible = _smallest_feasible(count, share, delta, rate)
        raise BudgetError(
            f"the printed calibration has no noise for epsilon {epsilon:g}: its bound does not fall"
            f" below {floor:.4g} at order {order}, and the smallest epsilon that it can give here"
            f" is about {rounded_up(feasible)}. Use the accountant pld."
        )

    def excess(log_sigma: float) -> float:
        mu = 2 / batch / math.exp(log_sigma)
        return math.log(count * wang_wor(mu, rate, order)) - math.log(allowed)

    return math.exp(_root(excess))


def _smallest_feasible(count: int, share: float, delta: float, rate: float) -> float:
    for step in range(1, 4_000):
        epsilon = 0.01 * 1.005**step
        if count * wang_floor(rate, alpha_star(epsilon, delta)) < share * epsilon:
            return epsilon
    return math.inf


def _root(function: Callable[[float], float]) -> float:
    """The zero of a decreasing function of log sigma."""
    from scipy.optimize import brentq  # slow to load

    low, high = -12.0, 12.0
    return float(brentq(function, low, high, xtol=1e-14, rtol=1e-14))
