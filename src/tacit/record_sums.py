"""Sums over the records of a client that were chosen for a batch, each bounded if wanted.

A client's rows are padded to a static number; only the first ``size`` count. Chosen records are
processed in chunks, so that memory depends on the batch and not on the client.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from tacit import tree
from tacit.bounds import Clip, Normalize
from tacit.phase import ClientData
from tacit.release import Release
from tacit.sampling import Batch
from tacit.tasks.base import Params, Record, Task
from tacit.tasks.unit import settled
from tacit.tree import Tree


def sum_over_chosen(
    batch: Batch,
    key: Array,
    step: Array,
    data: ClientData,
    like: Tree,
    total: Callable[[Record, Array], Tree],
) -> tuple[Tree, Array]:
    """The sum of ``total(records, weights)`` over the chunks of a batch, and the batch's size."""
    order, count = batch.chosen(key, step, data.size, data.capacity)
    chunk = min(batch.chunk(data.capacity), data.at_once)
    dtype = dtype_of(like)

    def one(number: Array | int) -> Tree:
        places = number * chunk + jnp.arange(chunk)
        # Rows that were not chosen may be another client's, or padding: a weight of 0 does not
        # silence what overflows there, so the first chosen record stands in.
        rows = order[jnp.where(places < count, places, 0)]
        weights = (places < count).astype(dtype)
        return total({k: v[rows] for k, v in data.records.items()}, weights)

    if order.shape[0] <= chunk:
        return one(0), count

    def add(carry: tuple[Array, Tree]) -> tuple[Array, Tree]:
        number, summed = carry
        return number + 1, tree.add(summed, one(number))

    trips = -(-count // chunk)
    _, summed = lax.while_loop(
        lambda c: c[0] < trips, add, (jnp.zeros((), trips.dtype), tree.zeros_like(like))
    )
    return summed, count


def bounded_sum(
    task: Task,
    release: Release,
    params: Params,
    records: Record,
    weights: Array,
    radius: Array | float,
) -> Tree:
    """The sum over records of weight times bounded gradient; weights are 0 or 1.

    Where the task knows its records' gradients by their norms and directions, bounding is a length
    for each; otherwise each record's gradient is formed and bounded.
    """
    known = task.by_record(params, records)
    if known is None or not isinstance(release.bound, (Clip, Normalize)):
        each = settled(jax.vmap(jax.grad(task.loss), in_axes=(None, 0))(params, records))
        bounded = jax.vmap(lambda g: release.bound(g, radius))(each)
        summed = partial(jnp.tensordot, axes=1, precision=lax.Precision.HIGHEST)
        return jax.tree.map(lambda v: summed(weights.astype(v.dtype), v), bounded)
    dtype = known.norms.dtype
    # Norms are rounded up; a few roundings more must not lift a contribution above the radius.
    lengths = jnp.asarray(radius, dtype) * (1 - 16 * jnp.finfo(dtype).eps)
    if isinstance(release.bound, Clip):
        lengths = jnp.minimum(known.norms, lengths)
    return known.combined(lengths * weights.astype(dtype))


def squared_gradient_norms(task: Task, params: Params, records: Record) -> Array:
    """The squared norm of every record's gradient; infinite where it is not finite."""
    known = task.sq_norms(params, records)
    if known is None:
        each = jax.vmap(jax.grad(task.loss), in_axes=(None, 0))(params, records)
        known = jax.vmap(tree.squared_norm)(each)
    return jnp.where(jnp.isfinite(known), known, jnp.inf)


def dtype_of(params: Params) -> jnp.dtype:
    """The type of a model's numbers."""
    return jnp.result_type(*jax.tree.leaves(params))
