"""The printed choices of DP-NormFedAvg (arXiv:2106.07094), to reproduce the numbers of its paper.

Theorem 3 gets the noise from a moments accountant bound with "an absolute constant q" that is
never given, and it holds only for small sampling rates. An accountant gives the noise itself, and
from it the q that the theorem would need (``implied_constant``). Theorem 4 chooses step sizes and
rounds from the quantity rho. Nothing here is used for calibration.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class TheoryChoice(NamedTuple):
    """Theorem 4: step sizes (local and global are equal), scale, and rounds."""

    step_size: float
    scale: float
    rounds: float


def key_quantity(q: float, dimension: int, clients: int, epsilon: float, delta: float) -> float:
    """rho = sqrt(q d log(1/delta)) / (n eps): the cost of privacy for a convex problem."""
    return math.sqrt(q * dimension * math.log(1 / delta)) / (clients * epsilon)


def theorem_variance(
    q: float, rounds: int, scale: float, clients: int, epsilon: float, delta: float
) -> float:
    """sigma^2 = q K C^2 log(1/delta) / (n eps)^2, the variance on the mean of Theorem 3."""
    return q * rounds * scale**2 * math.log(1 / delta) / (clients * epsilon) ** 2


def implied_constant(noise: float, rounds: int, rate: float, epsilon: float, delta: float) -> float:
    """The q at which Theorem 3 gives this noise (on the sum, in units of C) at a cohort rate."""
    return (noise * epsilon / rate) ** 2 / (rounds * math.log(1 / delta))


def theory_choice(
    rho: float, alpha: float, smoothness: float, lipschitz: float, gamma: float, local_steps: int
) -> TheoryChoice:
    """beta = eta = rho/(2 alpha L), C = G E, K = 2 alpha gamma/(C rho^2), if E <= alpha/(2 rho)."""
    scale = lipschitz * local_steps
    return TheoryChoice(rho / (2 * alpha * smoothness), scale, 2 * alpha * gamma / (scale * rho**2))
