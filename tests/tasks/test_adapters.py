"""Models of other libraries; skipped where the library is not installed."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import ConfigError
from tacit.tasks import from_equinox, from_linen, from_nnx, make, softmax_loss, softmax_metrics

KEY = jax.random.key(0)
RECORDS = {
    "x": np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32),
    "y": np.arange(6) % 3,
}


def trains(task, records=RECORDS, steps=40, rate=0.3):
    """A few steps of gradient descent lower the loss; returns the last parameters."""
    params = jax.jit(task.init)(KEY)

    @jax.jit
    def step(params):
        loss, slope = jax.value_and_grad(lambda p: task.losses(p, records).mean())(params)
        return loss, jax.tree.map(lambda p, g: p - rate * g, params, slope)

    first, params = step(params)
    for _ in range(steps):
        last, params = step(params)
    assert np.isfinite(first)
    assert last < first
    return params


def check_classifier(task):
    params = trains(task)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
    outputs = np.asarray(task.outputs(params, RECORDS))
    assert outputs.shape == (6, 3)
    assert task.metrics(outputs, RECORDS)["accuracy"] > 0.5
    gradients = jax.jit(jax.vmap(jax.grad(task.loss), in_axes=(None, 0)))(params, RECORDS)
    assert all(leaf.shape[0] == 6 for leaf in jax.tree.leaves(gradients))
    hash(task)


@pytest.mark.parametrize(
    ("build", "extra", "missing"),
    [
        (lambda: from_linen(None, softmax_loss, shape=(1,)), "flax", "flax"),
        (lambda: from_nnx(None, softmax_loss), "flax", "flax"),
        (lambda: from_equinox(None, softmax_loss), "equinox", "equinox"),
        (
            lambda: make("vgg11", shape=(32, 32, 3), classes=2).init(KEY),
            "flax",
            "flax",
        ),
    ],
)
def test_a_missing_library_is_one_sentence(build, extra, missing, monkeypatch):
    for name in (missing, f"{missing}.linen", f"{missing}.nnx", f"{missing}.errors"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"pip install 'tacit\[{extra}\]'"):
        build()


class TestLinen:
    @pytest.fixture
    def nn(self):
        return pytest.importorskip("flax.linen")

    def test_a_module_trains(self, nn):
        module = nn.Sequential([nn.Dense(8), nn.GroupNorm(2), nn.relu, nn.Dense(3)])
        check_classifier(from_linen(module, softmax_loss, shape=(4,), metrics=softmax_metrics))

    def test_tokens(self, nn):
        module = nn.Sequential([nn.Embed(7, 5), nn.Dense(3)])
        task = from_linen(
            module, lambda out, r: jnp.mean(out), shape=(4,), dtype=jnp.int32, batched=False
        )
        record = {"x": jnp.array([1, 2, 3, 6])}
        assert task.output(task.init(KEY), record).shape == (4, 3)

    def test_float64(self, nn, x64):
        task = from_linen(nn.Dense(3), softmax_loss, shape=(4,))
        params = task.init(KEY)
        assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("float64")}
        assert task.losses(params, RECORDS).dtype == jnp.float64

    def test_batch_norm_is_refused_with_the_way_out(self, nn):
        module = nn.Sequential([nn.Dense(8), nn.BatchNorm(use_running_average=True)])
        with pytest.raises(ConfigError, match="GroupNorm or LayerNorm"):
            from_linen(module, softmax_loss, shape=(4,))

    def test_dropout_must_be_off(self, nn):
        off = nn.Sequential([nn.Dense(3), nn.Dropout(0.5, deterministic=True)])
        from_linen(off, softmax_loss, shape=(4,))
        module = nn.Sequential([nn.Dense(3), nn.Dropout(0.5, deterministic=False)])
        with pytest.raises(ConfigError, match="deterministic=True"):
            from_linen(module, softmax_loss, shape=(4,))


class TestNNX:
    @pytest.fixture
    def nnx(self):
        return pytest.importorskip("flax.nnx")

    def test_a_module_trains(self, nnx):
        def build(rngs):
            return nnx.Sequential(
                nnx.Linear(4, 8, rngs=rngs),
                nnx.LayerNorm(8, rngs=rngs),
                nnx.relu,
                nnx.Dropout(0.5, rngs=rngs),
                nnx.Linear(8, 3, rngs=rngs),
            )

        task = from_nnx(build, softmax_loss, metrics=softmax_metrics)
        check_classifier(task)
        assert all(isinstance(name, str) for name in task.init(KEY))

    def test_the_task_is_the_module(self, nnx):
        def build(rngs):
            return nnx.Linear(4, 3, rngs=rngs)

        x = jnp.ones((1, 4))
        task = from_nnx(build, softmax_loss)
        expected = build(nnx.Rngs(KEY))(x)[0]
        np.testing.assert_allclose(task.output(task.init(KEY), {"x": x[0]}), expected, rtol=1e-6)

    def test_batch_norm_is_refused_with_the_way_out(self, nnx):
        with pytest.raises(ConfigError, match="GroupNorm or LayerNorm"):
            from_nnx(lambda rngs: nnx.BatchNorm(4, rngs=rngs), softmax_loss)


class TestEquinox:
    @pytest.fixture
    def eqx(self):
        return pytest.importorskip("equinox")

    def test_a_module_trains(self, eqx):
        def build(key):
            one, two = jax.random.split(key)
            return eqx.nn.Sequential(
                [
                    eqx.nn.Linear(4, 8, key=one),
                    eqx.nn.LayerNorm(8),
                    eqx.nn.Lambda(jax.nn.relu),
                    eqx.nn.Dropout(0.5),
                    eqx.nn.Linear(8, 3, key=two),
                ]
            )

        check_classifier(from_equinox(build, softmax_loss, metrics=softmax_metrics))

    def test_the_task_is_the_module(self, eqx):
        def build(key):
            return eqx.nn.MLP(4, 3, 8, 2, key=key)

        task = from_equinox(build, softmax_loss)
        x = jnp.arange(4.0)
        np.testing.assert_allclose(task.output(task.init(KEY), {"x": x}), build(KEY)(x), rtol=1e-6)

    def test_batch_norm_is_refused_with_the_way_out(self, eqx):
        with pytest.raises(ConfigError, match="GroupNorm or LayerNorm"):
            from_equinox(lambda key: eqx.nn.BatchNorm(4, "batch", mode="batch"), softmax_loss)

    def test_other_state_is_refused(self, eqx):
        with pytest.raises(ConfigError, match="state besides its parameters"):
            from_equinox(lambda key: eqx.nn.StateIndex(jnp.zeros(2)), softmax_loss)


class TestNetworks:
    @pytest.fixture(autouse=True)
    def flax(self):
        pytest.importorskip("flax")

    def test_lstm_learns_a_rhythm(self):
        rows = np.stack([(np.arange(7) + start) % 4 for start in range(4)])
        records = {"x": rows[:, :-1], "y": rows[:, 1:]}
        task = make("lstm", shape=(6,), classes=5, embedding=4, hidden=8)
        params = trains(task, records, steps=120, rate=2.0)
        outputs = np.asarray(jax.jit(task.outputs)(params, records))
        assert outputs.shape == (4, 6, 5)
        assert task.metrics(outputs, records)["accuracy"] > 0.6

    def test_lstm_padding_does_not_count(self):
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

    def test_lstm_of_the_last_position(self):
        task = make("lstm", shape=(4,), classes=5, embedding=3, hidden=4, every=False)
        params = jax.jit(task.init)(KEY)
        record = {"x": jnp.array([1, 2, 3, 0]), "y": jnp.array(2)}
        assert jax.eval_shape(task.output, params, record).shape == (5,)
        assert jax.jit(task.loss)(params, record) == pytest.approx(np.log(5), abs=0.5)

    def test_lstm_size(self):
        task = make("lstm", shape=(10,), classes=100)
        shapes = jax.eval_shape(task.init, KEY)
        size = sum(leaf.size for leaf in jax.tree.leaves(shapes))
        layer = 4 * (256 * 256 + 256 * 256 + 256)
        assert size == 100 * 256 + 2 * layer + 257 * 100

    def test_unet_learns_a_mask(self):
        rng = np.random.default_rng(0)
        masks = np.zeros((2, 4, 8, 8), int)
        masks[:, 1:3, 2:6, 2:6] = 1
        records = {"x": masks + 0.1 * rng.standard_normal(masks.shape), "y": masks}
        task = make("unet3d", shape=(4, 8, 8), channels=[2, 4], groups=2)
        params = trains(task, records, steps=30, rate=0.5)
        outputs = np.asarray(jax.jit(task.outputs)(params, records))
        assert outputs.shape == masks.shape
        assert task.metrics(outputs, records)["dice"] > 0.8

    def test_unet_loss_by_hand(self, monkeypatch):
        task = make("unet3d", shape=(2, 2, 2), channels=[4])
        monkeypatch.setattr(type(task), "output", lambda *_: jnp.zeros((2, 2, 2)))
        truth = jnp.zeros((2, 2, 2)).at[0].set(1)
        assert task.loss({}, {"y": truth}) == pytest.approx(1 - (2 * 2 + 1) / (4 + 4 + 1))

    def test_unet_refuses_odd_volumes(self):
        with pytest.raises(ConfigError, match="divide by 4"):
            make("unet3d", shape=(6, 8, 8))
        with pytest.raises(ConfigError, match="no volumes"):
            make("unet3d", shape=(6,))

    def test_vgg_trains(self):
        rng = np.random.default_rng(0)
        records = {"x": rng.random((2, 32, 32, 3)), "y": np.array([0, 1])}
        task = make("vgg11", shape=(32, 32, 3), classes=2, base=2, hidden=[8])
        trains(task, records, steps=2, rate=0.1)

    def test_vgg_size_is_the_papers(self):
        task = make("vgg11", shape=(64, 64, 3), classes=2)
        shapes = jax.eval_shape(task.init, KEY)
        convolutions = {k: v for k, v in shapes.items() if k.startswith("conv")}
        assert len(convolutions) == 8
        assert sum(leaf.size for leaf in jax.tree.leaves(convolutions)) == 9_220_480

    def test_vgg_refuses_small_images(self):
        with pytest.raises(ConfigError, match="32 x 32"):
            make("vgg11", shape=(28, 28), classes=10)

    def test_networks_in_float64(self, x64):
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
