"""Training in the span of the records is the same method as training the parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit import gram_steps, local
from tacit.algorithm import ClientData
from tacit.sampling import FixedBatch, FullBatch
from tacit.tasks import make

KEY = jax.random.key(0)
TASKS = {
    "multinomial": (make("multinomial", shape=(30,), classes=4), 4),
    "no bias, ridge": (make("multinomial", shape=(30,), classes=4, bias=False, l2=0.3), 4),
    "logistic, ridge": (make("logistic", shape=(30,), classes=2, l2=0.1), 2),
    "least squares": (make("least-squares", shape=(30,), classes=0, bias=True), 0),
    "random features": (make("random-features", shape=(30,), classes=3, units=40, l2=0.05), 3),
}


def client(classes, capacity=6, size=5):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((capacity, 30))
    x[size:] = np.nan  # another client's rows, or padding: never to be felt
    y = rng.integers(0, classes, capacity) if classes else rng.standard_normal(capacity)
    return ClientData({"x": jnp.asarray(x), "y": jnp.asarray(y)}, jnp.asarray(size))


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def start(task, seed):
    leaves, shape = jax.tree.flatten(task.init(KEY))
    rng = np.random.default_rng(seed)
    return jax.tree.unflatten(shape, [jnp.asarray(rng.standard_normal(v.shape)) for v in leaves])


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_the_span_gives_what_the_parameters_give(name, corrected, monkeypatch):
    task, classes = TASKS[name]
    params, data = start(task, 2), client(classes)
    how = {"steps": 7, "step_size": 0.3, "correction": start(task, 3) if corrected else None}
    found = gram_steps.span_steps(task, params, data, **how)
    monkeypatch.setattr(gram_steps, "is_shorter", lambda *_: False)
    expected = local.gradient_steps(task, FullBatch(), KEY, params, data, **how)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-12)


def test_it_is_taken_where_it_is_less_work():
    task = make("multinomial", shape=(784,), classes=10)
    params = jax.eval_shape(task.init, KEY)

    def shorter(records, steps, at_once=1024, task=task):
        shape = {"x": jax.ShapeDtypeStruct((records, 784), jnp.float32)}
        return gram_steps.is_shorter(
            task, params, ClientData(shape, jnp.asarray(1), at_once), steps
        )

    assert shorter(20, 20)
    assert not shorter(20, 1)
    assert not shorter(2000, 20)
    assert not shorter(20, 20, at_once=16)
    assert not shorter(20, 20, task=make("mlp", shape=(784,), classes=10))


def test_minibatches_stay_with_the_parameters(monkeypatch):
    task, classes = TASKS["multinomial"]
    monkeypatch.setattr(gram_steps, "span_steps", lambda *_, **__: pytest.fail("used the span"))
    monkeypatch.setattr(gram_steps, "is_shorter", lambda *_: True)
    data = client(classes, size=6)
    local.gradient_steps(task, FixedBatch(2), KEY, task.init(KEY), data, steps=3, step_size=0.1)
