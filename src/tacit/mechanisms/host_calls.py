"""Call Python functions on the host from a compiled program, with NumPy arrays in and out.

JAX's own callbacks copy their arguments to a device again, in the background. With large arguments
and a callback on every core this can deadlock. They also convert 64-bit floats if their thread is
set to 32 bits. Here the host reads the memory of the program directly, and the results are 32-bit
words, which no setting converts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from numpy.typing import NDArray

Host = Callable[..., NDArray[np.uint32]]

_host_call = Primitive("tacit_host_call")
_host_call.multiple_results = True


def call_host(function: Host, shape: tuple[int, ...], *args: Array) -> Array:
    """Call ``function`` on the host; it returns 32-bit words of this shape.

    Under ``vmap`` all arguments get the same leading axes, and the result must have them too. A
    call is never removed, repeated or shared, because it may draw random numbers.
    """
    (words,) = _host_call.bind(*args, function=function, shape=shape)
    return words


def _shape_of(*args: Any, function: Host, shape: tuple[int, ...]) -> list[ShapedArray]:
    del args, function
    return [ShapedArray(shape, np.dtype(np.uint32))]


def _at_once(*args: Array, function: Host, shape: tuple[int, ...]) -> list[Array]:
    """The call outside a compiled program."""
    del shape
    return [jnp.asarray(function(*(np.asarray(a) for a in args)))]


def _lowered(
    ctx: mlir.LoweringRuleContext, *args: Any, function: Host, shape: tuple[int, ...]
) -> Any:
    del shape

    def callback(*arrays: Any) -> tuple[NDArray[np.uint32]]:
        try:
            return (function(*(np.asarray(a) for a in arrays)),)
        except BaseException:
            logging.getLogger("tacit").exception("a call to the host failed")
            raise

    result, _, _ = mlir.emit_python_callback(
        ctx,
        callback,
        None,
        list(args),
        ctx.avals_in,  # type: ignore[arg-type]
        ctx.avals_out,
        has_side_effect=True,
        returns_token=False,
    )
    return result


def _side_by_side(
    args: Any, dims: Any, *, function: Host, shape: tuple[int, ...]
) -> tuple[list[Array], list[int]]:
    size = next(a.shape[d] for a, d in zip(args, dims, strict=True) if d is not None)
    rows = [
        jnp.broadcast_to(a, (size, *a.shape)) if d is None else jnp.moveaxis(a, d, 0)
        for a, d in zip(args, dims, strict=True)
    ]
    return _host_call.bind(*rows, function=function, shape=(size, *shape)), [0]


_host_call.def_abstract_eval(_shape_of)
_host_call.def_impl(_at_once)
mlir.register_lowering(_host_call, _lowered, cacheable=False)
batching.primitive_batchers[_host_call] = _side_by_side
