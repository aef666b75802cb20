"""What holds for every task, one row each in ``task_cases``."""

import copy
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from task_cases import CASES

every = pytest.mark.parametrize(("task", "records"), CASES.values(), ids=CASES)
leaves_of = jax.tree.leaves


@functools.partial(jax.jit, static_argnums=0)
def init(task, key):
    return task.init(key)


def some_params(task, spread=0.3, seed=0):
    """Random parameters of the task's shapes and precision, without compiling anything."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(task.init, jax.random.key(0))
    return jax.tree.map(
        lambda leaf: (spread * rng.standard_normal(leaf.shape)).astype(leaf.dtype), shapes
    )


@functools.partial(jax.jit, static_argnums=0)
def study(task, params, records):
    """Losses, outputs and gradients of all records, compiled once for a task."""
    gradients = jax.vmap(jax.grad(task.loss), in_axes=(None, 0))(params, records)
    return task.losses(params, records), task.outputs(params, records), gradients


@functools.partial(jax.jit, static_argnums=0)
def curvature(task, params, record):
    flat, restore = ravel_pytree(params)
    return jax.hessian(lambda v: task.loss(restore(v), record) + task.penalty(restore(v)))(flat)


@every
def test_losses_outputs_gradients_and_metrics(task, records):
    params = init(task, jax.random.key(0))
    losses, outputs, gradients = study(task, params, records)
    count = len(next(iter(records.values())))
    assert losses.shape == (count,)
    assert outputs.shape[0] == count
    for leaf, gradient in zip(leaves_of(params), leaves_of(gradients), strict=True):
        assert gradient.shape == (count, *leaf.shape)
        assert leaf.dtype == gradient.dtype == losses.dtype == jnp.float32
        assert np.isfinite(gradient).all()
    assert np.isfinite(losses).all()
    assert max(np.abs(g).max() for g in leaves_of(gradients)) > 0
    for name, value in task.metrics(np.asarray(outputs), records).items():
        assert type(value) is float, name
        assert np.isfinite(value)
    task.metrics(np.asarray(outputs[:1]), {k: v[:1] for k, v in records.items()})


@every
def test_float64_is_followed(task, records, x64):
    params = jax.eval_shape(task.init, jax.random.key(0))
    assert {leaf.dtype for leaf in leaves_of(params)} == {jnp.dtype("float64")}
    single = {k: v.astype(np.float32) if v.dtype.kind == "f" else v for k, v in records.items()}
    for given in (records, single):
        assert jax.eval_shape(task.losses, params, given).dtype == jnp.float64


@every
def test_a_task_is_a_static_argument(task, records):
    twin = copy.deepcopy(task)
    assert hash(task) == hash(twin)
    assert task == twin
    traces = []

    @functools.partial(jax.jit, static_argnums=0)
    def compiled(task, x):
        traces.append(1)
        return x + task.l2

    compiled(task, 1.0)
    compiled(twin, 1.0)
    assert len(traces) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.l2 = 1.0


@every
def test_no_record_reads_another(task, records):
    params = some_params(task)
    whole, _, _ = study(task, params, records)
    changed = {k: np.concatenate([v[:1], v[1:][::-1]]) for k, v in records.items()}
    others, _, _ = study(task, params, changed)
    np.testing.assert_allclose(others[0], whole[0], rtol=1e-6)


@every
def test_analytic_gradient_norms_equal_those_of_autodiff(task, records, x64):
    params = some_params(task)
    norms = jax.jit(task.sq_norms)(params, records)
    if norms is None:
        assert task.constants(1.0) is None
        assert jax.eval_shape(task.by_record, params, records) is None
        return
    _, _, gradients = study(task, params, records)
    flat = np.concatenate([np.reshape(g, (len(norms), -1)) for g in leaves_of(gradients)], axis=1)
    np.testing.assert_allclose(norms, np.sum(flat**2, axis=1), rtol=1e-10)
    lengths = np.linspace(0.5, 2.0, len(norms))
    lengths[1] = 0
    known = jax.jit(lambda p, r, f: task.by_record(p, r).combined(f))(params, records, lengths)
    directions = lengths / np.linalg.norm(flat, axis=1)
    for found, each in zip(leaves_of(known), leaves_of(gradients), strict=True):
        assert found.shape == each.shape[1:]
        np.testing.assert_allclose(found, np.tensordot(directions, each, axes=1), atol=1e-10)


@every
def test_a_record_without_a_length_or_a_direction_is_not_felt(task, records, x64):
    params = some_params(task)
    name = "a" if "a" in records else "x"
    if jax.eval_shape(task.sq_norms, params, records) is None:
        return
    broken = {**records, name: np.array(records[name])}
    broken[name][0] = np.inf
    weigh = jax.jit(lambda p, r, f: task.by_record(p, r).combined(f))
    lengths = np.ones(len(records[name]))
    felt = weigh(params, broken, lengths)
    lengths[0] = 0
    for found, expected, other in zip(
        leaves_of(weigh(params, broken, lengths)),
        leaves_of(weigh(params, records, lengths)),
        leaves_of(felt),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(other, expected)
    assert np.isinf(jax.jit(task.sq_norms)(params, broken)[0])


@every
def test_constants_bound_every_curvature(task, records, x64):
    """The Hessian of loss + penalty of one record lies between mu and L for ||x|| <= R."""
    bound = 1.7
    constants = task.constants(bound)
    if constants is None:
        return
    mu, L = constants
    name = "a" if "a" in records else "x"
    rows = records[name].reshape(len(records[name]), -1)
    scale = bound / np.linalg.norm(rows, axis=1)
    scaled = {**records, name: (records[name].T * scale).T}
    top = 0.0
    for seed in range(3):
        point = some_params(task, spread=float(seed), seed=seed)
        for i in range(3):
            hessian = curvature(task, point, {k: v[i] for k, v in scaled.items()})
            eigenvalues = np.linalg.eigvalsh(hessian)
            assert eigenvalues[0] >= mu - 1e-9
            assert eigenvalues[-1] <= L + 1e-9
            top = max(top, float(eigenvalues[-1]))
    assert top > L / 20, "the bound is not of the right size"
