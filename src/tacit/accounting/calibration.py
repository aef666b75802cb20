"""Calibration: the smallest noise that stays within a privacy budget.

Every function takes a mapping from noise to privacy event and searches for the noise with an
accountant, so the calibrated event is exactly the event that is charged later. The result never
exceeds the budget and uses at least 99.9 % of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tacit.accounting.accountants import epsilon_of, tightest
from tacit.accounting.events import DpEvent, compose
from tacit.accounting.gaussian import gdp_delta, gdp_eps, gdp_mu
from tacit.accounting.guarantee import Budget, Relation, rounded_up
from tacit.accounting.leaves import leaves
from tacit.errors import BudgetError, TacitError

# The search stops when epsilon is this close below the budget (relative distance).
_TOLERANCE = {"exact": 1e-10, "pure": 1e-10, "zcdp": 1e-10}
_DEFAULT_TOLERANCE = 2e-4
_HUGE = 1e12


@dataclass(frozen=True)
class Part:
    """One of several releases that are calibrated together.

    ``share`` is its share of the budget's squared mu. Exactly one part has no share: it gets the
    rest of the budget.
    """

    event: Callable[[float], DpEvent]
    share: float | None = None


def calibrate(
    event: Callable[[float], DpEvent],
    budget: Budget,
    *,
    relation: Relation,
    accountant: str = "best",
    start: float = 1.0,
) -> float:
    """The smallest noise whose event stays within the budget; epsilon must fall as noise grows.

    To calibrate several releases with one factor, let ``event`` scale them all.
    """

    def spent(noise: float) -> float:
        return epsilon_of(
            event(noise), delta=budget.delta, relation=relation, accountant=accountant
        )

    quick = _from_mu(event, budget, relation, start) if accountant == "best" else None
    if quick is not None and budget.epsilon * (1 - 1e-9) <= spent(quick) <= budget.epsilon:
        return quick
    low, high = 0.0, start
    eps_high = spent(high)
    while eps_high > budget.epsilon:
        if high > _HUGE * start:
            raise BudgetError(
                f"epsilon {budget.epsilon:g} at delta {budget.delta:g} is not possible here with"
                f" any noise: the smallest possible epsilon is {rounded_up(eps_high)}."
            )
        factor = min(max(eps_high / budget.epsilon, 2.0), 1e3) if math.isfinite(eps_high) else 1e3
        low, high = high, high * factor
        eps_high = spent(high)
    while low == 0.0 and high > start / _HUGE:
        trial = high / 4
        eps_trial = spent(trial)
        if eps_trial > budget.epsilon:
            low = trial
        else:
            high, eps_high = trial, eps_trial
    if low == 0.0:
        return 0.0 if spent(0.0) <= budget.epsilon else high
    name = tightest(event(high), relation) if accountant == "best" else accountant
    tolerance = _TOLERANCE.get(name, _DEFAULT_TOLERANCE)
    return _bisect(spent, (low, high), eps_high, budget.epsilon, tolerance)


def _from_mu(
    event: Callable[[float], DpEvent], budget: Budget, relation: Relation, start: float
) -> float | None:
    """The closed form for Gaussian noise without sampling, where mu is proportional to 1/noise."""
    parts = leaves(event(start), relation)
    if len(parts) != 1 or parts[0].kind != "gaussian" or parts[0].sampled != "no":
        return None
    return start * parts[0].size / gdp_mu(budget.epsilon, budget.delta)


def _bisect(
    spent: Callable[[float], float],
    bracket: tuple[float, float],
    eps_high: float,
    target: float,
    tolerance: float,
) -> float:
    """Shrink the bracket (in log noise) until its upper end is just within the target epsilon."""
    low, high = bracket
    eps_low = spent(low)
    while eps_high < target * (1 - tolerance) and high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        if math.isfinite(eps_low) and eps_high > 0:
            # epsilon is nearly a power of the noise: extrapolate, but stay inside the bracket
            slope = (math.log(eps_low) - math.log(eps_high)) / (math.log(low) - math.log(high))
            aim = target * (1 - tolerance / 2)
            guess = math.log(high) + (math.log(aim) - math.log(eps_high)) / slope
            middle = min(max(math.exp(guess), low**0.98 * high**0.02), low**0.02 * high**0.98)
        eps_middle = spent(middle)
        if eps_middle > target:
            low, eps_low = middle, eps_middle
        else:
            high, eps_high = middle, eps_middle
    return high


def calibrate_split(
    parts: Mapping[str, Part], budget: Budget, *, relation: Relation, accountant: str = "best"
) -> dict[str, float]:
    """Noise for several releases of one run, some with a fixed share of the squared mu.

    A part with share s gets the noise at which it alone would spend the epsilon of a Gaussian with
    mu^2 = s * mu_budget^2, at the budget's delta, or at a smaller delta if that epsilon would be 0.
    The part without a share is then calibrated so that ALL parts together stay within the budget.
    """
    free = [name for name, part in parts.items() if part.share is None]
    shares = [part.share for part in parts.values() if part.share is not None]
    if len(free) != 1:
        raise TacitError("exactly one release of a split must have no share: it gets the rest.")
    if any(not 0 < s < 1 for s in shares) or sum(shares) >= 1:
        raise TacitError(f"the shares {shares} must lie between 0 and 1 and sum to less than 1.")
    mu = gdp_mu(budget.epsilon, budget.delta)
    noises: dict[str, float] = {}
    for name, part in parts.items():
        if part.share is not None:
            own = _of_gaussian(mu * math.sqrt(part.share), budget)
            noises[name] = calibrate(part.event, own, relation=relation, accountant=accountant)
    fixed = compose(*(parts[name].event(noise) for name, noise in noises.items()))
    rest = parts[free[0]].event
    noises[free[0]] = calibrate(
        lambda noise: compose(fixed, rest(noise)), budget, relation=relation, accountant=accountant
    )
    return {name: noises[name] for name in parts}


def _of_gaussian(mu: float, budget: Budget) -> Budget:
    """A budget (epsilon > 0, delta) that a Gaussian with this mu spends exactly."""
    delta = budget.delta
    if gdp_eps(mu, delta) == 0:  # delta alone covers so small a mu: use a smaller delta
        delta = gdp_delta(min(mu, budget.epsilon), mu)  # about mu / 12 if epsilon is mu
    return Budget(gdp_eps(mu, delta), delta)
