import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.errors import ConfigError
from tacit.tasks import Ball, Box, NoProx, Simplex, WeightedL1Box

vectors = arrays(
    np.float32, st.integers(1, 5), elements=st.floats(-8, 8, width=32, allow_subnormal=False)
)
EVERY = [
    NoProx(),
    WeightedL1Box(weight=0.5, box=2.0),
    WeightedL1Box(weight=0.5),
    Box(low=-1.0, high=0.5),
    Ball(radius=1.5),
    Simplex(total=2.0),
]


def test_reference_p002_prox_weighted_l1_box():
    # Entry p002_prox_weighted_l1_box of the reference values; omega includes gamma / n.
    prox = WeightedL1Box(weight=0.1, box=2.0)
    found = prox(jnp.array([3.0, -0.05, 0.2, -12.0]), 1.0)
    np.testing.assert_allclose(found, [2.0, 0.0, 0.1, -2.0], rtol=1e-6)


def test_weights_of_each_coordinate_and_the_step():
    prox = WeightedL1Box(weight=(1.0, 0.0, 2.0), box=10.0)
    np.testing.assert_allclose(prox(jnp.array([3.0, 3.0, -3.0]), 0.5), [2.5, 3.0, -2.0])
    assert prox.value(jnp.array([1.0, 5.0, -2.0])) == 5.0
    with pytest.raises(ConfigError, match="3 l1 weights for 2 parameters"):
        prox(jnp.zeros(2), 1.0)


def test_projections_by_hand():
    np.testing.assert_allclose(Ball(radius=1.0)(jnp.array([3.0, 4.0])), [0.6, 0.8], rtol=1e-6)
    np.testing.assert_allclose(Ball(radius=9.0)(jnp.array([3.0, 4.0])), [3.0, 4.0])
    np.testing.assert_allclose(Box(low=0, high=1)(jnp.array([-1.0, 0.3, 4.0])), [0.0, 0.3, 1.0])
    np.testing.assert_allclose(Simplex()(jnp.array([0.5, 0.5, 3.0])), [0, 0, 1.0])
    np.testing.assert_allclose(Simplex()(jnp.array([0.6, 0.6])), [0.5, 0.5])


def test_values_are_infinite_outside():
    assert np.isinf(Ball(radius=1.0).value(jnp.array([3.0])))
    assert np.isinf(Box(low=0, high=1).value(jnp.array([3.0])))
    assert np.isinf(Simplex().value(jnp.array([3.0])))
    assert np.isinf(WeightedL1Box(weight=1.0, box=2.0).value(jnp.array([3.0])))
    assert NoProx().value(jnp.array([3.0])) == 0


def test_huge_values_are_projected():
    np.testing.assert_allclose(Ball(radius=1.0)(jnp.array([3e38, 0.0])), [1.0, 0.0])


def test_trees_are_one_vector():
    tree = {"w": jnp.array([[3.0]]), "b": jnp.array(4.0)}
    found = Ball(radius=1.0)(tree, 1.0)
    assert found["w"].shape == (1, 1)
    np.testing.assert_allclose([found["w"][0, 0], found["b"]], [0.6, 0.8], rtol=1e-6)


@pytest.mark.parametrize("prox", EVERY, ids=lambda prox: type(prox).__name__)
@given(z=vectors, seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_no_other_point_is_better(prox, z, seed):
    """The prox minimises g(x) + ||x - z||^2 / (2 step) among random points of the set."""
    step = 0.7
    best = prox(jnp.asarray(z), step)

    def cost(x):
        return float(prox.value(x)) + float(np.sum((np.asarray(x) - z) ** 2)) / (2 * step)

    rng = np.random.default_rng(seed)
    for size in (0.01, 1.0):
        other = prox(best + size * rng.standard_normal(z.shape).astype(np.float32), 1e-9)
        assert cost(best) <= cost(other) + 1e-3
    np.testing.assert_allclose(prox(best, 0.0), best, atol=1e-5)
    assert np.isfinite(prox.value(best))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ball(radius=0),
        lambda: Ball(radius=float("nan")),
        lambda: Box(low=1, high=0),
        lambda: Simplex(total=-1),
        lambda: Simplex(total=float("inf")),
        lambda: WeightedL1Box(weight=-1.0),
        lambda: WeightedL1Box(weight=(1.0, float("nan"))),
        lambda: WeightedL1Box(weight=1.0, box=0),
    ],
)
def test_impossible_sets_are_refused(make):
    with pytest.raises(ConfigError):
        make()


def test_a_prox_hashes():
    assert hash(WeightedL1Box(weight=0.1)) == hash(WeightedL1Box(weight=0.1))
    assert Ball(radius=1.0) != Ball(radius=2.0)
