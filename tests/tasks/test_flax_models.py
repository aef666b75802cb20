"""The networks of Flax layers on small generated data; skipped without Flax."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from task_cases import trains

from tacit.errors import ConfigError
from tacit.tasks import make

pytest.importorskip("flax")
KEY = jax.random.key(0)


def test_lstm_learns_a_rhythm():
    rows = np.stack([(np.arange(7) + start) % 4 for start in range(4)])
    records = {"x": rows[:, :-1], "y": rows[:, 1:]}
    task = make("lstm", shape=(6,), classes=5, embedding=4, hidden=8)
    params = trains(task, records, steps=120, rate=2.0)
    outputs = np.asarray(jax.jit(task.outputs)(params, records))
    assert outputs.shape == (4, 6, 5)
    assert task.metrics(outputs, records)["accuracy"] > 0.6


def test_lstm_padding_does_not_count():
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


def test_lstm_of_the_last_position():
    task = make("lstm", shape=(4,), classes=5, embedding=3, hidden=4, every=False)
    params = jax.jit(task.init)(KEY)
    record = {"x": jnp.array([1, 2, 3, 0]), "y": jnp.array(2)}
    assert jax.eval_shape(task.output, params, record).shape == (5,)
    assert jax.jit(task.loss)(params, record) == pytest.approx(np.log(5), abs=0.5)


def test_lstm_size():
    task = make("lstm", shape=(10,), classes=100)
    shapes = jax.eval_shape(task.init, KEY)
    size = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    layer = 4 * (256 * 256 + 256 * 256 + 256)
    assert size == 100 * 256 + 2 * layer + 257 * 100


def test_unet_learns_a_mask():
    rng = np.random.default_rng(0)
    masks = np.zeros((2, 4, 8, 8), int)
    masks[:, 1:3, 2:6, 2:6] = 1
    records = {"x": masks + 0.1 * rng.standard_normal(masks.shape), "y": masks}
    task = make("unet3d", shape=(4, 8, 8), channels=[2, 4], groups=2)
    params = trains(task, records, steps=30, rate=0.5)
    outputs = np.asarray(jax.jit(task.outputs)(params, records))
    assert outputs.shape == masks.shape
    assert task.metrics(outputs, records)["dice"] > 0.8


def test_unet_loss_by_hand(monkeypatch):
    task = make("unet3d", shape=(2, 2, 2), channels=[4])
    monkeypatch.setattr(type(task), "output", lambda *_: jnp.zeros((2, 2, 2)))
    truth = jnp.zeros((2, 2, 2)).at[0].set(1)
    assert task.loss({}, {"y": truth}) == pytest.approx(1 - (2 * 2 + 1) / (4 + 4 + 1))


def test_unet_refuses_odd_volumes():
    with pytest.raises(ConfigError, match="divide by 4"):
        make("unet3d", shape=(6, 8, 8))
    with pytest.raises(ConfigError, match="no volumes"):
        make("unet3d", shape=(6,))


def test_vgg_trains():
    rng = np.random.default_rng(0)
    records = {"x": rng.random((2, 32, 32, 3)), "y": np.array([0, 1])}
    task = make("vgg11", shape=(32, 32, 3), classes=2, base=2, hidden=[8])
    trains(task, records, steps=2, rate=0.1)


def test_vgg_size_is_the_papers():
    task = make("vgg11", shape=(64, 64, 3), classes=2)
    shapes = jax.eval_shape(task.init, KEY)
    convolutions = {k: v for k, v in shapes.items() if k.startswith("conv")}
    assert len(convolutions) == 8
    assert sum(leaf.size for leaf in jax.tree.leaves(convolutions)) == 9_220_480


def test_vgg_refuses_small_images():
    with pytest.raises(ConfigError, match="32 x 32"):
        make("vgg11", shape=(28, 28), classes=10)


def test_networks_in_float64(x64):
    for task in (
        make("lstm", shape=(4,), classes=5, embedding=3, hidden=4),
        make("unet3d", shape=(4, 4, 4), channels=[4, 8]),
        make("vgg11", shape=(32, 32), classes=2, base=2, hidden=[]),
    ):
        params = jax.eval_shape(task.init, KEY)
        assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("float64")}
        x = jax.ShapeDtypeStruct(task.example().shape, task.example().dtype)
        assert jax.eval_shape(task.output, params, {"x": x}).dtype == jnp.float64
        assert hash(task) == hash(task)
