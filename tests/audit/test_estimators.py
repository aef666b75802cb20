"""Lower bounds on epsilon hold with their confidence, and are not empty."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit.accounting.best_attack import best_attack, bounded_rate, gaussian_rate
from tacit.accounting.events import Poisson, gaussian_event, pure_event
from tacit.accounting.gaussian import gdp_delta, gdp_eps
from tacit.audit.estimators import (
    epsilon_from_rates,
    interval,
    measured,
    measured_mu,
    one_run,
)
from tacit.errors import TacitError


@pytest.mark.parametrize(("successes", "trials"), [(0, 50), (3, 50), (50, 50), (400, 1000)])
def test_intervals_are_those_of_clopper_and_pearson(successes: int, trials: int) -> None:
    low, high = interval(successes, trials, 0.99)
    exact = stats.binomtest(successes, trials).proportion_ci(0.99, method="exact")
    assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_rates_on_the_curve_give_the_epsilon_of_the_curve() -> None:
    """Where randomised response is played, TPR = e^eps FPR and so on."""
    assert epsilon_from_rates(0.75, 0.25, 0.0) == pytest.approx(math.log(3))
    assert epsilon_from_rates(0.75 + 0.01, 0.25, 0.01) == pytest.approx(math.log(3), abs=0.06)
    assert epsilon_from_rates(0.2, 0.3, 0.0) == 0.0


@pytest.mark.parametrize("mu", [0.5, 1.5])
def test_bounds_hold_with_their_confidence(mu: float) -> None:
    """Of 300 audits at 90 % at most about 30 may be above the truth; far fewer are."""
    rng = np.random.default_rng(int(10 * mu))
    delta = 1e-3
    truth, above, above_mu, shares = gdp_eps(mu, delta), 0, 0, []
    for _ in range(300):
        first, second = rng.standard_normal((2, 2000))
        above += measured(first, second + mu, delta, 0.9).epsilon > truth
        found = measured_mu(first, second + mu, delta, 0.9).mu
        above_mu += found > mu
        shares.append(found / mu)
    assert above <= 30 and above_mu <= 30
    assert np.mean(shares) > 0.5, "a bound that is always 0 would hold, too"


def test_a_louder_claim_than_the_noise_is_found() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((2, 40_000))
    assert measured_mu(first, second + 1.0, 1e-5).mu > 0.9
    assert measured(first, second + 3.0, 1e-5).epsilon > gdp_eps(1.0, 1e-5)


def test_few_draws_are_refused() -> None:
    with pytest.raises(TacitError, match="at least 20 draws"):
        measured(np.zeros(5), np.zeros(5), 1e-5)
    with pytest.raises(TacitError, match="no count"):
        one_run(10, 11, 3, 0.0)


def test_one_run_finds_randomised_response() -> None:
    """Canaries answered truthfully with e^eps / (1 + e^eps) at epsilon 2."""
    truth, canaries = 2.0, 4000
    rng = np.random.default_rng(3)
    right = int((rng.random(canaries) < 1 / (1 + math.exp(-truth))).sum())
    found = one_run(canaries, canaries, right, 0.0)
    assert 0.85 * truth < found < truth
    assert one_run(canaries, canaries, right, 1e-5) < found + 1e-9
    assert one_run(canaries, canaries, canaries // 2, 0.0) < 0.1


def test_one_run_holds_with_its_confidence() -> None:
    rng = np.random.default_rng(4)
    rights = rng.binomial(200, 1 / (1 + math.exp(-1.0)), 100).tolist()
    assert sum(one_run(200, 200, right, 0.0, 0.9) > 1.0 for right in rights) <= 15


# What an epsilon means.


def test_the_best_attack_on_gaussian_noise_is_exact() -> None:
    event = gaussian_event(radius=1.0, noise=2.0, relation="zero-out", count=4)
    for rate, most in best_attack(event, "zero-out"):
        assert most == pytest.approx(stats.norm.cdf(stats.norm.ppf(rate) + 1.0))
        for epsilon in (0.1, 0.5, 1.0, 2.0):  # every point of the profile allows it
            assert most <= math.exp(epsilon) * rate + gdp_delta(epsilon, 1.0) + 1e-9


def test_the_best_attack_on_others_is_bounded_from_all_pairs() -> None:
    assert best_attack(pure_event(1.0), "replace-one", [0.01])[0][1] == pytest.approx(
        0.01 * math.e, rel=1e-3
    )
    sampled = gaussian_event(
        radius=1.0, noise=1.0, relation="zero-out", sampling=Poisson(rate=0.1), count=1
    )
    for rate, most in best_attack(sampled, "zero-out"):
        exact = max(0.1 * gaussian_rate(a, 1.0) + 0.9 * a for a in [rate])
        assert exact <= most <= 2.5 * exact
    assert bounded_rate(0.05, [(1000.0, 0.1)]) == 1.0
