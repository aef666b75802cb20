"""Amplification has premises: the exact mixtures that a careless charge would not cover.

An observer who learns in which rounds the unit's client takes part sees plain Gaussians there. With
``m`` of ``T`` rounds at mu each, delta(epsilon) is the mean over m of the Gaussian's own: exact, no
bound. Whoever charges such a run as sampled prints a number that this one exceeds.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from experiments.fedexp_variants import FedEXPVariants
from tacit.accounting import (
    Budget,
    FixedSize,
    Poisson,
    calibrate,
    epsilon_of,
    gaussian_event,
    gdp_delta,
)
from tacit.algorithms import Auto, DPFedAvg
from tacit.errors import TacitError
from tacit.planning import Plan
from tacit.population import Population
from tacit.sampling import FixedCohort, PoissonCohort
from tacit.tasks.logistic import Logistic

BUDGET = Budget(1.0, 1e-5)


def known_participation(epsilon: float, rounds: int, rate: float, mu: float) -> float:
    """Delta against somebody who knows in which rounds the client took part."""
    return float(
        sum(
            binom.pmf(m, rounds, rate) * gdp_delta(epsilon, mu * math.sqrt(m))
            for m in range(1, rounds + 1)
        )
    )


def true_epsilon(delta: float, rounds: int, rate: float, mu: float) -> float:
    """The epsilon of that mixture at delta."""
    return float(brentq(lambda e: known_participation(e, rounds, rate, mu) - delta, 0, 500))


def careless(rate: float, rounds: int, budget: Budget) -> float:
    """The noise of somebody who charges Poisson sampling whatever is sampled."""
    return calibrate(
        lambda noise: gaussian_event(
            radius=1, noise=noise, relation="zero-out", sampling=Poisson(rate=rate), count=rounds
        ),
        budget,
        relation="zero-out",
    )


def test_a_record_is_not_hidden_by_the_cohort_of_clients() -> None:
    """Its siblings shift the sum by far more than the noise, and so show when it takes part."""
    rounds, rate = 60, 0.1
    noise = careless(rate, rounds, BUDGET)
    truth = true_epsilon(BUDGET.delta, rounds, rate, 1 / noise)
    assert truth == pytest.approx(4.038, abs=1e-3)
    assert known_participation(1.0, rounds, rate, 1 / noise) == pytest.approx(0.05896, abs=1e-5)
    method = Auto(
        noise=noise,
        protects="record",
        noise_at="aggregate",
        clients_per_round=PoissonCohort(rate),
        centre="public",
    )
    plan = Plan(method, Logistic(features=3), Population((50,) * 20), rounds)
    printed = plan.guarantee(BUDGET.delta)
    assert printed.epsilon > truth
    assert not printed.sampled
    assert any("amplifies nothing" in warning for warning in plan.warnings())


@pytest.mark.parametrize(
    ("clients", "cohort", "rounds", "truth"),
    [(2, 1, 10, 3.055), (100, 10, 50, 7.240)],
)
def test_a_fixed_cohort_hides_nobody_from_the_other_clients(
    clients: int, cohort: int, rounds: int, truth: float
) -> None:
    """All others together know when they were asked, and so when the last one was."""
    budget, sampling = Budget(2.0, 1e-5), FixedSize(sample=cohort, population=clients)

    def event(noise: float) -> object:
        return gaussian_event(
            radius=1, noise=noise, relation="replace-one", sampling=sampling, count=rounds
        )

    noise = calibrate(event, budget, relation="replace-one")
    found = true_epsilon(budget.delta, rounds, cohort / clients, 2 / noise)
    assert found == pytest.approx(truth, abs=1e-3)
    assert epsilon_of(event(noise), delta=budget.delta, relation="replace-one") <= 2.0
    method = DPFedAvg(noise=noise, clients_per_round=FixedCohort(cohort), relation="replace-one")
    plan = Plan(method, Logistic(features=3), Population((5,) * clients), rounds)
    assert plan.guarantee(budget.delta).epsilon > found
    assert any("amplifies nothing" in warning for warning in plan.warnings())


def test_poisson_cohorts_of_clients_are_amplified() -> None:
    """Independent coins: what the others know of their own says nothing about one's own."""
    method = DPFedAvg(noise=careless(0.1, 60, BUDGET), clients_per_round=PoissonCohort(0.1))
    plan = Plan(method, Logistic(features=3), Population((5,) * 100), 60)
    printed = plan.guarantee(BUDGET.delta)
    assert 0.99 < printed.epsilon <= 1.0
    assert printed.sampled and "Secret: who takes part in a round" in printed.sentence()
    assert plan.warnings() == []


def test_a_state_that_depends_on_the_coins_costs_no_more() -> None:
    """DP-SCAFFOLD with Poisson cohorts: the worst state is the one that always sends C.

    Two rounds; what a client sends in the second depends on whether it took part in the first, by
    any of a grid of lengths. The exact delta, by integrating over both noisy sums, never exceeds
    that of two plain Poisson-sampled rounds.
    """
    import numpy as np
    from scipy.stats import norm

    rate, noise, epsilon = 0.3, 1.0, 1.0
    points = np.linspace(-9, 10, 1200)
    width = points[1] - points[0]
    zero = norm.pdf(points, 0, noise)

    def delta(after_out: float, after_in: float) -> float:
        took = rate * norm.pdf(points, 1.0, noise)
        stayed = (1 - rate) * zero

        def second(length: float) -> np.ndarray:
            return rate * norm.pdf(points, length, noise) + (1 - rate) * zero

        p = np.outer(took, second(after_in)) + np.outer(stayed, second(after_out))
        q = np.outer(zero, zero)
        one = np.maximum(p - math.exp(epsilon) * q, 0).sum() * width**2
        other = np.maximum(q - math.exp(epsilon) * p, 0).sum() * width**2
        return float(max(one, other))

    worst = delta(1.0, 1.0)
    grid = (-1.0, -0.5, 0.0, 0.5, 1.0)
    assert all(delta(a, b) <= worst + 1e-9 for a in grid for b in grid)
    assert worst > delta(0.0, 0.0)


@pytest.mark.parametrize(
    ("noise", "scalar", "rate", "truth"), [(0.5, 0.5, 0.1, 11.582), (1.0, 1.0, 0.01, 0.816)]
)
def test_fields_of_one_cohort_share_one_coin(
    noise: float, scalar: float, rate: float, truth: float
) -> None:
    """Charged with a coin each, a vector and its norm had 7.748 and 0.2455; the truth is exact."""
    method = FedEXPVariants(
        noise=noise,
        scalar_noise=scalar,
        accounting="separate",
        clients_per_round=PoissonCohort(rate),
        relation="zero-out",
    )
    plan = Plan(method, Logistic(features=3), Population((5,) * 100), 1)
    assert plan.guarantee(1e-5).epsilon >= truth - 1e-3


def test_two_exchanges_of_one_secret_cohort_are_refused() -> None:
    class Twice(DPFedAvg):
        def phases(self, task: object, population: object) -> tuple[object, ...]:
            (one,) = super().phases(task, population)
            return (one, replace(one, name="again"))

    method = Twice(noise=1.0, clients_per_round=PoissonCohort(0.5))
    with pytest.raises(TacitError, match="share one secret cohort"):
        Plan(method, Logistic(features=3), Population((5,) * 9), 2)
