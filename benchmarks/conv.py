"""The two forms of a convolution under weights that differ by client.

    python -m benchmarks.conv

Times rounds of local training of DP-FedEXP's network (5,046 parameters) and of the CIFAR-10
network, with clients one after another (``lax.map``) and side by side (``vmap``), and the clipped
gradients of single records. Prints milliseconds for each form and the gain.
"""

import functools
import time
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tacit.tasks import cnn, conv, make

CLIENTS, RECORDS, STEPS, REPEATS = 4, 40, 4, 2


def local_steps(task, params, records):
    slope = jax.grad(lambda p: jnp.mean(task.losses(p, records)))

    def step(p, _):
        return jax.tree.map(lambda a, g: a - 0.1 * g, p, slope(p)), None

    return lax.scan(step, params, None, length=STEPS)[0]


def record_gradients(task, params, records):
    gradients = jax.vmap(jax.grad(task.loss), in_axes=(None, 0))(params, records)
    return jax.tree.map(lambda g: jnp.sum(g, axis=0), gradients)


ROUNDS = {
    "local steps, lax.map": (local_steps, lax.map),
    "local steps, vmap": (local_steps, lambda f, xs: jax.vmap(f)(xs)),
    "record gradients, lax.map": (record_gradients, lax.map),
}


def seconds(task, work, over, form, records):
    params = jax.jit(task.init)(jax.random.key(0))
    own_form = functools.partial(conv.conv2d, form=form)
    with mock.patch.object(cnn, "conv2d", own_form):
        compiled = jax.jit(lambda p, r: over(lambda one: work(task, p, one), r))
        jax.block_until_ready(compiled(params, records))
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(compiled(params, records))
        best = min(best, time.perf_counter() - start)
    return best


def main():
    rng = np.random.default_rng(0)
    print(f"{CLIENTS} clients x {RECORDS} records x {STEPS} steps, {jax.default_backend()}")
    print(f"{'network':10} {'round':26} {'lax':>9} {'banded':>9} {'gain':>6}")
    for name, shape in (("cnn", (28, 28, 1)), ("cifar-cnn", (32, 32, 3))):
        task = make(name, shape=shape, classes=10)
        records = {
            "x": jnp.asarray(rng.random((CLIENTS, RECORDS, *shape)), jnp.float32),
            "y": jnp.asarray(rng.integers(0, 10, (CLIENTS, RECORDS))),
        }
        for title, (work, over) in ROUNDS.items():
            slow, fast = (seconds(task, work, over, form, records) for form in ("lax", "banded"))
            times = f"{slow * 1e3:6.0f} ms {fast * 1e3:6.0f} ms {slow / fast:5.1f}x"
            print(f"{name:10} {title:26} {times}", flush=True)


if __name__ == "__main__":
    main()
