"""The fast generator: the published cipher, the right laws, and tails that are there."""

import math
from collections import Counter
from decimal import Decimal, localcontext
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tacit import random_numbers

KEY = jax.random.key(7)

# Known answers that its authors publish for 2 x 32 bits and 20 rounds.
ANSWERS = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("key", "counter", "answer"), ANSWERS)
def test_the_cipher_gives_the_published_answers(key, counter, answer):
    pair = [tuple(jnp.uint32(v) for v in words) for words in (key, counter)]
    assert tuple(int(v) for v in random_numbers.threefry(*pair)) == answer


def test_a_word_depends_on_its_place_and_not_on_how_many_are_drawn():
    many = np.asarray(random_numbers.words(KEY, 1001))
    assert (np.asarray(random_numbers.words(KEY, 10)) == many[:10]).all()
    assert len(set(many.tolist())) == len(many)


def test_bits_are_even():
    bits = np.unpackbits(
        np.asarray(random_numbers.words(KEY, 200_000)).view(np.uint8).reshape(-1, 4), axis=1
    )
    spread = 0.5 / np.sqrt(len(bits))
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * spread


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normals_follow_the_normal_law(dtype):
    with jax.enable_x64(dtype == "float64"):
        drawn = np.asarray(random_numbers.normal(KEY, 400_000, jnp.dtype(dtype)))
    assert drawn.dtype == dtype
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    assert stats.kstest(drawn * 1.02, "norm").pvalue < 1e-3
    beyond = np.sum(np.abs(drawn) > 3.5)
    assert stats.binomtest(int(beyond), len(drawn), 2 * stats.norm.sf(3.5)).pvalue > 1e-3
    lag = np.corrcoef(drawn[:-1], drawn[1:])[0, 1]
    assert abs(lag) < 5 / np.sqrt(len(drawn))


def test_the_inverse_is_accurate_from_the_middle_into_the_tail():
    bits = np.array([*range(8), 2**10, 2**20, 2**28 + 1, 2**31, 2**32 - 1], np.uint32)
    tail = ((bits >> 1).astype(np.float64) + 0.5) * 2.0**-31
    exact = np.where(bits & 1 == 1, -1, 1) * stats.norm.isf(tail / 2)
    np.testing.assert_allclose(
        random_numbers.normal_of(jnp.asarray(bits)), exact, rtol=5e-4, atol=1e-6
    )
    usual = tail > 1e-6
    found = np.asarray(random_numbers.normal_of(jnp.asarray(bits)))
    np.testing.assert_allclose(found[usual], exact[usual], rtol=1e-6, atol=1e-6)


def test_every_set_of_distinct_numbers_is_equally_likely():
    total, count, repeats = 6, 3, 8_000
    keys = jax.random.split(KEY, repeats)
    sets = np.asarray(jax.vmap(lambda k: random_numbers.distinct(k, total, count, count))(keys))
    seen = Counter(tuple(sorted(row)) for row in sets.tolist())
    assert set(seen) == set(combinations(range(total), count))
    assert stats.chisquare(list(seen.values())).pvalue > 1e-3


def test_fewer_than_the_places_leave_the_rest_empty():
    chosen = np.asarray(random_numbers.distinct(KEY, jnp.asarray(4), jnp.asarray(4), 6))
    assert sorted(chosen[:4].tolist()) == [0, 1, 2, 3]
    assert (chosen[4:] == -1).all()


@pytest.mark.parametrize("number", [0, 1, 2, 77, 2**31 - 1])
def test_keys_are_derived_as_jax_derives_them(number):
    key = jax.random.key(12)
    ours, theirs = random_numbers.fold_in(key, number), jax.random.fold_in(key, number)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))


def test_a_key_is_split_as_jax_splits_it():
    key = jax.random.fold_in(jax.random.key(3), 9)
    for ours, theirs in zip(random_numbers.split(key, 4), jax.random.split(key, 4), strict=True):
        np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))


def test_keys_of_many_clients_are_derived_at_once():
    key, clients = jax.random.key(5), jnp.arange(6)
    many = jax.vmap(lambda c: random_numbers.fold_in(key, c))(clients)
    for client, ours in zip(clients, many, strict=True):
        theirs = jax.random.fold_in(key, client)
        np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))


# What a choice that decides a price is drawn with.

WHOLE = 2**64


def with_these_words(monkeypatch, function, numbers, dtype):
    """The function of draws whose 64 random bits are each of these numbers, compiled."""
    monkeypatch.setattr(random_numbers, "words", lambda key, count: key)
    pairs = np.array([[n >> 32, n & 0xFFFFFFFF] for n in numbers], np.uint32)
    with jax.enable_x64(dtype == "float64"):
        return np.asarray(jax.jit(jax.vmap(function))(jnp.asarray(pairs))).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "threshold", [0, 1, 79, 2**32 - 1, 2**32, 2**32 + 5, 3 * 2**61 + 2**31, WHOLE - 1]
)
def test_a_coin_compares_all_64_bits(monkeypatch, threshold, dtype):
    near = [threshold + step for step in (-(2**32), -2, -1, 0, 1, 2**32)]
    numbers = [n for n in [0, 2**31, 2**63, WHOLE - 1, *near] if 0 <= n < WHOLE]
    found = with_these_words(
        monkeypatch, lambda w: random_numbers.coin(w, threshold), numbers, dtype
    )
    assert found == [n < threshold for n in numbers]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 290, 22_027, 2**16 - 1, 2**16])
def test_a_number_below_a_count_is_a_share_of_all_words(monkeypatch, count, dtype):
    """At the first and the last word of a number, so every number has its words exactly."""
    starts = [-(-j * WHOLE // count) for j in {*range(min(count, 50)), count // 2, count - 1}]
    numbers = [n for start in starts for n in (start - 1, start, start + 1) if 0 <= n < WHOLE]
    numbers += [WHOLE - 1, *np.random.default_rng(0).integers(0, WHOLE, 500, np.uint64).tolist()]
    found = with_these_words(monkeypatch, lambda w: random_numbers.below(w, count), numbers, dtype)
    assert found == [n * count >> 64 for n in numbers]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_coins_and_numbers_follow_their_laws(dtype):
    with jax.enable_x64(dtype == "float64"):
        keys = jax.random.split(KEY, 40_000)
        coins = np.asarray(jax.jit(jax.vmap(lambda k: random_numbers.coin(k, WHOLE // 10)))(keys))
        numbers = np.asarray(jax.jit(jax.vmap(lambda k: random_numbers.below(k, 12)))(keys))
    assert stats.binomtest(int(coins.sum()), len(coins), 0.1).pvalue > 1e-3
    assert stats.chisquare(np.bincount(numbers, minlength=12)).pvalue > 1e-3


@pytest.mark.parametrize("among", [1, 2, 3, 290, 22_027])
@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 2.0, 15.0, 17.0, 30.0, 40.0, 80.0])
def test_a_rare_answer_is_the_least_one_that_keeps_the_price(epsilon, among):
    """In 120 digits: its price is at most epsilon, and that of one word less is above it."""
    words = [WHOLE * (j + 1) // among - WHOLE * j // among for j in range(among)]
    assert max(words) - min(words) <= 1
    assert among / WHOLE <= 2**-48  # the bias of one word
    with localcontext() as context:
        context.prec = 120
        odds = Decimal(epsilon).exp()
        threshold = random_numbers.rare(epsilon, among)

        def keeps(threshold):
            rarest = Decimal(threshold * min(words)) / WHOLE  # in words
            return WHOLE - threshold <= rarest * odds

        assert keeps(threshold)
        assert not keeps(threshold - 1)
    if epsilon <= 30:
        exact = WHOLE / (1 + math.exp(epsilon) / among)
        assert threshold == pytest.approx(exact, rel=1e-6)
