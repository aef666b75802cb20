"""The gradients of single records of a network, from what its layers read and their slopes.

A network is run once over a batch, with a zero added to what every layer makes. The derivative in
that zero is the layer's slope for every record, and with what the layer had read it gives every
record's gradient: for a dense layer their outer product, whose norm is the product of norms, so
nothing of the size of the layer is formed for any record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from tacit.tasks.base import ByRecord, Params, Record
from tacit.tasks.classifier import softmax_loss

Study = tuple[Array, dict[str, Array], dict[str, Array]]  # scores; what layers read and make


def tap(made: dict[str, Array], taps: Mapping[str, Array], name: str, value: Array) -> Array:
    """Note what a layer makes, with its tap added if there is one."""
    made[name] = value + taps[name] if name in taps else value
    return made[name]


def tapped_slopes(
    study: Callable[[Mapping[str, Array]], Study], records: Record
) -> tuple[dict[str, Array], dict[str, Array]]:
    """What the layers read, and the slopes of the summed loss in what they make."""

    def total(taps: Params) -> tuple[Array, tuple[dict[str, Array], dict[str, Array]]]:
        scores, read, made = study(taps)
        return jnp.sum(jax.vmap(softmax_loss)(scores, records)), (read, made)

    shapes = jax.eval_shape(lambda: total({})[1][1])
    zeros = {name: jnp.zeros(made.shape, made.dtype) for name, made in shapes.items()}
    slopes, (read, _) = jax.grad(total, has_aux=True)(zeros)
    return read, slopes


def layered(
    params: Params,
    read: Mapping[str, Array],
    slopes: Mapping[str, Array],
    kernels: Mapping[str, Array] | None = None,
    axis: Literal[0, 1] = 0,
) -> ByRecord:
    """Single records' gradients; ``axis`` is that of the records in what dense layers read.

    The gradients of kernels, which are small, are given, records first.
    """
    kernels = kernels or {}
    squared = jnp.zeros(())
    for name in params:
        if name in kernels:
            squared += jnp.sum(jnp.square(kernels[name]), axis=(1, 2, 3, 4))
            squared += jnp.sum(jnp.square(_bias_slopes(slopes, name)), axis=0)
        else:
            reach = 1 + jnp.sum(jnp.square(read[name]), axis=1 - axis)
            squared += reach * jnp.sum(jnp.square(slopes[name]), axis=1 - axis)

    def weighted(factors: Array) -> Params:
        kept = factors != 0

        def one(name: str) -> Params:
            if name in kernels:
                clean = jnp.where(kept[:, None, None, None, None], kernels[name], 0)
                bias = jnp.where(kept, _bias_slopes(slopes, name), 0)
                return {"w": jnp.tensordot(factors, clean, axes=1), "b": bias @ factors}
            each = jnp.expand_dims(kept, 1 - axis)
            scaled = jnp.where(each, slopes[name], 0) * jnp.expand_dims(factors, 1 - axis)
            clean = jnp.where(each, read[name], 0)
            return {
                "w": jnp.tensordot(clean, scaled, axes=(axis, axis)),
                "b": jnp.sum(scaled, axis=axis),
            }

        return {name: one(name) for name in params}

    return ByRecord(squared, weighted)


def _bias_slopes(slopes: Mapping[str, Array], name: str) -> Array:
    """Each record's gradient of a convolution's bias, (cout, batch)."""
    return jnp.sum(slopes[f"{name} bias"], axis=(1, 2))
