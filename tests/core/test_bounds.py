"""Bounds: whatever a unit says, it contributes no more than the radius."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tacit.accounting import sensitivity
from tacit.bounds import Bound, Clip, ClipScalar, Normalize, Unbounded
from tacit.errors import TacitError

WILD = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 3e38, 1e-30, 1e-38, 1e-40, 1e-45, 1.0]
RADII = [1e-6, 0.1, 0.3, 1.0, 7.7, 1e6]


def vectors(dtype: str, size: int = 6) -> st.SearchStrategy[np.ndarray]:
    width = 8 * np.dtype(dtype).itemsize
    number = st.one_of(st.sampled_from(WILD), st.floats(width=width, allow_subnormal=True))
    return npst.arrays(dtype, size, elements=number.map(np.dtype(dtype).type))


@cache
def compiled(kind: type[Bound], radius: float, dtype: str) -> Any:
    """The bound on a tree of three leaves, optimised as a run compiles it."""
    return jax.jit(lambda value: kind(radius)(value))


def bounded(kind: type[Bound], radius: float, vector: np.ndarray) -> np.ndarray:
    """A vector as a tree of mixed shapes, through the bound, as a float64 vector again."""
    dtype = vector.dtype.name
    with jax.enable_x64(dtype == "float64"), np.errstate(over="ignore"):
        value = {"a": vector[0], "b": vector[1:3], "c": vector[3:].reshape(1, -1)}
        result = compiled(kind, radius, dtype)(value)
        assert all(leaf.dtype == vector.dtype for leaf in jax.tree.leaves(result))
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(result)]).astype(np.float64)


def length(vector: np.ndarray) -> float:
    """The norm in float64, safe from overflow and underflow."""
    largest = np.max(np.abs(vector), initial=0.0)
    return float(largest * np.linalg.norm(vector / largest)) if largest > 0 else 0.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", [Clip, Normalize])
def test_a_contribution_never_exceeds_its_radius(kind: type[Bound], dtype: str) -> None:
    @settings(max_examples=50)
    @given(vectors(dtype), st.sampled_from(RADII))
    @example(np.zeros(6, dtype), 1.0)
    @example(np.full(6, np.inf, dtype), 1.0)
    @example(np.full(6, 1e30, dtype), 0.1)
    @example(np.full(6, np.finfo(dtype).max), 0.3)
    @example(np.full(6, np.finfo(dtype).smallest_subnormal), 1.0)
    def check(vector: np.ndarray, radius: float) -> None:
        result = bounded(kind, radius, vector)
        assert np.isfinite(result).all()
        assert length(result) <= radius
        if not np.isfinite(vector).all():
            assert not result.any()

    check()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_clip_leaves_short_vectors_as_they_are(dtype: str) -> None:
    eps = float(np.finfo(dtype).eps)
    short = st.floats(-0.375, 0.375, width=32, allow_subnormal=False)

    @settings(max_examples=50)
    @given(npst.arrays(dtype, 6, elements=short))
    def check(vector: np.ndarray) -> None:
        result = bounded(Clip, 1.0, vector)
        tiny = float(np.finfo(dtype).tiny)
        np.testing.assert_allclose(result, vector, rtol=4 * eps, atol=2 * tiny)

    check()


@pytest.mark.parametrize("kind", [Clip, Normalize])
def test_direction_is_kept(kind: type[Bound]) -> None:
    @settings(max_examples=50)
    @given(npst.arrays("float32", 6, elements=st.floats(-(2.0**66), 2.0**66, width=32)))
    def check(vector: np.ndarray) -> None:
        norm = length(vector.astype(np.float64))
        if norm < 1e-20:
            return
        scale = 0.3 / norm if kind is Normalize else min(1.0, 0.3 / norm)
        result = bounded(kind, 0.3, vector)
        np.testing.assert_allclose(result, vector * np.float64(scale), rtol=1e-5, atol=1e-7)

    check()


def test_normalize_brings_everything_but_zero_to_the_radius() -> None:
    assert not bounded(Normalize, 2.0, np.zeros(6, np.float32)).any()
    for size in (1e-30, 1e-3, 1.0, 1e30):
        vector = np.full(6, size, np.float32)
        assert length(bounded(Normalize, 2.0, vector)) == pytest.approx(2.0, rel=1e-5)


@pytest.mark.parametrize("kind", [Clip, Normalize])
@pytest.mark.parametrize("entries", [10_000, 1_000_003])
def test_long_vectors_stay_inside(kind: type[Bound], entries: int) -> None:
    """A norm summed over many entries in float32 must not come out too small."""
    rng = np.random.default_rng(0)
    for vector in (
        np.full(entries, 0.1, np.float32),
        rng.standard_normal(entries).astype(np.float32),
        np.geomspace(1e-4, 1, entries).astype(np.float32),
    ):
        result = jax.jit(kind(0.7))({"w": vector})["w"]
        assert np.linalg.norm(np.asarray(result, np.float64)) <= 0.7


@pytest.mark.parametrize("kind", [Clip, Normalize])
def test_leaves_of_different_precision_stay_inside_together(kind: type[Bound]) -> None:
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        work = jax.jit(kind(1.0))
        for _ in range(200):
            value = {
                "single": rng.standard_normal(5).astype(np.float32),
                "double": rng.standard_normal(7),
            }
            result = work(value)
            assert {k: v.dtype for k, v in result.items()} == {k: v.dtype for k, v in value.items()}
            whole = np.concatenate([np.asarray(v, np.float64) for v in result.values()])
            assert np.linalg.norm(whole) <= 1.0


def test_a_public_radius_replaces_the_bound_s_own() -> None:
    work = jax.jit(lambda v, r: Clip(1.0)({"w": v}, r)["w"])
    vector = np.array([3.0, 4.0], np.float32)
    for radius in (0.0, 0.5, 4.0):
        assert np.linalg.norm(np.asarray(work(vector, radius), np.float64)) <= radius
    np.testing.assert_allclose(work(vector, 50.0), vector, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_scalar_stays_in_its_interval(dtype: str) -> None:
    kind = np.dtype(dtype).type
    with jax.enable_x64(dtype == "float64"):
        work = {r: jax.jit(ClipScalar(r)) for r in RADII}
        for value in (*WILD, 0.05, 0.7, -3.0):
            for radius in RADII:
                with np.errstate(over="ignore"):
                    given_value = kind(value)
                result = work[radius](given_value)
                assert result.dtype == kind
                assert 0 <= float(result) <= radius
        inside = kind(0.25)
        assert work[1.0](inside) == inside


def test_a_scalar_bound_is_for_one_scalar() -> None:
    with pytest.raises(TacitError, match="shape"):
        ClipScalar(1.0)(jnp.ones(2))
    with pytest.raises(TacitError, match="single number"):
        ClipScalar(1.0)({"a": jnp.ones(()), "b": jnp.ones(())})


def test_unbounded_drops_what_is_not_finite() -> None:
    value = {"a": jnp.array([1.0, 2.0]), "b": jnp.array(3.0)}
    kept = Unbounded()(value)
    assert jax.tree.all(jax.tree.map(lambda x, y: bool((x == y).all()), kept, value))
    dropped = Unbounded()({**value, "b": jnp.array(jnp.nan)})
    assert not any(leaf.any() for leaf in jax.tree.leaves(dropped))


@pytest.mark.parametrize("radius", [0.0, -1.0, np.inf, np.nan])
@pytest.mark.parametrize("kind", [Clip, Normalize, ClipScalar])
def test_impossible_radii_are_refused(kind: type[Bound], radius: float) -> None:
    with pytest.raises(TacitError, match="radius"):
        kind(radius)


def test_integers_are_refused() -> None:
    with pytest.raises(TacitError, match="floating point"):
        Clip(1.0)(jnp.arange(3))


@pytest.mark.parametrize("relation", ["zero-out", "replace-one"])
@pytest.mark.parametrize("kind", [Clip, Normalize])
def test_one_unit_never_moves_the_sum_by_more_than_declared(
    kind: type[Bound], relation: str
) -> None:
    radius = 0.3
    allowed = sensitivity(radius, relation, kind.shape)

    @settings(max_examples=50)
    @given(vectors("float32"), vectors("float32"))
    @example(np.ones(6, np.float32), -np.ones(6, np.float32))
    def check(one: np.ndarray, other: np.ndarray) -> None:
        before = bounded(kind, radius, one)
        after = bounded(kind, radius, other) if relation == "replace-one" else np.zeros(6)
        assert np.linalg.norm(before - after) <= allowed

    check()


@pytest.mark.parametrize("relation", ["zero-out", "replace-one"])
def test_a_scalar_never_moves_the_sum_by_more_than_declared(relation: str) -> None:
    work = jax.jit(ClipScalar(0.3))
    allowed = sensitivity(0.3, relation, ClipScalar.shape)
    assert allowed == 0.3

    @settings(max_examples=50)
    @given(*[st.one_of(st.sampled_from(WILD), st.floats(width=32))] * 2)
    def check(one: float, other: float) -> None:
        with np.errstate(over="ignore"):
            before, after = (float(work(np.float32(v))) for v in (one, other))
        assert abs(before - (after if relation == "replace-one" else 0)) <= allowed

    check()


def test_the_declared_sensitivity_is_reached() -> None:
    """Twice the radius under replace-one is not too much: two units can be opposite."""
    one = np.full(6, 9.0, np.float32)
    gap = bounded(Clip, 0.3, one) - bounded(Clip, 0.3, -one)
    assert np.linalg.norm(gap) == pytest.approx(sensitivity(0.3, "replace-one"), rel=1e-5)
