"""Sums that no rounding can bend: exact, in any order, whatever the others contribute."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit import tree
from tacit.exact_sums import Split, split


def contributions(clients: int, dtype: str, seed: int = 0) -> np.ndarray:
    """Vectors of norm at most 1 whose entries are of very different sizes."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((clients, 6)) * 10.0 ** rng.uniform(-9, 0, (clients, 6))
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True)) * (1 + 1e-6)
    return rows.astype(dtype)


def total(rows: np.ndarray, terms: int, dtype: str) -> Split:
    with jax.enable_x64(dtype == "float64"):
        parts = [split({"v": jnp.asarray(row)}, float(terms), terms) for row in rows]
        summed = parts[0]
        for part in parts[1:]:
            summed = tree.add(summed, part)
        return jax.tree.map(np.asarray, summed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("clients", [3, 100, 700])
def test_the_sum_is_exact_and_free_of_order(dtype: str, clients: int) -> None:
    rows = contributions(clients, dtype)
    summed = total(rows, clients, dtype)
    turned = total(rows[::-1], clients, dtype)
    np.testing.assert_array_equal(summed.high["v"], turned.high["v"])
    np.testing.assert_array_equal(summed.low["v"], turned.low["v"])
    with jax.enable_x64(dtype == "float64"):
        parts = [
            jax.tree.map(np.asarray, split(jnp.asarray(r), float(clients), clients)) for r in rows
        ]
    for place in range(rows.shape[1]):
        for name in ("high", "low"):
            exact = sum(Fraction(float(getattr(part, name)[place])) for part in parts)
            assert exact == Fraction(float(getattr(summed, name)["v"][place]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_contribution_is_cut_towards_zero_and_by_next_to_nothing(dtype: str) -> None:
    terms = 1000
    for row in contributions(50, dtype, seed=1):
        with jax.enable_x64(dtype == "float64"):
            part = jax.tree.map(np.asarray, split(jnp.asarray(row), float(terms), terms))
        kept = part.high.astype(np.longdouble) + part.low.astype(np.longdouble)
        assert (np.abs(kept) <= np.abs(row.astype(np.longdouble))).all()
        assert (np.sign(part.high) * np.sign(part.low) >= 0).all()
        assert np.abs(kept - row).max() <= (1e-8 if dtype == "float32" else 1e-20)


def test_a_float_sum_does_not_have_this() -> None:
    """What the tests above are for: a huge contribution rounds a small one away."""
    assert np.float32(2e6) + np.float32(0.01) == np.float32(2e6)
    small = [total(np.array([[v], [1.0], [-1.0]], np.float32), 3, "float32") for v in (0.1, 0.0)]
    assert (small[0].high["v"] + small[0].low["v"]) != (small[1].high["v"] + small[1].low["v"])
