import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import ConfigError
from tacit.tasks import make
from tacit.tasks.conv import conv2d, max_pool, output_size, tile_width
from tacit.tasks.conv_batch import conv_pool

SHAPES = [
    # height, width, cin, kh, kw, cout, padding
    (28, 28, 1, 4, 4, 4, "valid"),
    (12, 12, 4, 4, 4, 8, "valid"),
    (9, 13, 2, 3, 3, 5, "same"),
    (10, 11, 3, 3, 2, 6, "same"),
    (11, 8, 2, 5, 3, 64, "valid"),
    (7, 7, 3, 1, 1, 200, "valid"),
    (8, 9, 2, 4, 5, 4, "same"),
]


def pair(shape, seed=0):
    height, width, cin, kh, kw, cout, padding = shape
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((height, width, cin))
    kernel = rng.standard_normal((kh, kw, cin, cout))
    return x, kernel, {"padding": padding}


@pytest.mark.parametrize("shape", SHAPES)
def test_both_forms_have_one_meaning_in_float64(shape, x64):
    x, kernel, how = pair(shape)

    @functools.partial(jax.jit, static_argnums=2)
    def study(x, kernel, form):
        def value(x, kernel):
            out = conv2d(x, kernel, form=form, **how)
            return jnp.sum(jnp.sin(out)), out

        gradients, out = jax.grad(value, argnums=(0, 1), has_aux=True)(x, kernel)
        return out, gradients

    for a, b in zip(
        jax.tree.leaves(study(x, kernel, "banded")),
        jax.tree.leaves(study(x, kernel, "lax")),
        strict=True,
    ):
        assert a.shape == b.shape
        assert a.dtype == jnp.float64
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_both_forms_agree_over_clients_and_records(x64):
    """Weights that differ by client and gradients of single records: what the simulator does."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 2, 8, 8, 2))
    kernels = rng.standard_normal((3, 3, 3, 2, 4))

    def gradients(form):
        grad = jax.grad(lambda k, x: jnp.sum(conv2d(x, k, form=form) ** 3))
        return jax.jit(jax.vmap(jax.vmap(grad, in_axes=(None, 0))))(kernels, x)

    np.testing.assert_allclose(gradients("banded"), gradients("lax"), rtol=1e-10, atol=1e-9)


def test_auto_is_banded_on_a_cpu(monkeypatch):
    x, kernel, how = pair(SHAPES[0])

    def has_conv(form="auto"):
        text = str(jax.make_jaxpr(lambda x, k: conv2d(x, k, form=form, **how))(x, kernel))
        return "conv_general_dilated" in text

    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert not has_conv()
    assert has_conv("lax")
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert has_conv()
    assert not has_conv("banded")


def test_max_pool_by_hand():
    x = jnp.arange(15.0).reshape(3, 5, 1)
    np.testing.assert_array_equal(max_pool(x, 2)[..., 0], [[6, 8]])


def test_the_gradient_of_equal_values_goes_to_the_first():
    x = jnp.array([[1.0, 3.0], [3.0, 2.0]])[..., None]
    grad = jax.grad(lambda x: jnp.sum(max_pool(x, 2)))(x)
    np.testing.assert_array_equal(grad[..., 0], [[0, 1], [0, 0]])


POOLED = [
    # height, width, cin, kernel, cout, pooling, padding
    (28, 28, 1, 4, 4, 2, "valid"),
    (12, 12, 4, 4, 8, 2, "valid"),
    (11, 13, 2, 3, 3, 3, "same"),
    (7, 9, 3, 2, 5, 1, "valid"),
    (8, 6, 2, 5, 2, 2, "same"),
]


@pytest.mark.parametrize("shape", POOLED)
def test_the_form_for_batches_is_convolution_then_pooling(shape, x64):
    height, width, cin, k, cout, size, padding = shape
    rng = np.random.default_rng(2)
    x = rng.standard_normal((3, height, width, cin))
    kernel = rng.standard_normal((k, k, cin, cout))

    def by_record(x, kernel):
        one = lambda image: max_pool(conv2d(image, kernel, padding=padding, form="lax"), size)
        return jax.vmap(one)(x)

    def as_batch(x, kernel):
        last = jnp.moveaxis(jnp.moveaxis(x, 0, -1), 2, 0)
        out = conv_pool(last, kernel, size=size, padding=padding)
        return jnp.moveaxis(jnp.moveaxis(out, 0, 2), -1, 0)

    def study(form):
        value = lambda x, kernel: jnp.sum(jnp.sin(form(x, kernel)))
        return jax.jit(form)(x, kernel), *jax.jit(jax.grad(value, argnums=(0, 1)))(x, kernel)

    for a, b in zip(study(by_record), study(as_batch), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, atol=1e-10)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": "same", "activation": "tanh", "pool": 3},
        {"activation": "none", "hidden": []},
    ],
)
def test_a_network_says_the_same_of_a_batch_as_of_each_record(options, x64):
    """Also where a blank image makes all values of a pooling block equal."""
    task = make("cnn", shape=(16, 16, 2), classes=3, **options)
    params = task.init(jax.random.key(3))
    rng = np.random.default_rng(3)
    x = rng.standard_normal((5, 16, 16, 2))
    x[1] = 0
    records = {"x": jnp.asarray(x), "y": jnp.array([0, 1, 2, 1, 0])}
    each = jax.vmap(task.loss, in_axes=(None, 0))
    np.testing.assert_allclose(task.losses(params, records), each(params, records), atol=1e-12)

    def gradient(form):
        return jax.tree.leaves(jax.jit(jax.grad(lambda p: jnp.sum(form(p, records))))(params))

    for a, b in zip(gradient(task.losses), gradient(each), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_a_network_may_start_as_pytorch_s_layers_do():
    """Every weight and bias has a variance of 1 / (3 inputs)."""
    made = make("cnn", shape=(28, 28, 1), classes=10, start="torch")
    for name, inputs in {"conv0": 16, "conv1": 64, "dense0": 128, "dense1": 32}.items():
        draws = [made.init(jax.random.key(seed))[name] for seed in range(40)]
        for part in ("w", "b"):
            values = np.stack([np.asarray(draw[part]) for draw in draws])
            assert values.std() == pytest.approx((3 * inputs) ** -0.5, rel=0.15)
    with pytest.raises(ConfigError, match="'he' or 'torch'"):
        make("cnn", shape=(28, 28, 1), classes=10, start="zeros")


@given(st.integers(1, 64), st.integers(1, 7), st.integers(1, 300))
@settings(max_examples=200)
def test_tiles_cover_the_width(columns, kw, cout):
    tile = tile_width(columns, kw, cout)
    assert 1 <= tile <= columns
    assert tile <= max(2 * kw + 1, 1)


def test_output_sizes():
    assert output_size(28, 4, "valid") == 25
    assert output_size(28, 3, "same") == 28
