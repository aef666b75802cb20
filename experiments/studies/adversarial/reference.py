"""True norms of gradients in float64, and ascent that steers them to the ends of a float's range.

A norm goes wrong where squares, products or reciprocals leave the range. So a search is led there:
the gradient of the log-norm in the logarithms of all numbers of model and record is taken by JAX,
and a step along it would bring the norm to its target if the two were proportional.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.studies.adversarial.cases import Values
from tacit.precision import Precision
from tacit.tasks.base import Params, Record, Task

_FARTHEST = 40.0  # a step's most in the logarithm of one number
_QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


class Reference(NamedTuple):
    """The compiled functions of one task, of many models and records at once."""

    gradient: Callable[..., Any]
    steps: Callable[..., Any]


def reference(task: Task) -> Reference:
    """Gradients, and steps in logarithms towards a norm of the gradient or of one of its leaves."""

    def log_norm(logs: Any, params: Params, record: Record, counts: Array) -> Array:
        def at(old: Array, log: Array) -> Array:
            return old * jnp.exp(log) if jnp.issubdtype(old.dtype, jnp.floating) else old

        model, given = jax.tree.map(at, (params, record), logs)
        leaves = jax.tree.leaves(jax.grad(task.loss)(model, given))
        numbers = jnp.concatenate([jnp.ravel(v) * counts[i] for i, v in enumerate(leaves)])
        top = jax.lax.stop_gradient(jnp.max(jnp.abs(numbers)))
        return jnp.log(top) + jnp.log(jnp.sum(jnp.square(numbers / top))) / 2

    def step(params: Params, record: Record, counts: Array, target: Array) -> Any:
        zeros = jax.tree.map(lambda v: jnp.zeros(v.shape), (params, record))
        value, slope = jax.value_and_grad(log_norm)(zeros, params, record, counts)
        square = sum((jnp.sum(jnp.square(v)) for v in jax.tree.leaves(slope)), start=jnp.zeros(()))
        moved = jax.tree.map(lambda v: (target - value) * v / square, slope)
        return jax.tree.map(lambda v: jnp.clip(jnp.nan_to_num(v), -_FARTHEST, _FARTHEST), moved)

    quickly = partial(jax.jit, compiler_options=_QUICK)
    return Reference(quickly(jax.vmap(jax.grad(task.loss))), quickly(jax.vmap(step)))


def wide(values: Any) -> Any:
    """Everything in 64 bits."""
    return jax.tree.map(lambda v: v.astype(f"{v.dtype.kind}8"), values)


def edges(dtype: Precision) -> Values:
    """Logarithms of norms at which something leaves the range of floats, and that of a radius."""
    info = np.finfo(dtype)
    low, high = float(np.log(info.tiny)), float(np.log(info.max))
    less = high - 27 * np.log(2)  # where ``units`` begins to count a norm as infinite
    return np.asarray([0, low, low / 2, low + 1, high, high / 2, less, less / 2])


def length(rows: Values) -> Values:
    """The norm of each row, safe from overflow and underflow, in extended precision."""
    top = np.max(np.abs(rows), axis=1, keepdims=True).astype(np.longdouble)
    safe = np.where((top > 0) & np.isfinite(top), top, 1)
    return safe[:, 0] * np.sqrt(np.sum((rows / safe) ** 2, axis=1))
