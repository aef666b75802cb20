"""Local training: plain gradient steps, and steps whose every gradient is a release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import jax
import jax.numpy as jnp
from jax import Array, lax

from tacit import gram_steps, random_numbers, tree
from tacit.algorithm import ClientData, Moment
from tacit.errors import TacitError
from tacit.record_sums import bounded_sum as bounded_sum
from tacit.record_sums import dtype_of
from tacit.record_sums import squared_gradient_norms as squared_gradient_norms
from tacit.record_sums import sum_over_chosen as sum_over_chosen
from tacit.release import Release
from tacit.sampling import Batch, FullBatch
from tacit.tasks.base import Params, Record, Task
from tacit.tree import Tree

StepSize = Array | float
Correction = Tree | None


def gradient(
    task: Task, batch: Batch, key: Array, step: Array, params: Params, data: ClientData
) -> Tree:
    """The gradient of the mean loss over the chosen records plus the penalty; not private."""

    def total(records: Record, weights: Array) -> Tree:
        return jax.grad(lambda p: jnp.vdot(weights, task.losses(p, records)))(params)

    summed, count = sum_over_chosen(batch, key, step, data, params, total)
    mean = tree.scale(1 / jnp.maximum(count, 1).astype(dtype_of(params)), summed)
    return tree.add(mean, jax.grad(lambda p: jnp.asarray(task.penalty(p), dtype_of(p)))(params))


def gradient_steps(
    task: Task,
    batch: Batch,
    key: Array,
    params: Params,
    data: ClientData,
    *,
    steps: Array | int,
    step_size: StepSize,
    correction: Correction = None,
) -> Params:
    """``steps`` steps of gradient descent; a correction is added to every gradient."""
    if isinstance(batch, FullBatch) and gram_steps.is_shorter(task, params, data, steps):
        return gram_steps.span_steps(
            task, params, data, steps=steps, step_size=step_size, correction=correction
        )

    def one(step: Array, current: Params) -> Params:
        direction = gradient(task, batch, key, step, current, data)
        if correction is not None:
            direction = tree.add(direction, correction)
        return tree.subtract(current, tree.scale(step_size, direction))

    return lax.fori_loop(0, steps, one, params)


def update(
    task: Task,
    batch: Batch,
    moment: Moment,
    params: Params,
    data: ClientData,
    *,
    steps: Array | int,
    step_size: StepSize,
    correction: Correction = None,
) -> Tree:
    """What local gradient steps from ``params`` change; not private."""
    trained = gradient_steps(
        task,
        batch,
        moment.key,
        params,
        data,
        steps=steps,
        step_size=step_size,
        correction=correction,
    )
    return tree.subtract(trained, params)


class _Sealed:
    """A value that only the functions of this module make; ``leave_client`` takes nothing else."""

    def __init__(self, *_: Any) -> None:
        raise TacitError(
            f"{type(self).__name__} comes from local.private_steps, private_gradient, private_mean"
            " or record_sum, which bound every record."
        )

    value: Tree

    @classmethod
    def _of(cls, value: Tree) -> Self:
        made = object.__new__(cls)
        made.value = value
        return made


@jax.tree_util.register_pytree_node_class
class Noised(_Sealed):
    """Made of releases at local steps, and of what is public or was released before."""

    def map(self, change: Callable[[Any], Tree]) -> Noised:
        """Post-processing: a function of the value and of nothing private."""
        return Noised._of(change(self.value))

    def tree_flatten(self) -> tuple[tuple[Tree], None]:
        """The value."""
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Tree]) -> Noised:
        """From the value."""
        return cls._of(children[0])


@jax.tree_util.register_pytree_node_class
class BoundedSum(_Sealed):
    """The sum of a client's records, each inside the bound: the server will add the noise."""

    def tree_flatten(self) -> tuple[tuple[Tree], None]:
        """The value."""
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Tree]) -> BoundedSum:
        """From the value."""
        return cls._of(children[0])


def record_sum(
    release: Release,
    moment: Moment,
    data: ClientData,
    like: Tree,
    values: Callable[[Record], Tree],
) -> Noised | BoundedSum:
    """The sum over records of a bounded value each; with noise if it is released at a step."""
    batch_key, noise_key = random_numbers.split(moment.key)

    def total(records: Record, weights: Array) -> Tree:
        bounded = jax.vmap(release.bound)(values(records))
        return jax.tree.map(lambda v: jnp.tensordot(weights.astype(v.dtype), v, axes=1), bounded)

    step = jnp.zeros((), jnp.int32)
    summed, _ = sum_over_chosen(release.batch, batch_key, step, data, like, total)
    if release.by_record:
        return BoundedSum._of(summed)
    if release.at != "step":
        raise TacitError("a sum of records needs noise at a step, or at the server.")
    most = release.batch.most(data.capacity)
    return Noised._of(release.noised(noise_key, summed, moment.round, terms=most))


def plain_sum(data: ClientData, like: Tree, values: Callable[[Record], Tree]) -> Tree:
    """The sum over all of a client's records of a value each; not private."""

    def total(records: Record, weights: Array) -> Tree:
        each = values(records)
        return jax.tree.map(lambda v: jnp.tensordot(weights.astype(v.dtype), v, axes=1), each)

    # A full batch draws nothing.
    key, step = jax.random.key(0), jnp.zeros((), jnp.int32)
    return sum_over_chosen(FullBatch(), key, step, data, like, total)[0]


def private_mean(
    release: Release, moment: Moment, data: ClientData, values: Callable[[Record], Array]
) -> Noised:
    """One release at a step of the mean of a number per record, each put inside the bound."""
    like = jnp.zeros((), jnp.result_type(float))
    summed = record_sum(release, moment, data, like, lambda r: values(r).astype(like.dtype))
    assert isinstance(summed, Noised)
    return summed.map(lambda v: v / jnp.asarray(release.batch.expected(data.size), v.dtype))


def private_gradient(
    task: Task,
    release: Release,
    moment: Moment,
    params: Params,
    data: ClientData,
    radius: Array | float | None = None,
) -> Noised:
    """One release at a step: bounded per-record gradients, noise on their sum, expected divisor."""
    batch_key, noise_key = random_numbers.split(moment.key)
    zero = jnp.zeros((), jnp.int32)
    keys = (batch_key, noise_key)
    return Noised._of(
        _noisy_gradient(task, release, keys, zero, params, data, moment.round, radius)
    )


def private_steps(
    task: Task,
    release: Release,
    moment: Moment,
    params: Params,
    data: ClientData,
    *,
    step_size: StepSize,
    radius: Array | float | None = None,
    correction: Correction = None,
) -> Noised:
    """``release.times`` private steps: the last iterate, and the sum of those before each step."""
    batch_key, noise_key = random_numbers.split(moment.key)

    def one(step: Array, carry: tuple[Params, Params]) -> tuple[Params, Params]:
        current, visited = carry
        keys = (batch_key, random_numbers.fold_in(noise_key, step))
        direction = _noisy_gradient(task, release, keys, step, current, data, moment.round, radius)
        if correction is not None:
            direction = tree.add(direction, correction)
        moved = tree.subtract(current, tree.scale(step_size, direction))
        return moved, tree.add(visited, current)

    return Noised._of(lax.fori_loop(0, release.times, one, (params, tree.zeros_like(params))))


def _noisy_gradient(
    task: Task,
    release: Release,
    keys: tuple[Array, Array],
    step: Array,
    params: Params,
    data: ClientData,
    round_: Array,
    radius: Array | float | None,
) -> Tree:
    """``keys`` draw the batch (with the step) and the noise. The penalty is public."""
    batch_key, noise_key = keys
    limit = release.bound.radius if radius is None else radius

    def total(records: Record, weights: Array) -> Tree:
        return bounded_sum(task, release, params, records, weights, limit)

    summed, _ = sum_over_chosen(release.batch, batch_key, step, data, params, total)
    most = release.batch.most(data.capacity)
    noisy = release.noised(noise_key, summed, round_, limit, terms=most)
    mean = tree.scale(1 / jnp.asarray(release.batch.expected(data.size), dtype_of(params)), noisy)
    return tree.add(mean, jax.grad(lambda p: jnp.asarray(task.penalty(p), dtype_of(p)))(params))
