"""Directions of gradients: of norm 1 at most, whatever they are made of."""

import re
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tacit.tasks.unit import formed, outer, settled, together, units, units_beside_one

in_both = pytest.mark.parametrize("dtype", ["float32", "float64"])


def length(vector):
    """The norm of a row, safe from overflow and underflow."""
    wide = np.asarray(vector, np.longdouble)
    largest = np.max(np.abs(wide))
    return largest * np.sqrt(np.sum((wide / largest) ** 2)) if largest > 0 else largest


@cache
def compiled(dtype):
    return jax.jit(lambda rows: (units(rows), units_beside_one(rows, 0)))


@in_both
def test_units_are_no_longer_than_1(dtype):
    info = np.finfo(dtype)
    number = st.floats(width=info.bits, allow_subnormal=True)

    @settings(max_examples=60)
    @given(npst.arrays(dtype, (2, 5), elements=number))
    @example(np.full((2, 5), info.smallest_subnormal, dtype))
    @example(np.full((2, 5), info.tiny, dtype))
    @example(np.full((2, 5), info.max, dtype))
    @example(np.array([[0] * 5, [1, np.nan, np.inf, 0, 0]], dtype))
    def check(rows):
        with jax.enable_x64(dtype == "float64"):
            found, (beside, one) = jax.tree.map(np.longdouble, compiled(dtype)(rows))
        more = 1 + 8 * float(info.eps)
        for i, row in enumerate(rows):
            assert length(found.vectors[i]) <= more
            assert length(np.append(beside.vectors[i], one[i])) <= more
            if not np.isfinite(row).all():
                assert np.isinf(found.norms[i])
                assert np.isinf(beside.norms[i])
            elif info.tiny <= np.max(np.abs(row)) <= info.max / 2**30:
                slack = 1 + 30 * float(info.eps)
                assert length(row) / more <= found.norms[i] <= length(row) * slack
                assert length(found.vectors[i]) >= 1 / slack

    check()


@pytest.mark.parametrize("entries", [100, 10_000])
def test_long_vectors_are_no_longer_than_1(entries):
    """A sum of many squares comes out too small; their number is allowed for."""
    rng = np.random.default_rng(0)
    for fill in rng.uniform(0.5, 1, 40).astype(np.float32):
        rows = np.full((2, entries), fill, np.float32)
        rows[:, 0] = 1
        assert length(jax.jit(units)(rows).vectors[0]) <= 1


@pytest.mark.parametrize("axis", [0, 1])
def test_layers_are_what_their_gradients_are(axis, x64):
    rng = np.random.default_rng(1)
    read, slopes = rng.standard_normal((3, 4)), rng.standard_normal((3, 2))
    lengths = np.array([0.5, 0.0, 2.0])
    whole = {"w": read[:, :, None] * slopes[:, None, :], "b": slopes}
    turn = (lambda v: v.T) if axis else (lambda v: v)
    layer = outer(turn(read), turn(slopes), axis=axis)
    for found, expected in (
        (layer, formed(whole)),
        (together({"a": layer, "c": layer}), formed({"a": whole, "c": whole})),
    ):
        np.testing.assert_allclose(found.norms, expected.norms, rtol=1e-12)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12),
            found.combined(lengths),
            expected.combined(lengths),
        )
    only = outer(turn(read), turn(slopes), axis=axis, bias=False)
    alone = formed({"w": whole["w"]})
    np.testing.assert_allclose(only.norms, alone.norms, rtol=1e-12)
    np.testing.assert_allclose(
        only.combined(lengths)["w"], alone.combined(lengths)["w"], atol=1e-12
    )


@pytest.mark.parametrize("over", [lambda f: f, jax.vmap], ids=["alone", "clients"])
def test_what_is_settled_is_computed_once(over):
    """Norm and direction read what left the loop, nothing reads what it was made of."""

    def work(x, y):
        return formed(settled({"w": jnp.exp(x) * y - 0.7})).combined(jnp.ones(x.shape[0]))

    rows = np.ones((2, 100, 64) if over is jax.vmap else (100, 64), np.float32)
    program = jax.jit(over(work)).lower(rows, rows).compile().as_text().split("ENTRY")[1]
    before, after = program.split(" while(")
    made = set(re.findall(r"(%\S+) = f32\[\S*100,64\]", before))
    assert len(made) > 2
    assert not made & set(re.findall(r"%[^\s,)]+", after.split("\n", 1)[1]))


def test_settled_values_are_the_same():
    values = {"a": jnp.array([1.0, -jnp.inf]), "b": jnp.zeros((0, 2)), "c": jnp.array(jnp.nan)}
    found = jax.jit(settled)(values)
    np.testing.assert_array_equal(found["a"], values["a"])
    assert found["b"].shape == (0, 2)
    assert not np.isfinite(found["c"])
