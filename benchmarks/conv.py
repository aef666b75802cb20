"""Implementations of a convolution with different weights per client.

    python -m benchmarks.conv

Times rounds of local training of DP-FedEXP's network (5,046 parameters) and of the CIFAR-10
network, with clients in sequence (``lax.map``) and in parallel (``vmap``), and the clipped
gradients of single records: with ``lax.conv``, as banded matrix products for one record, and in the
batch form that training uses on a CPU. Prints milliseconds, and the speed-up of the batch form.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tacit.tasks import cnn, conv, make
from tacit.tasks.base import Params, Record

CLIENTS, RECORDS, STEPS, REPEATS = 4, 40, 4, 2
FORMS = ("lax", "banded", "batch")
Work = Callable[[Any, bool, Params, Record], Params]


def local_steps(task: Any, batch: bool, params: Params, records: Record) -> Params:
    def loss(p: Params) -> Array:
        single = jax.vmap(task.loss, in_axes=(None, 0))
        return jnp.mean(task.losses(p, records) if batch else single(p, records))

    def step(p: Params, _: None) -> tuple[Params, None]:
        return jax.tree.map(lambda a, g: a - 0.1 * g, p, jax.grad(loss)(p)), None

    return lax.scan(step, params, None, length=STEPS)[0]


def record_gradients(task: Any, batch: bool, params: Params, records: Record) -> Params:
    if batch:
        found = task.by_record(params, records)
        return found.combined(jnp.minimum(1.0, found.norms))
    gradients = jax.vmap(jax.grad(task.loss), in_axes=(None, 0))(params, records)
    squares = (jnp.sum(g**2, axis=tuple(range(1, g.ndim))) for g in jax.tree.leaves(gradients))
    factors = jnp.minimum(1.0, lax.rsqrt(sum(squares)))
    return jax.tree.map(lambda g: jnp.tensordot(factors, g, 1), gradients)


ROUNDS: dict[str, tuple[Work, Callable[..., Any]]] = {
    "local steps, lax.map": (local_steps, lax.map),
    "local steps, vmap": (local_steps, lambda f, xs: jax.vmap(f)(xs)),
    "record gradients, lax.map": (record_gradients, lax.map),
}


def seconds(task: Any, work: Work, over: Callable[..., Any], form: str, records: Record) -> float:
    params = jax.jit(task.init)(jax.random.key(0))
    batch = form == "batch"
    single: Any = "banded" if batch else form
    own_form = functools.partial(conv.conv2d, form=single)
    with mock.patch.object(cnn, "conv2d", own_form):
        compiled = jax.jit(lambda p, r: over(lambda one: work(task, batch, p, one), r))
        jax.block_until_ready(compiled(params, records))
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(compiled(params, records))
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"{CLIENTS} clients x {RECORDS} records x {STEPS} steps, {jax.default_backend()}")
    heads = "".join(f"{form:>10}" for form in FORMS)
    print(f"{'network':10}{'round':26}{heads}{'gain':>7}")
    for name, shape in (("cnn", (28, 28, 1)), ("cifar-cnn", (32, 32, 3))):
        task = make(name, shape=shape, classes=10)
        records = {
            "x": jnp.asarray(rng.random((CLIENTS, RECORDS, *shape)), jnp.float32),
            "y": jnp.asarray(rng.integers(0, 10, (CLIENTS, RECORDS))),
        }
        for title, (work, over) in ROUNDS.items():
            times = [seconds(task, work, over, form, records) for form in FORMS]
            shown = "".join(f"{1e3 * t:7.0f} ms" for t in times)
            print(f"{name:10}{title:26}{shown}{min(times[:2]) / times[2]:6.1f}x", flush=True)


if __name__ == "__main__":
    main()
