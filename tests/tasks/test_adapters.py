"""Models of other libraries; skipped where the library is not installed."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from task_cases import trains

from tacit.errors import ConfigError
from tacit.tasks import from_equinox, from_linen, from_nnx, make, softmax_loss, softmax_metrics

KEY = jax.random.key(0)
RECORDS = {
    "x": np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32),
    "y": np.arange(6) % 3,
}


def check_classifier(task):
    params = trains(task, RECORDS)
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
        (lambda: make("lstm", shape=(4,), classes=5).init(KEY), "flax", "flax"),
    ],
)
def test_a_missing_library_is_one_sentence(build, extra, missing, monkeypatch):
    for name in (missing, f"{missing}.linen", f"{missing}.nnx", f"{missing}.errors"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"pip install 'tacit-fl\[{extra}\]'"):
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
