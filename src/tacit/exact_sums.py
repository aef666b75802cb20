"""Exact sums of bounded contributions, independent of rounding and order.

A float sum is rounded after every addition, so what one contribution adds depends on the others: a
huge one rounds the others away, before any noise is drawn. Here each contribution is cut, towards
zero, onto two grids on which floats hold every sum exactly:

    coarse = 2^(E - p)        2^E at least the sum of all bounds, p the digits of a float
    fine   = n coarse / 2^p   for the remainders of n contributions, each below ``coarse``

Sums on either grid are whole numbers of steps up to 2^p: any order and any grouping gives the same,
and no contribution depends on the others. Cutting towards zero makes no contribution longer, and
what is cut off is below ``fine``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tacit import tree
from tacit.tree import Tree


class Split(NamedTuple):
    """A value, or a sum of values, as a part on the coarse grid and one on the fine grid."""

    high: Tree
    low: Tree

    def joined(self) -> Tree:
        """The value as floats, rounded once."""
        return tree.add(self.high, self.low)


def split(value: Tree, reach: float, terms: int) -> Split:
    """One of ``terms`` contributions whose entries together are at most ``reach`` in size."""
    leaves, structure = jax.tree.flatten(value)
    high, low = zip(*(_parts(jnp.asarray(v), reach, terms) for v in leaves), strict=True)
    return Split(jax.tree.unflatten(structure, high), jax.tree.unflatten(structure, low))


def _parts(value: Array, reach: float, terms: int) -> tuple[Array, Array]:
    digits = jnp.finfo(value.dtype).nmant + 1
    coarse = math.ceil(math.log2(reach)) - digits
    fine = coarse + math.ceil(math.log2(max(terms, 1))) - digits
    high = _on_grid(value, coarse)
    return high, _on_grid(value - high, fine)


def _on_grid(value: Array, exponent: int) -> Array:
    """Whole multiples of a power of two, cut towards zero."""
    step = jnp.asarray(2.0**exponent, value.dtype)
    return jnp.trunc(value / step) * step
