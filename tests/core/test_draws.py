"""The fast generator: the published cipher, the right laws, and tails that are there."""

from collections import Counter
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tacit import draws

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
    assert tuple(int(v) for v in draws.threefry(*pair)) == answer


def test_a_word_depends_on_its_place_and_not_on_how_many_are_drawn():
    many = np.asarray(draws.words(KEY, 1001))
    assert (np.asarray(draws.words(KEY, 10)) == many[:10]).all()
    assert len(set(many.tolist())) == len(many)


def test_bits_are_even():
    bits = np.unpackbits(
        np.asarray(draws.words(KEY, 200_000)).view(np.uint8).reshape(-1, 4), axis=1
    )
    spread = 0.5 / np.sqrt(len(bits))
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * spread


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normals_follow_the_normal_law(dtype):
    with jax.enable_x64(dtype == "float64"):
        drawn = np.asarray(draws.normal(KEY, 400_000, jnp.dtype(dtype)))
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
    np.testing.assert_allclose(draws.normal_of(jnp.asarray(bits)), exact, rtol=5e-4, atol=1e-6)
    usual = tail > 1e-6
    found = np.asarray(draws.normal_of(jnp.asarray(bits)))
    np.testing.assert_allclose(found[usual], exact[usual], rtol=1e-6, atol=1e-6)


def test_every_set_of_distinct_numbers_is_equally_likely():
    total, count, repeats = 6, 3, 8_000
    keys = jax.random.split(KEY, repeats)
    sets = np.asarray(jax.vmap(lambda k: draws.distinct(k, total, count, count))(keys))
    seen = Counter(tuple(sorted(row)) for row in sets.tolist())
    assert set(seen) == set(combinations(range(total), count))
    assert stats.chisquare(list(seen.values())).pvalue > 1e-3


def test_fewer_than_the_places_leave_the_rest_empty():
    chosen = np.asarray(draws.distinct(KEY, jnp.asarray(4), jnp.asarray(4), 6))
    assert sorted(chosen[:4].tolist()) == [0, 1, 2, 3]
    assert (chosen[4:] == -1).all()


@pytest.mark.parametrize("number", [0, 1, 2, 77, 2**31 - 1])
def test_keys_are_derived_as_jax_derives_them(number):
    key = jax.random.key(12)
    ours, theirs = draws.fold_in(key, number), jax.random.fold_in(key, number)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))


def test_a_key_is_split_as_jax_splits_it():
    key = jax.random.fold_in(jax.random.key(3), 9)
    for ours, theirs in zip(draws.split(key, 4), jax.random.split(key, 4), strict=True):
        np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))


def test_keys_of_many_clients_are_derived_at_once():
    key, clients = jax.random.key(5), jnp.arange(6)
    many = jax.vmap(lambda c: draws.fold_in(key, c))(clients)
    for client, ours in zip(clients, many, strict=True):
        theirs = jax.random.fold_in(key, client)
        np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))
