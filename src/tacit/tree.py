"""Arithmetic on pytrees of arrays, and their flat, named form for files and wires."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.errors import TacitError

Tree = Any  # a pytree of arrays


def add(a: Tree, b: Tree) -> Tree:
    """a + b."""
    return jax.tree.map(jnp.add, a, b)


def subtract(a: Tree, b: Tree) -> Tree:
    """a - b."""
    return jax.tree.map(jnp.subtract, a, b)


def scale(factor: Array | float, tree: Tree) -> Tree:
    """factor * tree, in the tree's own precision."""
    return jax.tree.map(lambda v: jnp.asarray(factor, v.dtype) * v, tree)


def zeros_like(tree: Tree) -> Tree:
    """Zeros of the same shapes."""
    return jax.tree.map(lambda v: jnp.zeros(v.shape, v.dtype), tree)


def squared_norm(tree: Tree) -> Array:
    """The squared Euclidean norm of all entries together."""
    return sum((jnp.vdot(v, v).real for v in jax.tree.leaves(tree)), start=jnp.zeros(()))


def size(tree: Tree) -> int:
    """How many numbers the tree holds."""
    return sum(int(np.prod(v.shape)) for v in jax.tree.leaves(tree))


def select(condition: Array, yes: Tree, no: Tree) -> Tree:
    """The first tree where the scalar condition holds, else the second."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def to_named(tree: Tree) -> dict[str, NDArray[np.generic]]:
    """The leaves as arrays under their paths, for instance ``.params['w']``."""
    pairs, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in pairs}


def from_named(arrays: Mapping[str, NDArray[np.generic]], like: Tree) -> Tree:
    """The tree of the shape of ``like`` from named arrays; refuses other names, shapes, types."""
    pairs, structure = jax.tree_util.tree_flatten_with_path(like)
    names = [jax.tree_util.keystr(path) for path, _ in pairs]
    if set(names) != set(arrays):
        odd = sorted(set(names) ^ set(arrays))
        raise TacitError(f"the arrays {odd[:3]} are missing or not expected.")
    leaves = []
    for name, (_, leaf) in zip(names, pairs, strict=True):
        given, wanted = arrays[name], np.dtype(leaf.dtype)
        if given.shape != tuple(leaf.shape) or given.dtype != wanted:
            raise TacitError(
                f"the array {name!r} is {given.dtype}{list(given.shape)} where"
                f" {wanted}{list(leaf.shape)} is expected."
            )
        leaves.append(given)  # still on the host: the caller says in which precision to go on
    return jax.tree.unflatten(structure, leaves)
