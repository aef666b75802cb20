"""The LSTM on small generated data; skipped without Flax."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from task_cases import trains

from tacit.errors import ConfigError
from tacit.tasks import make

pytest.importorskip("flax")
KEY = jax.random.key(0)


def test_learns_a_rhythm():
    rows = np.stack([(np.arange(7) + start) % 4 for start in range(4)])
    records = {"x": rows[:, :-1], "y": rows[:, 1:]}
    task = make("lstm", shape=(6,), classes=5, embedding=4, hidden=8)
    params = trains(task, records, steps=120, rate=2.0)
    outputs = np.asarray(jax.jit(task.outputs)(params, records))
    assert outputs.shape == (4, 6, 5)
    assert task.metrics(outputs, records)["accuracy"] > 0.6


def test_padding_does_not_count():
    task = make("lstm", shape=(4,), classes=5, embedding=3, hidden=4, pad=0)
    params = jax.jit(task.init)(KEY)
    x = jnp.array([1, 2, 3, 0])
    loss = jax.jit(task.loss)
    scores = jax.nn.log_softmax(jax.jit(task.output)(params, {"x": x}))
    expected = -(scores[0, 2] + scores[1, 3]) / 2
    assert loss(params, {"x": x, "y": jnp.array([2, 3, 0, 0])}) == pytest.approx(expected)
    assert loss(params, {"x": x, "y": jnp.zeros(4, int)}) == 0
    outputs = np.zeros((1, 4, 5))
    assert task.metrics(outputs, {"y": np.zeros((1, 4), int)}) == {}


def test_of_the_last_position():
    task = make("lstm", shape=(4,), classes=5, embedding=3, hidden=4, every=False)
    params = jax.jit(task.init)(KEY)
    record = {"x": jnp.array([1, 2, 3, 0]), "y": jnp.array(2)}
    assert jax.eval_shape(task.output, params, record).shape == (5,)
    assert jax.jit(task.loss)(params, record) == pytest.approx(np.log(5), abs=0.5)


def test_size():
    task = make("lstm", shape=(10,), classes=100)
    shapes = jax.eval_shape(task.init, KEY)
    size = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    layer = 4 * (256 * 256 + 256 * 256 + 256)
    assert size == 100 * 256 + 2 * layer + 257 * 100


def test_a_record_is_a_row_of_tokens():
    with pytest.raises(ConfigError, match="row of tokens"):
        make("lstm", shape=(4, 4), classes=5)


def test_float64(x64):
    task = make("lstm", shape=(4,), classes=5, embedding=3, hidden=4)
    params = jax.eval_shape(task.init, KEY)
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("float64")}
    x = jax.ShapeDtypeStruct((4,), jnp.int32)
    assert jax.eval_shape(task.output, params, {"x": x}).dtype == jnp.float64
    assert hash(task) == hash(task)
