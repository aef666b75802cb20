"""PrivUnitG: the exact likelihood ratio, the best split, and the law of what is drawn."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.special import log_ndtr

from tacit import random_numbers
from tacit.accounting import PureDpEvent, epsilon_of
from tacit.accounting.events import Everyone
from tacit.errors import TacitError
from tacit.mechanisms import PrivUnitG
from tacit.mechanisms.privunitg import HalfSpace, Sampler, _by_rejection, half_space, split_at
from tacit.mechanisms.rounded import exact_noise

EPSILONS = st.floats(0.02, 80)


def log_density(half: HalfSpace, v: NDArray[np.float64], u: NDArray[np.float64]) -> float:
    """The log density of a message before it is scaled, over the standard normal one."""
    if v @ u >= half.edge:
        return math.log(half.chance) - float(log_ndtr(-half.edge))
    return math.log1p(-half.chance) - float(log_ndtr(half.edge))


@given(EPSILONS, st.integers(0, 2**31), st.integers(2, 40))
def test_the_likelihood_ratio_never_exceeds_the_price(epsilon: float, seed: int, d: int) -> None:
    """Any two directions, at points drawn around either: computed from p, q and the edge alone."""
    half, rng = half_space(epsilon), np.random.default_rng(seed)
    u, w = (x / np.linalg.norm(x) for x in rng.standard_normal((2, d)))
    for scale in (0.0, half.edge, 2 * half.edge):
        v = rng.standard_normal(d) + scale * (u if rng.random() < 0.5 else w)
        assert log_density(half, v, u) - log_density(half, v, w) <= epsilon


@given(EPSILONS)
def test_the_ratio_is_the_price_less_a_slack_for_roundings(epsilon: float) -> None:
    half = half_space(epsilon)
    u = np.array([1.0, 0.0])
    most = log_density(half, 20 * u, u) - log_density(half, -20 * u, u)
    assert epsilon * (1 - 2e-4) <= most <= epsilon * (1 - 0.9e-4)


@given(EPSILONS)
def test_the_share_belongs_to_the_edge_and_the_density_sums_to_one(epsilon: float) -> None:
    half = half_space(epsilon)
    assert stats.norm.sf(half.edge) == pytest.approx(half.share, rel=1e-9)
    mean = stats.norm.pdf(half.edge) * (
        half.chance / half.share - (1 - half.chance) / (1 - half.share)
    )
    assert half.mean == pytest.approx(mean, rel=1e-6)


@settings(max_examples=30)
@given(st.floats(0.1, 60), st.floats(0.001, 0.999))
def test_no_other_split_has_a_larger_mean(epsilon: float, place: float) -> None:
    usable = epsilon * (1 - 1e-4)
    assert split_at(usable, place * usable).mean <= half_space(epsilon).mean * (1 + 1e-9)


def test_at_the_best_split_the_mean_is_the_edge() -> None:
    for epsilon in (0.5, 4.0, 15.66):
        assert half_space(epsilon).mean == pytest.approx(half_space(epsilon).edge, rel=1e-4)


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_ten_times_less_variance_than_the_gaussian(epsilon: float) -> None:
    from tacit.accounting.gaussian import gdp_mu

    gaussian = 2 / gdp_mu(epsilon, 1e-5)  # replace-one moves a message by twice its radius
    assert gaussian**2 / PrivUnitG(epsilon).deviation ** 2 > 8


@partial(jax.jit, static_argnums=(0, 2))
def messages(unit: PrivUnitG, value: jax.Array, draws: int) -> jax.Array:
    keys = jax.random.split(jax.random.key(3), draws)
    return jax.lax.map(lambda key: unit.noised(key, value, 2.0, 0), keys, batch_size=500)


DRAWS = 8_000


@pytest.mark.parametrize("sampler", ["fast", "rejection"])
@pytest.mark.parametrize("length", [2.0, 0.7])
def test_messages_are_unbiased(sampler: Sampler, length: float) -> None:
    """Within four standard errors in every coordinate, for full and for short values."""
    u = np.array([0.6, 0.0, 0.0, -0.8, 0.0], np.float32)
    sent = np.asarray(messages(PrivUnitG(3.0, sampler), jnp.asarray(length * u), DRAWS))
    errors = sent.std(axis=0) / math.sqrt(DRAWS)
    assert (np.abs(sent.mean(axis=0) - length * u) <= 4 * errors).all()


@pytest.mark.parametrize("sampler", ["fast", "rejection"])
@pytest.mark.parametrize("epsilon", [1.0, 6.0])
def test_heights_follow_their_law_and_the_rest_is_normal(sampler: Sampler, epsilon: float) -> None:
    """<V, u> has the mixture's distribution function; across u V is standard normal."""
    half = half_space(epsilon)
    value = jnp.asarray([0.0, 2.0, 0.0])
    sent = np.asarray(messages(PrivUnitG(epsilon, sampler), value, DRAWS), np.float64)
    v = sent / 2.0 * half.mean

    def law(t: NDArray[np.float64]) -> NDArray[np.float64]:
        below = (1 - half.chance) * stats.norm.cdf(np.minimum(t, half.edge)) / (1 - half.share)
        above = half.chance * (1 - stats.norm.sf(t) / half.share)
        return below + np.where(t > half.edge, above, 0)

    assert stats.kstest(v[:, 1], law).pvalue > 1e-3
    assert stats.kstest(v[:, 0], "norm").pvalue > 1e-3
    assert abs(np.corrcoef(v[:, 0], v[:, 1])[0, 1]) < 4 / math.sqrt(DRAWS)
    inside = np.mean(v[:, 1] >= half.edge)
    assert abs(inside - half.chance) < 4 * math.sqrt(half.chance * (1 - half.chance) / DRAWS)


@pytest.mark.parametrize("sampler", ["fast", "rejection"])
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 8.0, 15.0])
def test_the_side_is_an_exact_coin(
    monkeypatch: pytest.MonkeyPatch, sampler: Sampler, epsilon: float
) -> None:
    """The whole number that 64 random bits are compared with is p itself."""
    seen, coin = list[int](), random_numbers.coin

    def spy(key: jax.Array, threshold: int) -> jax.Array:
        seen.append(threshold)
        return coin(key, threshold)

    monkeypatch.setattr(random_numbers, "coin", spy)
    jax.make_jaxpr(lambda key: PrivUnitG(epsilon, sampler).noised(key, jnp.ones(3), 2.0, 0))(
        jax.random.key(0)
    )
    half = half_space(epsilon)
    assert [Fraction(n, 2**64) for n in seen] == [Fraction(half.chance)]
    p, q = Fraction(half.chance), Fraction(half.share)
    assert math.log(p / (1 - p) * (1 - q) / q) <= epsilon


@partial(jax.jit, static_argnums=0)
def rejections(half: HalfSpace, u: jax.Array, keys: jax.Array) -> tuple[jax.Array, ...]:
    """The height of what is sent, and how many blocks it took, for each key."""

    def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        side_key, rest_key = random_numbers.split(key)
        inside = random_numbers.coin(side_key, int(half.chance * 2**64))
        found, blocks = _by_rejection(rest_key, u, half, inside)
        return found @ u, blocks

    return jax.vmap(one)(keys)


@pytest.mark.parametrize("epsilon", [6.0, 8.0])
def test_the_time_of_a_reply_tells_nothing(epsilon: float) -> None:
    """Neither the side nor the height can be told from how many blocks were drawn."""
    half, u = half_space(epsilon), jnp.asarray([0.0, 0.6, -0.8])
    keys = jax.random.split(jax.random.key(6), 6_000)
    heights, blocks = (np.asarray(x) for x in rejections(half, u, keys))
    inside = heights >= half.edge
    assert stats.binomtest(int(inside.sum()), len(inside), half.chance).pvalue > 1e-3
    assert len(set(blocks.tolist())) > 2
    pairs = stats.mannwhitneyu(blocks[inside], blocks[~inside])
    area = pairs.statistic / (inside.sum() * (~inside).sum())
    assert abs(area - 0.5) < 0.05
    for side in (inside, ~inside):
        early = blocks[side] <= np.median(blocks)
        assert stats.ks_2samp(heights[side][early], heights[side][~early]).pvalue > 1e-3


def test_a_zero_update_sends_a_random_direction_of_the_same_law() -> None:
    unit = PrivUnitG(5.0)
    of_zero = np.asarray(messages(unit, jnp.zeros(6), DRAWS))
    of_some = np.asarray(messages(unit, jnp.zeros(6).at[2].set(2.0), DRAWS))
    assert np.isfinite(of_zero).all()
    errors = of_zero.std(axis=0) / math.sqrt(DRAWS)
    assert (np.abs(of_zero.mean(axis=0)) <= 4 * errors).all()
    norms = [np.linalg.norm(sent, axis=1) for sent in (of_zero, of_some)]
    assert stats.ks_2samp(*norms).pvalue > 1e-3  # the length tells nothing


def test_a_tree_keeps_its_shape_and_precision() -> None:
    value = {"w": jnp.ones((3, 2), jnp.float32), "b": jnp.zeros((), jnp.float32)}
    sent = PrivUnitG(2.0).noised(jax.random.key(0), value, 3.0, 0)
    assert jax.tree.map(lambda v: (v.shape, v.dtype), sent) == jax.tree.map(
        lambda v: (v.shape, v.dtype), value
    )


@pytest.mark.parametrize("epsilon", [1e-3, 79.0, 500.0])
def test_extreme_budgets_give_finite_messages(epsilon: float) -> None:
    sent = messages(PrivUnitG(epsilon), jnp.asarray([2.0, 0.0]), 500)
    assert np.isfinite(np.asarray(sent)).all()


def test_a_real_client_draws_by_rejection() -> None:
    """Rejection's vectors come from a law that knows nothing of the value, bit for bit."""
    value, key = jnp.asarray([0.0, 1.0, 0.0]), jax.random.key(4)
    with exact_noise():
        real = PrivUnitG(2.0).noised(key, value, 1.0, 0)
    np.testing.assert_array_equal(real, PrivUnitG(2.0, "rejection").noised(key, value, 1.0, 0))
    assert not np.array_equal(real, PrivUnitG(2.0).noised(key, value, 1.0, 0))


def test_rejection_that_would_never_end_is_refused() -> None:
    with pytest.raises(TacitError, match="smaller epsilon"):
        PrivUnitG(40.0, "rejection").noised(jax.random.key(0), jnp.ones(2), 1.0, 0)


def test_the_price_is_epsilon_for_every_message() -> None:
    event = PrivUnitG(3.0).event(
        0, relation="replace-one", shape="ball", sampling=Everyone(), count=1
    )
    assert event == PureDpEvent(3.0)
    assert epsilon_of(event, delta=0.0, relation="replace-one") == 3.0
    assert PrivUnitG(3.0).scaled(2.0).epsilon == 1.5
    assert float(PrivUnitG(3.0).sq_norm(jnp.zeros(3), 2.0, 0)) == 4.0


@pytest.mark.parametrize("given", [{"epsilon": 0.0}, {"epsilon": math.inf}, {"epsilon": -1.0}])
def test_impossible_budgets_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(TacitError, match="epsilon of PrivUnitG"):
        PrivUnitG(**given)


def test_an_unknown_sampler_is_refused() -> None:
    with pytest.raises(TacitError, match="'fast' or 'rejection'"):
        PrivUnitG(1.0, "quick")  # type: ignore[arg-type]
