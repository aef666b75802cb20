"""PrivUnit and ScalarDP: constants, exact likelihood ratios, and the law of what is drawn."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import lru_cache, partial
from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.special import betainc, betaincinv, expit

from tacit import random_numbers
from tacit.accounting import PureDpEvent, epsilon_of, repeated
from tacit.accounting.events import Everyone
from tacit.errors import TacitError
from tacit.mechanisms import PrivUnit
from tacit.mechanisms.privunit import (
    GammaRule,
    _height_at,
    cap_of,
    height_rule_b,
    scalar_constants,
    scalar_sq_norm,
    sq_norm_constants,
)
from tacit.precision import Precision, precision
from tacit.simulation.constants import traced

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
    loose, exact = cap_of(d, 2.0, eps1, "A"), cap_of(d, 2.0, eps1)
    assert loose == pytest.approx((height_a, cap_a, m_a), rel=1e-7)
    assert exact == pytest.approx((height_exact, 1 / (1 + math.exp(eps1)), m_exact), rel=1e-7)
    assert height_rule_b(d, eps1) is None
    assert math.log(1 / loose.share - 1) == pytest.approx(cost_a, rel=1e-7)


def test_rule_a_alone_would_cost_too_much_in_two_dimensions() -> None:
    printed = math.tanh(1.0) * math.sqrt(math.pi / 2)
    share = math.acos(printed) / math.pi  # of the circle
    assert math.log(1 / share - 1) > 2.2
    assert cap_of(2, 1.0, 2.0, "A") == cap_of(2, 1.0, 2.0)
    assert cap_of(2, 1.0, 2.0).height == pytest.approx(math.cos(math.pi / (1 + math.e**2)))


def test_best_split_of_the_specification() -> None:
    def m(eps0: float) -> float:
        return cap_of(100, eps0, 4 - eps0).mean

    assert m(2.0) == pytest.approx(0.144277, rel=1e-5)
    assert m(1.35) == pytest.approx(0.151068, rel=1e-5)
    assert m(1.35) >= max(m(1.25), m(1.45))


def test_rule_b_is_refused_where_it_has_no_height() -> None:
    with pytest.raises(TacitError, match="rule B has no height"):
        cap_of(100, 2.0, 2.0, "B")
    assert cap_of(100, 2.0, 20.0, "B").height > cap_of(100, 2.0, 20.0, "A").height


@given(
    st.sampled_from([2, 3, 10, 100, 5046, 20_000]),
    st.floats(0.05, 12),
    st.floats(0.05, 12),
    st.sampled_from(RULES),
)
def test_likelihood_ratio_never_exceeds_the_price(
    d: int, eps0: float, eps1: float, rule: GammaRule
) -> None:
    """Densities on the sphere are p/q in the cap and (1-p)/(1-q) outside it."""
    if rule == "B" and height_rule_b(d, eps1) is None:
        return
    cap = cap_of(d, eps0, eps1, rule)
    p = 1 / (1 + math.exp(-eps0))
    inside = math.log(p / cap.share)
    outside = math.log((1 - p) / (1 - cap.share))
    assert 0 < inside - outside <= eps0 + eps1 + 1e-9
    if rule == "exact":
        assert inside - outside == pytest.approx(eps0 + eps1, rel=1e-9)
    # The share belongs to the height, so what is charged is what is drawn.
    assert betainc((d - 1) / 2, (d - 1) / 2, (1 - cap.height) / 2) == pytest.approx(
        cap.share, rel=1e-3 if d == 2 else 1e-6
    )


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
    k, scale, shift = scalar_constants(eps2)
    values = scale * (np.arange(k + 1) - shift)
    guesses = np.asarray(scalar_sq_norm(values, eps2, 1.0))  # type: ignore[arg-type]
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
    levels = jax.jit(jax.vmap(partial(unit._level, share=jnp.float32(share))))(keys)
    law = pmf(share, eps2)
    counts = np.bincount(np.asarray(levels), minlength=len(law))
    assert stats.chisquare(counts, draws * law).pvalue > 1e-3


# The choices that eps0 and eps2 pay for.

ALONG = jnp.asarray([0.0, 1.0, 0.0])
Highs = tuple[bool, bool, bool]


def coins(monkeypatch: pytest.MonkeyPatch, unit: PrivUnit) -> tuple[int, int, int]:
    """The thresholds of a message's two coins, and of how many other levels one is drawn."""
    flipped, counts = list[int](), list[int]()
    coin, below = random_numbers.coin, random_numbers.below

    def seen_coin(key: jax.Array, threshold: int) -> jax.Array:
        flipped.append(threshold)
        return coin(key, threshold)

    def seen_below(key: jax.Array, count: int) -> jax.Array:
        counts.append(count)
        return below(key, count)

    with monkeypatch.context() as patched:
        patched.setattr(random_numbers, "coin", seen_coin)
        patched.setattr(random_numbers, "below", seen_below)
        unit.noised(jax.random.key(0), ALONG, 1.0, 0)
    (outside, stray), (levels,) = flipped, counts
    return outside, stray, levels


@pytest.mark.parametrize("eps0", [1e-3, 0.1, 2.0, 15.0, 17.0, 30.0])
def test_the_choice_of_the_cap_costs_eps0_and_no_more(
    monkeypatch: pytest.MonkeyPatch, eps0: float
) -> None:
    """From the whole numbers that are compared, in 60 digits, not by sampling."""
    outside, _, _ = coins(monkeypatch, PrivUnit(eps0=eps0))
    with localcontext() as context:
        context.prec = 60
        price = (Decimal(2**64 - outside) / outside).ln()
        assert Decimal(eps0) * (1 - Decimal("1e-6")) <= price <= Decimal(eps0)


@pytest.mark.parametrize("eps2", [0.1, 2.0, 9.0, 15.0, 17.0, 25.0, 30.0])
def test_the_level_costs_eps2_and_no_more(monkeypatch: pytest.MonkeyPatch, eps2: float) -> None:
    """Of any two levels and any answer, from the whole numbers that are compared."""
    _, stray, levels = coins(monkeypatch, PrivUnit(eps2=eps2))
    assert levels == scalar_constants(eps2)[0]
    starts = [-(-j * 2**64 // levels) for j in range(levels + 1)]  # w levels / 2^64 reaches j
    words = [after - start for start, after in pairwise(starts)]
    with localcontext() as context:
        context.prec = 60
        true = Decimal(2**64 - stray) / 2**64
        other = [Decimal(stray) * count / 2**128 for count in (min(words), max(words))]
        price = (true / other[0]).ln()
        assert Decimal(eps2) * (1 - Decimal("1e-6")) <= price <= Decimal(eps2)
        assert (other[1] / other[0]).ln() < min(Decimal(2) ** -48, Decimal(eps2))


@pytest.mark.parametrize("epsilon", [15.0, 17.0, 30.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_some_draw_is_on_the_other_side(
    monkeypatch: pytest.MonkeyPatch, epsilon: float, dtype: Precision
) -> None:
    """A side that no random bits lead to would have an infinite price: the rarest bits are tried.

    Words are 0, and uniform numbers are in turn as high as they can be.
    """
    unit, (levels, _, _) = PrivUnit(eps0=epsilon, eps2=epsilon), scalar_constants(epsilon)
    cap, outside, strayed = cap_of(3, epsilon, unit.eps1), False, False
    monkeypatch.setattr(random_numbers, "words", lambda key, count: jnp.zeros(count, jnp.uint32))
    monkeypatch.setattr(
        random_numbers, "normal", lambda key, count, dtype: jnp.arange(count, dtype=dtype)
    )
    for high in product((False, True), repeat=3):

        def uniform(
            key: jax.Array, shape: tuple[int, ...], dtype: jnp.dtype, high: Highs = high
        ) -> jax.Array:
            del key
            numbers = jnp.where(jnp.asarray(high), 1 - jnp.finfo(dtype).eps, 0.5).astype(dtype)
            return numbers[: math.prod(shape)].reshape(shape)

        monkeypatch.setattr(jax.random, "uniform", uniform)
        with precision(dtype):
            sent = unit.noised(jax.random.key(0), jnp.asarray(ALONG, dtype), 1.0, 0)
            rhat = float(unit.lengths(1.0)[int(sent["level"])])
        outside |= float(sent["vector"][1]) / rhat * cap.mean < cap.height - 0.01
        strayed |= int(sent["level"]) != levels
    assert outside
    assert strayed


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_rest_of_the_sphere_is_chosen_as_often_as_it_should(dtype: Precision) -> None:
    unit, repeats = PrivUnit(eps0=4.0), 40_000
    cap = cap_of(3, unit.eps0, unit.eps1)
    with precision(dtype):
        along = jnp.asarray(ALONG, dtype)
        keys = jax.random.split(jax.random.key(8), repeats)
        draw = jax.jit(jax.vmap(lambda key: unit._direction(*random_numbers.split(key, 3), along)))
        heights = np.asarray(draw(keys))[:, 1] * cap.mean
    outside = int((heights < cap.height).sum())
    assert stats.binomtest(outside, repeats, float(expit(-4.0))).pvalue > 1e-3


@pytest.mark.parametrize("changes", [{"eps0": 2.5}, {"eps2": 2.5}])
def test_budgets_whose_coins_differ_share_no_program(changes: dict[str, float]) -> None:
    def shape(unit: PrivUnit) -> object:
        return traced(lambda key: unit.noised(key, ALONG, 1.0, 0), jax.random.key(0))[0].shape

    assert shape(PrivUnit()) == shape(PrivUnit())
    assert shape(PrivUnit()) != shape(PrivUnit(**changes))


UNIT = PrivUnit(eps0=1.0, eps1=1.5, eps2=2.0)
Sample = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


@partial(jax.jit, static_argnums=0)
def messages(unit: PrivUnit, keys: jax.Array, value: jax.Array, o: jax.Array) -> jax.Array:
    """<c, u>, <c, o> and the length sent, for each key; u is the direction of the value."""
    length = jnp.linalg.norm(value)
    u = jnp.where(length > 0, value / jnp.where(length > 0, length, 1), 0).at[0].add(length == 0)

    def one(key: jax.Array) -> jax.Array:
        sent = unit.noised(key, value, 1.0, 0)
        c = unit.vector(sent)
        rhat = unit.lengths(1.0)[sent["level"].astype(jnp.int32)]
        return jnp.stack([jnp.vdot(c, u), jnp.vdot(c, o), rhat.astype(c.dtype)])

    return jax.lax.map(one, keys, batch_size=500)


@lru_cache(maxsize=16)
def projections(d: int, draws: int, dtype: Precision, length: float = 0.8) -> Sample:
    """Messages for a vector of this length, along it and across it."""
    rng = np.random.default_rng(1)
    u, o = rng.standard_normal((2, d))
    u /= np.linalg.norm(u)
    if length == 0:
        u = np.eye(d)[0]  # what stands in for the direction of zero
    o -= (o @ u) * u
    o /= np.linalg.norm(o)
    with precision(dtype):
        keys = jax.random.split(jax.random.key(3), draws)
        found = messages(UNIT, keys, jnp.asarray(length * u, dtype), jnp.asarray(o, dtype))
        along, across, rhat = np.asarray(found, np.float64).T
    return along, across, rhat


LAWS: list[tuple[int, int, Precision]] = [
    (2, 40_000, "float32"),
    (3, 40_000, "float64"),
    (10, 40_000, "float32"),
    (100, 40_000, "float64"),
    (5046, 6_000, "float32"),
]


@pytest.mark.parametrize(("d", "draws", "dtype"), LAWS)
def test_messages_are_unbiased(d: int, draws: int, dtype: Precision) -> None:
    along, across, _ = projections(d, draws, dtype)
    for sample, expected in ((along, 0.8), (across, 0.0)):
        assert abs(sample.mean() - expected) <= 4 * sample.std() / math.sqrt(draws)


def heights(d: int, draws: int, dtype: Precision) -> NDArray[np.float64]:
    """<V, u> of the messages."""
    along, _, rhat = projections(d, draws, dtype)
    return along / rhat * cap_of(d, UNIT.eps0, UNIT.eps1).mean


@pytest.mark.parametrize(("d", "draws", "dtype"), LAWS)
def test_heights_follow_the_beta_law(d: int, draws: int, dtype: Precision) -> None:
    gamma, q, _ = cap_of(d, UNIT.eps0, UNIT.eps1)
    p, a = 1 / (1 + math.exp(-UNIT.eps0)), (d - 1) / 2

    def cdf(t: NDArray[np.float64]) -> NDArray[np.float64]:
        above = betainc(a, a, (1 - np.clip(t, -1, 1)) / 2)  # P(<U, u> >= t)
        inside = np.clip(above, 0, q) / q
        outside = np.clip(above - q, 0, 1 - q) / (1 - q)
        return 1 - p * inside - (1 - p) * outside

    sample = heights(d, draws, dtype)
    assert stats.kstest(sample, cdf).pvalue > 1e-3
    hits = int((sample >= gamma).sum())
    assert abs(hits - p * draws) <= 4 * math.sqrt(draws * p * (1 - p))


def test_heights_follow_rejection_sampling() -> None:
    d, draws = 10, 40_000
    rng, gamma = np.random.default_rng(4), cap_of(d, UNIT.eps0, UNIT.eps1).height
    normal = rng.standard_normal((6 * draws, d))
    uniform = normal[:, 0] / np.linalg.norm(normal, axis=1)
    coins = rng.random(draws) < 1 / (1 + math.exp(-UNIT.eps0))
    inside, outside = uniform[uniform >= gamma], uniform[uniform < gamma]
    kept = np.where(coins, inside[:draws], outside[:draws])
    assert stats.ks_2samp(heights(d, draws, "float32"), kept).pvalue > 1e-3


@pytest.mark.parametrize("d", [2, 3, 4, 10, 100, 5046])
def test_the_table_of_heights_is_accurate(d: int) -> None:
    z, a = np.random.default_rng(0).uniform(-50, 50, 20_000), (d - 1) / 2
    exact = np.sign(-z) * (1 - 2 * betaincinv(a, a, expit(-np.abs(z))))
    with precision("float64"):
        assert np.abs(np.asarray(_height_at(d, jnp.asarray(z))) - exact).max() < 1e-9
    with precision("float32"):
        single = np.asarray(_height_at(d, jnp.asarray(z, jnp.float32)))
    assert np.abs(single - exact).max() < 1e-5 / math.sqrt(d)


def test_messages_keep_their_shape_and_length() -> None:
    """Every message is rhat V / m with |V| = 1, in the shape of the value."""
    value = {"w": jnp.arange(1.0, 7.0).reshape(2, 3) / 10, "b": jnp.ones(2) / 10}
    m = cap_of(8, UNIT.eps0, UNIT.eps1).mean
    draw = jax.jit(lambda key: UNIT.noised(key, value, 1.0, 0))
    for seed in range(20):
        sent = draw(jax.random.key(seed))
        assert jax.tree.structure(UNIT.vector(sent)) == jax.tree.structure(value)
        leaves = [np.ravel(v) for v in jax.tree.leaves(UNIT.vector(sent))]
        rhat = float(UNIT.lengths(1.0)[int(sent["level"])])
        assert np.linalg.norm(np.concatenate(leaves)) == pytest.approx(abs(rhat) / m, rel=1e-5)


def test_a_zero_update_is_safe_and_unbiased() -> None:
    draws = 40_000
    along, across, rhat = projections(10, draws, "float32", length=0.0)
    assert np.isfinite(along).all()
    for sample in (along, across, rhat):
        assert abs(sample.mean()) <= 4 * sample.std() / math.sqrt(draws)


def test_one_number_has_no_direction() -> None:
    with pytest.raises(TacitError, match="at least two dimensions"):
        PrivUnit().noised(jax.random.key(0), jnp.ones(1), 1.0, 0)


def test_price_of_messages() -> None:
    unit = PrivUnit(1.0, 2.0, 3.0)
    event = unit.event(0, relation="replace-one", shape="ball", sampling=Everyone(), count=1)
    assert event == PureDpEvent(6.0)
    assert unit.scaled(2.0).epsilon == 3.0
    total = epsilon_of(repeated(event, 50), delta=0.0, relation="replace-one")
    assert total == pytest.approx(300.0)


@pytest.mark.parametrize("name", ["eps0", "eps1", "eps2"])
@pytest.mark.parametrize("value", [0.0, -1.0, 40.1, 1e3, math.nan])
def test_budgets_are_positive_and_within_reach(name: str, value: float) -> None:
    with pytest.raises(TacitError, match=name):
        PrivUnit(**{name: value})


def test_a_coin_of_64_bits_ends_at_30() -> None:
    with pytest.raises(TacitError, match=r"at most 30: 64 random bits are exact up to"):
        PrivUnit(eps0=40.0)
