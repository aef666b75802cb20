"""The exact Gaussian profile, against sixty digits of arithmetic and at the ends of its range."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import gdp_delta, gdp_eps, gdp_mu, joint_mu_squared
from tacit.accounting.gaussian import classical_sigma, gdp_log_delta, zcdp_rho
from tacit.accounting.renyi import zcdp_to_eps
from tacit.errors import TacitError

mus = st.floats(-12, 3).map(lambda x: 10.0**x)
epsilons = st.floats(-12, 6).map(lambda x: 10.0**x)
deltas = st.floats(-25, -0.05).map(lambda x: 10.0**x)


def true_log_delta(epsilon: float, mu: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        first = mpmath.erfc((e / m - m / 2) / mpmath.sqrt(2)) / 2
        second = mpmath.exp(e) * mpmath.erfc((e / m + m / 2) / mpmath.sqrt(2)) / 2
        return mpmath.log(first - second)


@given(mu=mus, place=st.floats(-3, 12))
def test_the_profile_is_right_in_log_space(mu: float, place: float) -> None:
    epsilon = max(0.0, mu * (mu / 2 + place))
    assert abs(gdp_log_delta(epsilon, mu) - true_log_delta(epsilon, mu)) < 2e-9


@given(mu=mus, delta=deltas)
def test_epsilon_is_an_upper_bound_and_sharp(mu: float, delta: float) -> None:
    epsilon = gdp_eps(mu, delta)
    assert true_log_delta(epsilon, mu) <= mpmath.log(delta)
    if epsilon > 0:
        assert true_log_delta(epsilon * (1 - 1e-6), mu) > mpmath.log(delta) - 1e-8


@given(epsilon=epsilons, delta=deltas)
def test_mu_keeps_the_budget_and_is_sharp(epsilon: float, delta: float) -> None:
    mu = gdp_mu(epsilon, delta)
    assert true_log_delta(epsilon, mu) <= mpmath.log(delta)
    assert true_log_delta(epsilon, mu * (1 + 1e-6)) > mpmath.log(delta)


@given(epsilon=epsilons, delta=deltas)
def test_spending_the_calibrated_mu_stays_in_the_budget(epsilon: float, delta: float) -> None:
    assert gdp_eps(gdp_mu(epsilon, delta), delta) <= epsilon


@given(mu=mus, delta=deltas, factor=st.floats(1.001, 3))
def test_epsilon_grows_with_mu_and_falls_with_delta(mu: float, delta: float, factor: float) -> None:
    assert gdp_eps(mu * factor, delta) >= gdp_eps(mu, delta)
    assert gdp_eps(mu, delta / factor) >= gdp_eps(mu, delta)


@given(mu=mus, delta=deltas)
def test_the_exact_profile_is_below_zcdp(mu: float, delta: float) -> None:
    assert gdp_eps(mu, delta) <= zcdp_to_eps(mu * mu / 2, delta) * (1 + 1e-8)


@pytest.mark.parametrize("epsilon", [1e3, 1e6, 1e9, 1e15, 1e20, 1e100])
def test_huge_epsilons_neither_overflow_nor_lose_digits(epsilon: float) -> None:
    mu = gdp_mu(epsilon, 1e-5)
    assert epsilon * (1 - 1e-6) <= gdp_eps(mu, 1e-5) <= epsilon * (1 + 1e-15)
    assert mu == pytest.approx(math.sqrt(2 * epsilon), rel=0.2)


def test_the_smallest_epsilons_and_deltas_end() -> None:
    flat = math.sqrt(2 * math.pi) * 1e-5  # delta(0) is mu / sqrt(2 pi)
    assert gdp_mu(1e-200, 1e-5) == pytest.approx(flat, rel=1e-6)
    assert 2.5e-20 < gdp_mu(1e-15, 1e-20) < 1e-15
    assert gdp_eps(1.0, 5e-324) == pytest.approx(38.87, abs=0.01)
    assert gdp_eps(1.0, 1 - 1e-16) == 0


def test_the_ends_of_mu() -> None:
    assert gdp_eps(0.0, 1e-5) == 0
    assert gdp_eps(math.inf, 1e-5) == math.inf
    assert gdp_eps(1e-300, 1e-5) == 0
    assert gdp_eps(1.0, 0.0) == math.inf
    assert gdp_eps(0.0, 0.0) == 0
    assert gdp_delta(1.0, 0.0) == 0
    assert gdp_delta(1.0, math.inf) == 1


def test_a_negative_epsilon_has_its_delta() -> None:
    swapped = 1 - math.exp(-0.3) + math.exp(-0.3) * gdp_delta(0.3, 0.8)
    assert gdp_delta(-0.3, 0.8) == pytest.approx(swapped, rel=1e-12)


@pytest.mark.parametrize("mu", [-1.0, math.nan])
def test_an_impossible_mu_is_refused(mu: float) -> None:
    with pytest.raises(TacitError, match="mu is"):
        gdp_eps(mu, 1e-5)
    with pytest.raises(TacitError, match="mu is"):
        gdp_delta(1.0, mu)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2.0, math.nan])
def test_an_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(TacitError, match="delta is"):
        gdp_eps(1.0, delta)


def test_other_impossible_numbers_are_refused() -> None:
    with pytest.raises(TacitError, match="epsilon is"):
        gdp_mu(0.0, 1e-5)
    with pytest.raises(TacitError, match="delta = 0"):
        gdp_mu(1.0, 0.0)
    with pytest.raises(TacitError, match="NaN"):
        gdp_delta(math.nan, 1.0)


@given(epsilon=st.floats(1e-3, 1.0), delta=st.floats(-12, -2).map(lambda x: 10.0**x))
def test_the_classical_formula_asks_for_more_noise(epsilon: float, delta: float) -> None:
    assert classical_sigma(epsilon, delta) >= 1 / gdp_mu(epsilon, delta)


def test_the_classical_formula_is_refused_where_it_is_not_proved() -> None:
    with pytest.raises(TacitError, match="up to 1"):
        classical_sigma(1.0001, 1e-5)
    with pytest.raises(TacitError, match="delta = 0"):
        classical_sigma(0.5, 0.0)


def test_zcdp_inverse() -> None:
    assert zcdp_to_eps(zcdp_rho(1.7, 1e-6), 1e-6) == pytest.approx(1.7, rel=1e-12)


@given(vector=st.floats(1e-6, 1e3), scalar=st.floats(0, 1e3))
def test_the_joint_release_is_the_maximum_over_all_norms(vector: float, scalar: float) -> None:
    b = np.linspace(0, 1, 20_001)
    brute = float(np.max((1 + b) ** 2 * (vector + scalar * (1 - b) ** 2)))
    found = joint_mu_squared(vector, scalar)
    assert brute * (1 - 1e-12) <= found <= brute * (1 + 1e-6)
    assert found <= 4 * vector + scalar + 1e-9 * found  # never above two separate releases


@pytest.mark.parametrize("ratio", [0.0, 0.16, 2.0, 2.77])
def test_a_small_scalar_is_free(ratio: float) -> None:
    assert joint_mu_squared(0.04, 0.04 * ratio) == pytest.approx(0.16, rel=1e-12)


def test_the_joint_release_under_add_remove_adds() -> None:
    assert joint_mu_squared(0.04, 0.2, "add-remove") == pytest.approx(0.24)


@pytest.mark.parametrize(("vector", "scalar"), [(-1.0, 1.0), (1.0, -1.0), (math.nan, 1.0)])
def test_an_impossible_joint_release_is_refused(vector: float, scalar: float) -> None:
    with pytest.raises(TacitError, match="joint release"):
        joint_mu_squared(vector, scalar)
