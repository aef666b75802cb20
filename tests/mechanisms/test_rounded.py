"""Noise on a grid: the right law, no trace of the value in which numbers can come out."""

from __future__ import annotations

import math
import threading
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit.errors import TacitError
from tacit.mechanisms import Gaussian, Laplace, normals, rounded


def seeded_words(seed: int) -> normals.Words:
    rng = np.random.default_rng(seed)
    return lambda count: rng.integers(0, 2**64, count, dtype=np.uint64)


@pytest.mark.parametrize("bits", [20, 34, 50])
def test_the_law_is_the_standard_normal(bits: int) -> None:
    drawn = normals.rounded_normals(40_000, bits, seeded_words(bits)) * 2.0**-bits
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(drawn * wrong, "norm").pvalue < 1e-9
    assert abs(stats.kurtosis(drawn)) < 0.15
    assert np.abs(drawn).max() > 3.5, "tails are there"


def test_low_bits_are_uniform() -> None:
    """The last steps of the grid carry no trace of how the number was made."""
    drawn = normals.rounded_normals(60_000, 40, seeded_words(1))
    counts = np.bincount(drawn % 16, minlength=16)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_sign_and_floor() -> None:
    drawn = normals.rounded_normals(50_000, 1, seeded_words(2))
    # floor(2 Z): P(-1) = P(0) by symmetry, and 0 stands for [0, 1/2) only.
    share = float(np.mean(drawn == 0))
    assert share == pytest.approx(stats.norm.cdf(0.5) - 0.5, abs=0.008)
    assert float(np.mean(drawn == -1)) == pytest.approx(share, abs=0.012)


def test_the_table_of_thresholds_is_the_law_of_k() -> None:
    weights = [math.exp(-k * k / 2) for k in range(14)]
    cumulated = np.cumsum(weights) / sum(weights)
    found = np.array([threshold / 2**192 for threshold in normals._THRESHOLDS])
    np.testing.assert_allclose(found, cumulated[:-1])


def test_a_tie_in_the_table_is_decided_by_more_bits() -> None:
    threshold = normals._THRESHOLDS[1]
    assert (normals.cell(threshold - 1), normals.cell(threshold)) == (1, 2)
    high, low = threshold >> 128, threshold & (2**128 - 1)
    for more, expected in ((low, 2), (low - 1, 1)):
        given = iter(
            [[high, 0, 0], [more >> 64, more & (2**64 - 1)], [0] * 64]
        )  # k ties; x = 0 and a coin of 0: accepted

        def words(count: int, given: Any = given) -> Any:
            return np.array(next(given)[:count], np.uint64)

        assert normals._candidates(1, 20, words)[0] >> 20 == expected


@given(st.integers(0, 8), st.integers(0, 2**191 - 1), st.integers(0, 2**192 - 1))
def test_the_slow_comparison_agrees_with_floats_where_they_decide(
    k: int, x: int, coin: int
) -> None:
    y = x / 2**191
    gap = math.exp(-y * (2 * k + y) / 2) - coin / 2**192
    if abs(gap) > 1e-12:
        assert normals.accepts(k, x, coin) == (gap > 0)


def test_the_slow_comparison_decides_what_floats_cannot() -> None:
    x, k = 2**190, 1  # y = 1/2: exp(-5/8)
    with localcontext() as context:
        context.prec = 80
        exact = Decimal("-0.625").exp() * 2**192
    assert normals.accepts(k, x, int(exact))
    assert not normals.accepts(k, x, int(exact) + 1)


def test_doubtful_comparisons_are_decided_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(normals, "_DOUBT", 1e-3)
    monkeypatch.setattr(
        normals, "accepts", lambda *given, real=normals.accepts: asked.append(given) or real(*given)
    )
    words = seeded_words(5)
    drawn = normals._candidates(4_000, 30, lambda n: words(n) if n > 2 else np.zeros(n, np.uint64))
    monkeypatch.undo()
    assert len(asked) > 3
    np.testing.assert_array_equal(drawn, normals._candidates(4_000, 30, seeded_words(5)))


def test_what_comes_out_lies_on_one_grid_whatever_went_in() -> None:
    """Mironov's attack looks at which floats are possible; here all values have the same."""
    for value in (0.0, 1 / 3, 0.9999999, -1e-30):
        released = rounded.released(np.full(50, value), 1.5, 1.0, seeded_words(3))
        step = 1.5 * (1 + rounded.SLACK) * 2.0 ** -rounded.grid_bits(50, 1.5)
        places = released / step - 0.5
        np.testing.assert_array_equal(places, np.round(places))


@given(
    st.lists(st.floats(-1, 1, allow_subnormal=True), min_size=1, max_size=40),
    st.floats(1e-3, 100),
    st.floats(1e-6, 1e3),
)
def test_rounding_moves_neighbours_by_less_than_the_slack(
    values: list[float], level: float, radius: float
) -> None:
    first = np.array(values) * radius
    bits = rounded.grid_bits(first.size, level)
    step = level * radius * (1 + rounded.SLACK) * 2.0**-bits
    off = np.array([abs(Fraction(v) / Fraction(step) - round(v / step)) for v in first], float)
    assert off.max() <= 0.5 + 2**-10
    # Two neighbours: at most sqrt(d) steps more apart, which the larger noise pays for.
    moved = 2 * np.sqrt(np.sum(off**2)) * step
    assert moved <= rounded.SLACK / 2 * radius


def test_the_scale_is_never_below_what_is_charged() -> None:
    for count, level in ((1, 0.5), (100_000, 20.0), (10, 1e-4)):
        bits = rounded.grid_bits(count, level)
        step = level * (1 + rounded.SLACK) * 2.0**-bits
        assert step * 2.0**bits > level


def test_bad_levels_and_endless_grids_are_refused() -> None:
    with pytest.raises(TacitError, match="must be positive"):
        rounded.grid_bits(3, 0.0)
    with pytest.raises(TacitError, match="finer than"):
        rounded.grid_bits(10**9, 1e5)


@pytest.mark.parametrize("radius", [0.0, -1.0, 1e-45, 1e-310, math.nan, math.inf, 1e38])
def test_a_radius_that_bounds_nothing_lets_nothing_through(radius: float) -> None:
    """Adaptive methods take their radius from public numbers, which a server could make up."""
    value = np.array([1.0, -2.0, np.nan])
    np.testing.assert_array_equal(rounded.released(value, 1.0, radius), np.zeros(3))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_wild_values_do_not_raise(bad: float) -> None:
    assert np.isfinite(rounded.released(np.array([bad, 0.5]), 1.0, 1.0)).all()


def test_programs_draw_anew_at_every_step_and_every_call() -> None:
    mechanism = Gaussian(2.0)

    @jax.jit
    def steps(value: jax.Array) -> jax.Array:
        def one(step: jax.Array, seen: jax.Array) -> jax.Array:
            key = jax.random.key(0)  # the same key each time: it must not matter
            drawn = mechanism.noised(key, {"a": value, "b": jnp.zeros(())}, 0.5, 0)
            return seen.at[step].set(drawn["a"])

        return jax.lax.fori_loop(0, 40, one, jnp.zeros((40, 500)))

    with rounded.exact_noise():
        seen = np.concatenate([np.asarray(steps(jnp.zeros(500))) for _ in range(2)])
    assert len(np.unique(seen)) > 0.99 * seen.size  # as far as 32 bits can differ
    assert stats.kstest(seen.ravel(), "norm").pvalue > 1e-4  # 2.0 * 0.5


def test_without_asking_nothing_changes() -> None:
    mechanism, key = Gaussian(1.0), jax.random.key(4)
    plain = mechanism.noised(key, jnp.zeros(5), 1.0, 0)
    np.testing.assert_array_equal(plain, mechanism.draw(key, 5, jnp.dtype("float32")))
    with rounded.exact_noise(), rounded.exact_noise(None):
        np.testing.assert_array_equal(mechanism.noised(key, jnp.zeros(5), 1.0, 0), plain)


def test_laplace_is_refused() -> None:
    with rounded.exact_noise(), pytest.raises(TacitError, match="no exact sampler"):
        Laplace(1.0).noised(jax.random.key(0), jnp.zeros(()), 1.0, 0)


def test_a_secret_gives_the_same_bits_for_a_label_and_no_others() -> None:
    first, again, other = (normals.secret_words(label) for label in (b"a", b"a", b"b"))
    drawn = first(1000)
    np.testing.assert_array_equal(drawn, again(1000))
    assert not np.array_equal(drawn, other(1000))
    assert not np.array_equal(drawn, first(1000)), "a second call goes on"
    assert np.abs(np.unpackbits(drawn.view(np.uint8)).mean() - 0.5) < 0.01


def test_keyed_noise_follows_the_key_and_system_noise_nothing() -> None:
    """Two devices with one key draw one noise; a site draws anew even with the same key."""
    value = {"a": jnp.zeros((3, 2)), "b": jnp.zeros(())}
    key, other = jax.random.key(1), jax.random.key(2)

    def draw(source: rounded.Source, key: jax.Array) -> np.ndarray:
        with rounded.exact_noise(source):
            noisy = jax.jit(lambda k: Gaussian(1.0).noised(k, value, 1.0, 0))(key)
        return np.concatenate([np.ravel(noisy["a"]), np.ravel(noisy["b"])])

    same = draw("secret", key)
    np.testing.assert_array_equal(same, draw("secret", key))
    assert not np.any(same == draw("secret", other))
    assert not np.any(draw("system", key) == draw("system", key))


def test_noise_side_by_side_is_the_noise_of_each() -> None:
    keys = jax.random.split(jax.random.key(3), 4)
    with rounded.exact_noise("secret"):
        one = jax.jit(lambda k: Gaussian(0.7).noised(k, jnp.ones(5), 2.0, 0))
        alone = [one(key) for key in keys]
        beside = jax.jit(jax.vmap(lambda k: Gaussian(0.7).noised(k, jnp.ones(5), 2.0, 0)))(keys)
    np.testing.assert_array_equal(np.stack(alone), beside)


def test_a_thread_of_another_precision_changes_nothing() -> None:
    """The host is called in any thread; float64 comes back as float64 (13 of 25 calls failed)."""
    value = jnp.zeros(3)

    def work() -> None:
        with jax.enable_x64(True), rounded.exact_noise():
            big = jnp.zeros(10_010, jnp.float64)
            program = jax.jit(lambda k, v: Gaussian(1.0).noised(k, v, 1.0, 0))
            found.extend(np.asarray(program(jax.random.key(n), big)) for n in range(25))

    found: list[np.ndarray] = []
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert len(found) == 50
    assert all(f.dtype == np.float64 and np.isfinite(f).all() for f in found)
    assert value.dtype == jnp.float32


def test_what_rounding_a_sum_may_move_is_paid_for_in_noise() -> None:
    """1 + slack on the noise: next to nothing for a batch, refused where it would be half of it."""
    assert rounded.summed_slack(1, jnp.float32) == 0
    assert 1e-4 < rounded.summed_slack(100, jnp.float32) < 2e-3
    assert rounded.summed_slack(10_000, jnp.float64) < 1e-7
    with pytest.raises(TacitError, match="float64"):
        rounded.summed_slack(10_000, jnp.float32)
    with rounded.exact_noise("secret"):
        quiet, loud = (
            Gaussian(1.0).noised(jax.random.key(5), jnp.zeros(400), 1.0, 0, terms)
            for terms in (1, 500)
        )
    ratio = float(jnp.linalg.norm(loud) / jnp.linalg.norm(quiet))
    assert ratio == pytest.approx(1 + rounded.summed_slack(500, jnp.float32), rel=1e-3)
