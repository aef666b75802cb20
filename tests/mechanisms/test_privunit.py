"""PrivUnit and ScalarDP: constants, exact likelihood ratios, and the law of what is drawn."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.special import betainc, betaincinv, ndtr

from tacit.accounting import PureDpEvent, epsilon_of, repeated
from tacit.accounting.events import Everyone
from tacit.errors import TacitError
from tacit.mechanisms import PrivUnit
from tacit.mechanisms.privunit import (
    GammaRule,
    _height_at,
    cap_height,
    cap_probability,
    height_rule_b,
    mean_height,
    scalar_constants,
    scalar_sq_norm,
    sq_norm_constants,
)
from tacit.simulation.devices import Precision, precision

RULES: tuple[GammaRule, ...] = ("exact", "A", "B")


@pytest.mark.parametrize(
    ("d", "eps1", "height_a", "height_exact", "cost_a", "cap_a", "m_a", "m_exact"),
    [
        (10, 2.0, 0.31817224085207535, 0.38795641177748796, 1.5845186642227098,
         0.17015648062245042, 0.40268517156905786, 0.4503209894588377),
        (500, 2.0, 0.04273003696930011, 0.052768080800190575, 1.5861821058140277,
         0.16992172611719894, 0.05702214482393772, 0.06457535758310533),
        (5046, 2.0, 0.013438566851295757, 0.0165984574823842, 1.5862500916911062,
         0.16991213703775096, 0.017949304190015083, 0.020330833003092786),
        (100, 1.0, 0.05820957578863957, 0.06200886361118807, 0.9367274156584952,
         0.2815618631051924, 0.100153193408119, 0.10285259366352244),
    ],
)  # fmt: skip
def test_reference_heights(
    d: int,
    eps1: float,
    height_a: float,
    height_exact: float,
    cost_a: float,
    cap_a: float,
    m_a: float,
    m_exact: float,
) -> None:
    loose, exact = cap_height(d, eps1, "A"), cap_height(d, eps1)
    assert loose == pytest.approx(height_a, rel=1e-7)
    assert exact == pytest.approx(height_exact, rel=1e-7)
    assert height_rule_b(d, eps1) is None
    q = cap_probability(d, loose)
    assert q == pytest.approx(cap_a, rel=1e-7)
    assert math.log((1 - q) / q) == pytest.approx(cost_a, rel=1e-7)
    assert mean_height(d, 2.0, loose) == pytest.approx(m_a, rel=1e-7)
    assert mean_height(d, 2.0, exact) == pytest.approx(m_exact, rel=1e-7)


def test_rule_a_alone_would_cost_too_much_in_two_dimensions() -> None:
    printed = math.tanh(1.0) * math.sqrt(math.pi / 2)
    q = cap_probability(2, printed)
    assert math.log((1 - q) / q) > 2.2
    assert cap_height(2, 2.0, "A") == cap_height(2, 2.0) < printed


def test_best_split_of_the_specification() -> None:
    def m(eps0: float) -> float:
        return mean_height(100, eps0, cap_height(100, 4 - eps0))

    assert m(2.0) == pytest.approx(0.144277, rel=1e-5)
    assert m(1.35) == pytest.approx(0.151068, rel=1e-5)
    assert m(1.35) >= max(m(1.25), m(1.45))


def test_rule_b_is_refused_where_it_has_no_height() -> None:
    with pytest.raises(TacitError, match="rule B has no height"):
        cap_height(100, 2.0, "B")
    assert cap_height(100, 20.0, "B") > cap_height(100, 20.0, "A")


@given(
    st.sampled_from([2, 3, 10, 100, 5046, 20_000]),
    st.floats(0.05, 12),
    st.floats(0.05, 20),
    st.sampled_from(RULES),
)
def test_likelihood_ratio_never_exceeds_the_price(
    d: int, eps0: float, eps1: float, rule: GammaRule
) -> None:
    """Densities on the sphere are p/q in the cap and (1-p)/(1-q) outside it."""
    if rule == "B" and height_rule_b(d, eps1) is None:
        return
    q = cap_probability(d, cap_height(d, eps1, rule))
    if q == 0.0:  # below the smallest float: no vector is ever drawn there
        return
    log_p, log_not_p = -math.log1p(math.exp(-eps0)), -math.log1p(math.exp(eps0))
    ratio = (log_p - math.log(q)) - (log_not_p - math.log1p(-q))
    assert ratio <= eps0 + eps1 + 1e-6
    if rule == "exact":
        assert ratio == pytest.approx(eps0 + eps1, rel=1e-6)


def pmf(r: float, eps2: float) -> NDArray[np.float64]:
    """The law of the level that is sent for a length r, with C = 1."""
    k, grown = math.ceil(math.exp(eps2 / 3)), math.exp(eps2)
    low = min(math.floor(k * r), k - 1)
    up = k * r - low
    sent = np.full(k + 1, 1 / (grown + k))
    sent[low] += (1 - up) * (grown - 1) / (grown + k)
    sent[low + 1] += up * (grown - 1) / (grown + k)
    return sent


@pytest.mark.parametrize(
    ("eps2", "c", "k", "a", "b", "c1", "c2", "c3"),
    [
        (2.0, 1.0, 2, 0.7347764641244985, 0.31952093675760224, 0.4695529282489969,
         -0.4695529282489969, 0.32424077019051234),
        (2.0, 0.3, 2, 0.22043293923734955, 0.31952093675760224, 0.4695529282489969,
         -0.14086587847469906, 0.02918166931714611),
        (1.0, 1.0, 2, 1.3729650603039896, 0.6358246728512564, 1.7459301206079794,
         -1.7459301206079794, 1.4071368471323555),
    ],
)  # fmt: skip
def test_reference_scalar_constants(
    eps2: float, c: float, k: int, a: float, b: float, c1: float, c2: float, c3: float
) -> None:
    levels, scale, shift = scalar_constants(eps2)
    assert (levels, scale * c, shift) == (k, pytest.approx(a), pytest.approx(b))
    ours = sq_norm_constants(eps2)
    assert (ours[0], ours[1] * c, ours[2] * c * c) == pytest.approx((c1, c2, c3))


@pytest.mark.parametrize(
    ("r", "law", "second", "estimate"),
    [
        (0.0, (0.7869860421615985, 0.10650697891920075, 0.10650697891920075),
         0.23239371217494997, -0.0625),
        (0.3, (0.37869860421615986, 0.5147944168646393, 0.10650697891920075),
         0.3119607729376005, 0.0875),
        (0.5, (0.10650697891920075, 0.7869860421615985, 0.10650697891920075),
         0.36500548011270084, 0.1875),
        (0.75, (0.10650697891920075, 0.4467465105403996, 0.4467465105403996),
         0.7986995961438254, 0.5625),
    ],
)  # fmt: skip
def test_reference_scalar_moments(
    r: float, law: tuple[float, ...], second: float, estimate: float
) -> None:
    with precision("float64"):
        values = np.asarray(PrivUnit(eps2=2.0).lengths(1.0))
        guesses = np.asarray(scalar_sq_norm(jnp.asarray(values), 2.0, 1.0))
    np.testing.assert_allclose(values, [-0.23477646412449846, 0.5, 1.2347764641244985])
    np.testing.assert_allclose(pmf(r, 2.0), law, rtol=1e-12)
    assert pmf(r, 2.0) @ values == pytest.approx(r, abs=1e-12)
    assert pmf(r, 2.0) @ values**2 == pytest.approx(second, rel=1e-8)
    assert pmf(r, 2.0) @ guesses == pytest.approx(estimate, rel=1e-8)


def test_reference_squared_lengths() -> None:
    with precision("float64"):
        found = scalar_sq_norm(jnp.asarray([-0.07, 0.15, 0.37]), 2.0, 0.3)
    expected = [-0.0232331072628029, 0.009831706076265044, 0.10876689273719709]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@given(st.floats(0, 1), st.floats(0.1, 9), st.floats(0, 1))
def test_scalar_estimates_by_enumeration(r: float, eps2: float, other: float) -> None:
    """E[rhat] = r, 0 <= r^2 - E[s] <= C^2/(4 k^2), and the likelihood ratio is at most e^eps2."""
    k = scalar_constants(eps2)[0]
    with precision("float64"):
        values = np.asarray(PrivUnit(eps2=eps2).lengths(1.0))
        guesses = np.asarray(scalar_sq_norm(jnp.asarray(values), eps2, 1.0))
    law = pmf(r, eps2)
    slack = 1e-9 * float(np.abs(guesses).max())
    assert law.sum() == pytest.approx(1)
    assert law @ values == pytest.approx(r, abs=slack)
    assert -slack <= r**2 - law @ guesses <= 1 / (4 * k * k) + slack
    assert (law / pmf(other, eps2)).max() <= math.exp(eps2) * (1 + 1e-9)


@pytest.mark.parametrize("eps2", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("share", [0.0, 0.31, 0.5, 1.0])
def test_levels_follow_their_law(eps2: float, share: float) -> None:
    unit, draws = PrivUnit(eps2=eps2), 40_000
    keys = jax.random.split(jax.random.key(5), draws)
    levels = jax.vmap(partial(unit._level, share=jnp.float32(share)))(keys)
    law = pmf(share, eps2)
    counts = np.bincount(np.asarray(levels), minlength=len(law))
    assert stats.chisquare(counts, draws * law).pvalue > 1e-3


def projections(
    unit: PrivUnit, d: int, draws: int, dtype: Precision = "float32", length: float = 0.8
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """<c, u> and <c, o> of messages for length * u, o orthogonal to u; and lengths sent."""
    with precision(dtype):
        u = jax.random.normal(jax.random.key(1), (d,))
        u = u / jnp.linalg.norm(u)
        o = jax.random.normal(jax.random.key(2), (d,))
        o = o - jnp.vdot(o, u) * u
        o = o / jnp.linalg.norm(o)

        def one(key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            sent = unit.noised(key, length * u, 1.0, 0)
            value = unit.vector(sent)
            rhat = unit.lengths(1.0)[sent["level"].astype(jnp.int32)]
            return jnp.vdot(value, u), jnp.vdot(value, o), rhat

        keys = jax.random.split(jax.random.key(3), draws)
        found = jax.jit(lambda k: jax.lax.map(one, k, batch_size=500))(keys)
        along, across, rhat = (np.asarray(v, np.float64) for v in found)
    return along, across, rhat


@pytest.mark.parametrize(
    ("d", "draws", "dtype"),
    [
        (2, 40_000, "float32"),
        (3, 40_000, "float64"),
        (10, 40_000, "float32"),
        (100, 40_000, "float64"),
        (5046, 6_000, "float32"),
    ],
)
def test_messages_are_unbiased(d: int, draws: int, dtype: Precision) -> None:
    along, across, _ = projections(PrivUnit(), d, draws, dtype)
    for sample, expected in ((along, 0.8), (across, 0.0)):
        assert abs(sample.mean() - expected) <= 4 * sample.std() / math.sqrt(draws)


def heights(
    unit: PrivUnit, d: int, draws: int, dtype: Precision = "float32"
) -> NDArray[np.float64]:
    along, _, rhat = projections(unit, d, draws, dtype)
    return along / rhat * mean_height(d, unit.eps0, cap_height(d, unit.eps1, unit.gamma))


@pytest.mark.parametrize("d", [2, 3, 10, 100])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_heights_follow_the_beta_law(d: int, dtype: Precision) -> None:
    unit, draws = PrivUnit(eps0=1.0, eps1=1.5), 20_000
    gamma = cap_height(d, unit.eps1)
    q, p, a = cap_probability(d, gamma), 1 / (1 + math.exp(-1.0)), (d - 1) / 2

    def cdf(t: NDArray[np.float64]) -> NDArray[np.float64]:
        above = betainc(a, a, (1 - np.clip(t, -1, 1)) / 2)  # P(<U, u> >= t)
        inside = np.clip(above, 0, q) / q
        outside = np.clip(above - q, 0, 1 - q) / (1 - q)
        return 1 - p * inside - (1 - p) * outside

    sample = heights(unit, d, draws, dtype)
    assert stats.kstest(sample, cdf).pvalue > 1e-3
    hits = int((sample >= gamma).sum())
    assert abs(hits - p * draws) <= 4 * math.sqrt(draws * p * (1 - p))


def test_heights_follow_rejection_sampling() -> None:
    d, unit, draws = 10, PrivUnit(eps0=1.0, eps1=1.0), 8_000
    rng, gamma = np.random.default_rng(4), cap_height(10, 1.0)
    normal = rng.standard_normal((12 * draws, d))
    uniform = normal[:, 0] / np.linalg.norm(normal, axis=1)
    coins = rng.random(draws) < 1 / (1 + math.exp(-1.0))
    inside, outside = uniform[uniform >= gamma], uniform[uniform < gamma]
    kept = np.where(coins, inside[:draws], outside[:draws])
    assert stats.ks_2samp(heights(unit, d, draws), kept).pvalue > 1e-3


@pytest.mark.parametrize("d", [2, 3, 4, 10, 100, 5046])
def test_the_table_of_heights_is_accurate(d: int) -> None:
    z, a = np.random.default_rng(0).uniform(-8, 8, 20_000), (d - 1) / 2
    exact = np.sign(-z) * (1 - 2 * betaincinv(a, a, ndtr(-np.abs(z))))
    with precision("float64"):
        assert np.abs(np.asarray(_height_at(d, jnp.asarray(z))) - exact).max() < 1e-9
    with precision("float32"):
        single = np.asarray(_height_at(d, jnp.asarray(z, jnp.float32)))
    assert np.abs(single - exact).max() < 1e-5 / math.sqrt(d)


def test_the_rest_is_orthogonal_and_of_the_right_length() -> None:
    """Every message is rhat V / m with |V| = 1."""
    unit = PrivUnit()
    value = {"w": jnp.arange(1.0, 7.0).reshape(2, 3) / 10, "b": jnp.ones(2) / 10}
    m = mean_height(8, 2.0, cap_height(8, 2.0))
    for seed in range(20):
        sent = unit.noised(jax.random.key(seed), value, 1.0, 0)
        assert jax.tree.structure(unit.vector(sent)) == jax.tree.structure(value)
        leaves = [np.ravel(v) for v in jax.tree.leaves(unit.vector(sent))]
        rhat = float(unit.lengths(1.0)[int(sent["level"])])
        assert np.linalg.norm(np.concatenate(leaves)) == pytest.approx(abs(rhat) / m, rel=1e-5)


def test_a_zero_update_is_safe_and_unbiased() -> None:
    unit, draws = PrivUnit(), 20_000
    sent = jax.vmap(lambda k: unit.vector(unit.noised(k, jnp.zeros(5), 1.0, 0)))(
        jax.random.split(jax.random.key(0), draws)
    )
    values = np.asarray(sent, np.float64)
    assert np.isfinite(values).all()
    assert (np.abs(values.mean(0)) <= 4 * values.std(0) / math.sqrt(draws)).all()


def test_one_number_has_no_direction() -> None:
    with pytest.raises(TacitError, match="at least two numbers"):
        PrivUnit().noised(jax.random.key(0), jnp.ones(1), 1.0, 0)


def test_price_of_messages() -> None:
    unit = PrivUnit(1.0, 2.0, 3.0)
    event = unit.event(0, relation="replace-one", shape="ball", sampling=Everyone(), count=1)
    assert event == PureDpEvent(6.0)
    assert unit.scaled(2.0).epsilon == 3.0
    total = epsilon_of(repeated(event, 50), delta=0.0, relation="replace-one")
    assert total == pytest.approx(300.0)


@pytest.mark.parametrize("name", ["eps0", "eps1", "eps2"])
def test_budgets_are_positive(name: str) -> None:
    with pytest.raises(TacitError, match=name):
        PrivUnit(**{name: 0.0})
