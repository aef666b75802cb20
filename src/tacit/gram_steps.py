"""Local training of a linear model in the span of a client's own records.

Full-batch steps from ``w`` on ``f(w) = mean loss(X w) + l2/2 |w|^2``, with a correction ``c`` added
to every gradient, never leave ``s w - q c - X^T A``. So the loop needs only the numbers ``s`` and
``q``, the coefficients ``A`` (one row a record) and the Gram matrix ``G = X X^T``:

    scores = s X w - q X c - G A,    R = slopes of the losses / n
    s -= eta l2 s,    q += eta (1 - l2 q),    A += eta (R - l2 A)

A step costs ``n n k`` instead of ``2 n d k`` multiplications. It is the same method up to rounding,
and is taken where it is less work.
"""

from __future__ import annotations

import math
from typing import TypeGuard

import jax.numpy as jnp
from jax import Array, lax

from tacit import tree
from tacit.algorithm import ClientData
from tacit.tasks.base import Params, Task
from tacit.tasks.linear import LinearModel, linear_output
from tacit.tree import Tree

_USUAL_STEPS = 10  # where the number of steps is only known while running


def is_shorter(
    task: Task, params: Params, data: ClientData, steps: Array | int
) -> TypeGuard[LinearModel]:
    """Whether the span of the records is clearly less work than the parameters."""
    if not isinstance(task, LinearModel) or data.capacity > data.at_once:
        return False
    n, (d, *outputs) = data.capacity, params["w"].shape
    k = math.prod(outputs)
    count = steps if isinstance(steps, int) else _USUAL_STEPS
    return 1.5 * (n * n * d + 2 * n * d * k + count * n * n * k) < 2 * count * n * d * k


def span_steps(
    task: LinearModel,
    params: Params,
    data: ClientData,
    *,
    steps: Array | int,
    step_size: Array | float,
    correction: Tree | None = None,
) -> Params:
    """``steps`` full-batch steps of gradient descent on the mean loss plus the penalty."""
    mine = jnp.arange(data.capacity) < data.size
    x = jnp.where(mine[:, None], task.rows(params, data.records), 0)
    dtype = x.dtype
    gram = x @ x.T + jnp.asarray(task.bias, dtype)
    pull = tree.zeros_like(params) if correction is None else correction
    begun, pulled = linear_output(params, x), linear_output(pull, x)
    eta = jnp.asarray(step_size, dtype)
    share = eta / jnp.maximum(data.size, 1).astype(dtype)
    column = mine.reshape(-1, *(1,) * (begun.ndim - 1))

    def one(_: Array, at: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        s, q, a = at
        slopes = task.slopes(s * begun - q * pulled - gram @ a, data.records)
        kept = 1 - eta * task.l2
        return kept * s, kept * q + eta, kept * a + share * jnp.where(column, slopes, 0)

    origin = (jnp.ones((), dtype), jnp.zeros((), dtype), jnp.zeros_like(begun))
    s, q, a = lax.fori_loop(0, steps, one, origin)
    moved = {"w": x.T @ a, "b": jnp.sum(a, axis=0)}
    return {name: s * params[name] - q * pull[name] - moved[name] for name in params}
