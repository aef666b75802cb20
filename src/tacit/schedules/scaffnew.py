"""The number of local steps and rounds that DP-ScaffNew plans for a budget (arXiv:2304.05127).

eta* = 1/L, p* = sqrt(mu/L), and T* minimises an upper bound on the error of the stacked state

    psi_T <= (1 - mu/L)^T psi_0 + noise(T),    noise ~ v C^2 N d log(1/delta) T / eps^2.

The paper leaves the constant v open; here it is computed from (eps, delta). The bound is
pessimistic: its noise term N d sigma^2 covers the stacked state of all N clients, and only
d sigma^2 of it affects the model. T* is a diagnostic: it needs psi_0, which is private unless a
public bound is given. If T* is not positive, the bound predicts no gain from training; then T* is
clamped with a warning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.accounting.gaussian import gdp_mu, zcdp_rho
from tacit.errors import TacitError


@dataclass(frozen=True)
class ScaffNewPlan:
    """The parameters that the paper chooses for one problem and budget."""

    step: float
    probability: float
    iterations: float
    warning: str | None

    @property
    def local_steps(self) -> float:
        """The expected number of local steps between two communications."""
        return 1 / self.probability

    @property
    def communications(self) -> float:
        """The expected number of communications in the clamped number of iterations."""
        return max(1.0, self.probability * max(self.iterations, 1.0))


@dataclass(frozen=True)
class ScaffNewProblem:
    """The inputs of the bound; if any of them is private, the result is an oracle value."""

    psi0: float
    strong_convexity: float
    smoothness: float
    clients: int
    dimension: int
    clip: float

    def __post_init__(self) -> None:
        if not 0 < self.strong_convexity <= self.smoothness:
            raise TacitError("give 0 < strong_convexity <= smoothness (mu and L of a client).")
        if min(self.psi0, self.clip) <= 0 or min(self.clients, self.dimension) < 1:
            raise TacitError("psi0, clip, clients and dimension must be positive.")


def noise_constant(epsilon: float, delta: float, *, exact: bool = True, factor: float = 2) -> float:
    """v, defined by sigma^2 = v C^2 K log(1/delta) / eps^2 for sensitivity ``factor`` * C."""
    mu_squared = gdp_mu(epsilon, delta) ** 2 if exact else 2 * zcdp_rho(epsilon, delta)
    return factor**2 * epsilon**2 / (mu_squared * math.log(1 / delta))


def scaffnew_plan(
    problem: ScaffNewProblem, epsilon: float, delta: float, constant: float | None = None
) -> ScaffNewPlan:
    """eta*, p* and T*; the exact constant v is used unless another one is given."""
    ratio = problem.strong_convexity / problem.smoothness
    v = noise_constant(epsilon, delta) if constant is None else constant
    rate = -math.log1p(-ratio) if ratio < 1 else math.inf
    scale = v * problem.clip**2 * problem.clients * problem.dimension * math.log(1 / delta)
    argument = problem.psi0 * epsilon**2 * rate / scale
    iterations = math.log(argument) / rate if math.isfinite(rate) else 1.0
    warning = None
    if iterations <= 0:
        warning = (
            f"the bound predicts no gain from training at this budget (T* = {iterations:.0f}): it"
            " is clamped to one communication; decide by a simulation on public data."
        )
    return ScaffNewPlan(1 / problem.smoothness, math.sqrt(ratio), iterations, warning)


def bound_curve(
    problem: ScaffNewProblem, epsilon: float, delta: float, iterations: list[int]
) -> list[float]:
    """The upper bound on psi_T for each T, with the exact constant."""
    ratio = problem.strong_convexity / problem.smoothness
    v = noise_constant(epsilon, delta)
    per_step = v * problem.clip**2 * math.log(1 / delta) / epsilon**2
    noise = per_step * problem.clients * problem.dimension
    return [(1 - ratio) ** t * problem.psi0 + noise * t for t in iterations]
