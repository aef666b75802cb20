"""Renyi and zero-concentrated accounting: looser than the exact answers, and never below them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import gdp_eps
from tacit.accounting.leaves import Leaf
from tacit.accounting.pld import pld_epsilon
from tacit.accounting.renyi import (
    ORDERS,
    rdp_curve,
    rdp_epsilon,
    rdp_to_eps,
    rdp_to_eps_mironov,
    wang_floor,
    wang_wor,
    zcdp_epsilon,
    zcdp_to_eps,
    zcdp_to_eps_tight,
)
from tacit.errors import TacitError


def test_the_three_conversions_of_the_specification() -> None:
    assert zcdp_to_eps(4.0, 1e-5) == pytest.approx(17.5723, abs=1e-4)
    assert zcdp_to_eps_tight(4.0, 1e-5) == pytest.approx(16.5114, abs=1e-4)
    assert gdp_eps(math.sqrt(8.0), 1e-5) == pytest.approx(15.4562, abs=1e-4)


@given(
    alpha=st.integers(2, 500),
    rdp=st.floats(0, 50),
    delta=st.floats(-12, -1).map(lambda x: 10**x),
)
def test_the_tighter_conversion_is_tighter(alpha: int, rdp: float, delta: float) -> None:
    assert rdp_to_eps(alpha, rdp, delta) <= rdp_to_eps_mironov(alpha, rdp, delta)


@given(mu=st.floats(0.01, 20), delta=st.floats(-12, -1).map(lambda x: 10**x))
def test_all_are_above_the_exact_gaussian(mu: float, delta: float) -> None:
    exact, leaf = gdp_eps(mu, delta), Leaf("gaussian", mu)
    for found in (
        zcdp_epsilon([leaf], delta),
        zcdp_to_eps_tight(mu * mu / 2, delta),
        rdp_epsilon([leaf], delta, "add-remove"),
        rdp_epsilon([leaf], delta, "add-remove", mironov=True),
    ):
        assert found >= exact * (1 - 1e-9)


FEW_ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48)


@settings(max_examples=12)
@given(
    mu=st.floats(-2, 1).map(lambda x: 10**x),
    rate=st.floats(-4, -0.1).map(lambda x: 10**x),
    count=st.integers(1, 2000),
    delta=st.floats(-8, -2).map(lambda x: 10**x),
)
def test_all_are_above_numerical_composition(
    mu: float, rate: float, count: int, delta: float
) -> None:
    for sampled, relation in (("fixed", "replace-one"), ("poisson", "add-remove")):
        leaf = Leaf("gaussian", mu, sampled, rate, count)
        tight = pld_epsilon([leaf], delta, relation)
        renyi = rdp_epsilon([leaf], delta, relation, orders=FEW_ORDERS)
        assert tight <= renyi
        assert renyi <= rdp_epsilon([leaf], delta, relation, mironov=True, orders=FEW_ORDERS)
        if sampled == "fixed":
            assert tight <= rdp_epsilon([leaf], delta, relation, wang=True, orders=FEW_ORDERS)


def test_the_general_bound_has_a_floor_and_its_gaussian_form_has_none() -> None:
    assert wang_floor(0.01, 2) == 0
    for alpha in (3, 8, 40):
        floor = wang_floor(0.01, alpha)
        assert 0 < floor <= wang_wor(1e-6, 0.01, alpha) <= floor * 1.01
        strengthened = rdp_curve([Leaf("gaussian", 1e-3, "fixed", 0.01)], "replace-one", [alpha])[0]
        assert strengthened < floor / 100


@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0, 6.667])
def test_both_forms_agree_at_order_2(mu: float) -> None:
    leaf = Leaf("gaussian", mu, "fixed", 1 / 15)
    strengthened = rdp_curve([leaf], "replace-one", [2])[0]
    assert wang_wor(mu, 1 / 15, 2) == pytest.approx(strengthened, rel=1e-9)


@pytest.mark.parametrize("mu", [1e-12, 1e-6, 30.0, 1e3, 1e6])
def test_extreme_noise_gives_a_finite_curve(mu: float) -> None:
    for leaf in (Leaf("gaussian", mu, "fixed", 0.1), Leaf("gaussian", mu)):
        for wang in (False, True):
            curve = rdp_curve([leaf], "replace-one", ORDERS, wang=wang)
            assert np.all(np.isfinite(curve))
            assert np.all(curve >= 0)


def test_renyi_of_randomised_response_by_hand() -> None:
    p = 1 / (1 + math.exp(-1.5))
    by_hand = math.log(p**4 * (1 - p) ** -3 + (1 - p) ** 4 * p**-3) / 3
    assert rdp_curve([Leaf("pure", 1.5)], "replace-one", [4])[0] == pytest.approx(by_hand)


def test_counts_add_up() -> None:
    one = rdp_curve([Leaf("gaussian", 0.5, "poisson", 0.1)], "add-remove", [2, 5])
    many = rdp_curve([Leaf("gaussian", 0.5, "poisson", 0.1, 7)], "add-remove", [2, 5])
    assert many == pytest.approx(7 * one)
    both = zcdp_epsilon([Leaf("gaussian", 0.5), Leaf("pure", 0.5, count=3)], 1e-5)
    assert both == pytest.approx(zcdp_to_eps(4 * 0.125, 1e-5))


def test_nothing_costs_nothing_and_no_noise_everything() -> None:
    assert rdp_epsilon([], 1e-5, "add-remove") == 0
    assert zcdp_epsilon([], 1e-5) == 0
    assert zcdp_to_eps_tight(0.0, 1e-5) == 0
    assert rdp_epsilon([Leaf("none", math.inf)], 1e-5, "add-remove") == math.inf
    assert zcdp_epsilon([Leaf("none", math.inf)], 1e-5) == math.inf


@pytest.mark.parametrize(
    ("leaf", "relation"),
    [
        (Leaf("gaussian", 1.0, "poisson", 0.1), "replace-one"),
        (Leaf("laplace", 1.0, "fixed", 0.1), "replace-one"),
        (Leaf("pure", 1.0, "poisson", 0.1), "add-remove"),
    ],
)
def test_what_renyi_does_not_know_is_refused(leaf: Leaf, relation: str) -> None:
    with pytest.raises(TacitError, match="use pld"):
        rdp_epsilon([leaf], 1e-5, relation)


def test_zcdp_knows_no_sampling() -> None:
    with pytest.raises(TacitError, match="amplification"):
        zcdp_epsilon([Leaf("gaussian", 1.0, "poisson", 0.1)], 1e-5)
