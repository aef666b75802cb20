"""Two-dimensional convolution of one record, in the form that is fast where it runs.

XLA's CPU backend turns convolutions whose weights differ from client to client, and the kernel
gradients of single records, into slow loops. The banded form writes a convolution as one matrix
product instead: the output's width is cut into tiles, and the kernel, repeated along a tile's
diagonal (a Toeplitz band), is a matrix from a tile's inputs to its outputs.

    input row windows (rows, tiles, kh * span * cin)  @  band (kh * span * cin, tile * cout)

A tile of one output is the usual patch product; wider tiles read overlapping inputs once and make
the thin products of few filters broad, at the price of multiplying the zeros off the band. Both
forms have one meaning: ``lax.conv`` with channels last, equal up to rounding.
"""

from __future__ import annotations

from functools import reduce
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

Padding = Literal["valid", "same"]
Form = Literal["auto", "banded", "lax"]

# Beyond this many outputs of a tile the zeros of the band cost more than broad products save.
_BROAD = 96


def conv2d(x: Array, kernel: Array, *, padding: Padding = "valid", form: Form = "auto") -> Array:
    """Convolve one image (height, width, cin) with a kernel (kh, kw, cin, cout).

    ``form`` "auto" takes the banded form on a CPU and ``lax.conv`` elsewhere.
    """
    if form == "lax" or (form == "auto" and jax.default_backend() != "cpu"):
        return _lax(x, kernel, padding)
    return _banded(padded(x, kernel.shape, padding), kernel)


def max_pool(x: Array, size: int) -> Array:
    """The largest value of each ``size`` x ``size`` block; an incomplete edge is dropped."""
    rows, columns, channels = x.shape[0] // size, x.shape[1] // size, x.shape[2]
    x = x[: rows * size, : columns * size].reshape(rows, size, columns, size, channels)
    return reduce(first_max, [x[:, i, :, j] for i in range(size) for j in range(size)])


def first_max(a: Array, b: Array) -> Array:
    """The larger of two; the gradient goes to the first of equals, as in a search for the place."""
    return jnp.where(a >= b, a, b)


def output_size(size: int, kernel: int, padding: Padding) -> int:
    """The number of outputs along one side."""
    return size if padding == "same" else size - kernel + 1


def padded(x: Array, kernel: tuple[int, ...], padding: Padding) -> Array:
    """The image (height, width, ...) with the zeros that this padding puts around it."""
    if padding == "valid":
        return x
    edges = [((k - 1) // 2, k // 2) for k in kernel[:2]]
    return jnp.pad(x, (*edges, *((0, 0),) * (x.ndim - 2)))


def _lax(x: Array, kernel: Array, padding: Padding) -> Array:
    out = lax.conv_general_dilated(
        x[None],
        kernel,
        (1, 1),
        padding.upper(),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return out[0]


def _banded(x: Array, kernel: Array) -> Array:
    kh, kw, cin, cout = kernel.shape
    rows, columns = x.shape[0] - kh + 1, x.shape[1] - kw + 1
    tile = tile_width(columns, kw, cout)
    count = -(-columns // tile)
    span = tile - 1 + kw
    windows = _windows(x, count, tile, span)
    windows = jnp.stack([windows[i : i + rows] for i in range(kh)], axis=2)
    select = jnp.asarray(_band(tile, kw), kernel.dtype)
    matrix = jnp.einsum("atj,ijco->iacto", select, kernel)
    out = windows.reshape(rows, count, kh * span * cin) @ matrix.reshape(kh * span * cin, -1)
    return out.reshape(rows, count * tile, cout)[:, :columns]


def tile_width(columns: int, kw: int, cout: int) -> int:
    """How many neighbouring outputs one band produces: a divisor of the width if one is near."""
    limit = max(1, min(columns, 2 * kw + 1, _BROAD // cout))
    divisor = next(t for t in range(limit, 0, -1) if columns % t == 0)
    return divisor if 2 * divisor >= limit else -(-columns // -(-columns // limit))


def _windows(x: Array, count: int, step: int, span: int) -> Array:
    """Cut the width into ``count`` windows of ``span`` that start ``step`` apart."""
    pieces = -(-span // step)
    wanted = (count + pieces - 1) * step
    x = jnp.pad(x, ((0, 0), (0, max(wanted - x.shape[1], 0)), (0, 0)))[:, :wanted]
    blocks = x.reshape(x.shape[0], -1, step, x.shape[2])
    cut = [blocks[:, p : p + count, : min(step, span - p * step)] for p in range(pieces)]
    return jnp.concatenate(cut, axis=2)


def _band(tile: int, kw: int) -> NDArray[np.float64]:
    """1 where input ``a`` of a tile meets output ``t`` at place ``j`` of the kernel."""
    select = np.zeros((tile - 1 + kw, tile, kw))
    for t in range(tile):
        for j in range(kw):
            select[t + j, t, j] = 1
    return select
