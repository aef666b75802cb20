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
from tacit.tasks.unit import formed, outer, settled, together

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
    *,
    data: str | None = None,
    axis: Literal[0, 1] = 0,
) -> ByRecord:
    """Single records' gradients; ``axis`` is that of the records in what dense layers read.

    The gradients of kernels, which are small, are given, records first. ``data`` names the dense
    layer that reads the records as they are.
    """
    convolutions = {
        name: {"w": kernel, "b": jnp.sum(slopes[f"{name} bias"], axis=(1, 2)).T}
        for name, kernel in (kernels or {}).items()
    }
    dense = [name for name in params if name not in convolutions]
    own = {name: slopes[name] for name in dense}, {n: read[n] for n in dense if n != data}
    (own_slopes, own_read), convolutions = settled((own, convolutions))
    own_read = {**read, **own_read}

    def one(name: str) -> ByRecord:
        if name in convolutions:
            return formed(convolutions[name])
        return outer(own_read[name], own_slopes[name], axis=axis)

    return together({name: one(name) for name in params})
