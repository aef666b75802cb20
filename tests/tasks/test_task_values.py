"""Golden values and properties of single tasks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from tacit.tasks import (
    LeastSquares,
    Logistic,
    Multinomial,
    Poisson,
    Quadratic,
    RandomFeatures,
    cross_entropy,
    from_functions,
    make,
)
from tacit.tasks.counts import tame_exp

KEY = jax.random.key(0)


def parameters(task):
    return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(task.init, KEY)))


def test_parameter_counts_of_the_papers():
    assert parameters(make("cnn", shape=(28, 28), classes=10)) == 5046
    assert parameters(make("small-cnn", shape=(28, 28), classes=10)) == 237
    assert parameters(make("mlp", shape=(28, 28), classes=10)) == 784 * 200 + 200 + 2010
    assert parameters(make("random-features", shape=(784,), classes=10)) == 513 * 10
    assert parameters(make("random-features", shape=(16,), classes=2, units=128)) == 129 * 2
    assert parameters(make("cifar-cnn", shape=(32, 32, 3), classes=10)) == 65_962


@pytest.mark.parametrize("name", ["multinomial", "random-features"])
def test_convex_classifiers_start_undecided(name):
    task = make(name, shape=(3,), classes=5)
    record = {"x": jnp.ones(3), "y": 2}
    assert task.loss(task.init(KEY), record) == pytest.approx(np.log(5))


def test_losses_by_hand():
    record = {"x": jnp.array([1.0, 2.0]), "y": jnp.array(1.0)}
    w = {"w": jnp.array([3.0, -1.0])}
    assert LeastSquares(features=2).loss(w, record) == 0.0
    w = {"w": jnp.array([3.0, 1.0])}
    assert LeastSquares(features=2).loss(w, record) == pytest.approx(8.0)
    assert LeastSquares(features=2, factor=1).loss(w, record) == pytest.approx(16.0)
    assert Logistic(features=2).loss(w, record) == pytest.approx(np.log1p(np.exp(-5)), rel=1e-4)
    opposite = {**record, "y": jnp.array(0)}
    assert Logistic(features=2).loss(w, opposite) == pytest.approx(5 + np.log1p(np.exp(-5)))
    assert Poisson(features=2).loss(w, record) == pytest.approx(np.exp(5) - 5, rel=1e-5)
    assert Logistic(features=2, l2=0.1).penalty(w) == pytest.approx(0.5)


def test_quadratic_is_the_papers_form(x64):
    rng = np.random.default_rng(0)
    a, center, w = rng.standard_normal((5, 2)), rng.standard_normal(5), rng.standard_normal(5)
    task = Quadratic(features=5)
    expected = (w - center) @ (a @ a.T) @ (w - center) / 2
    assert task.loss({"w": w}, {"a": a, "center": center}) == pytest.approx(expected)
    z = a[:, 0]
    record = {"x": z, "y": z @ center}
    assert task.loss({"w": w}, record) == pytest.approx((z @ (w - center)) ** 2 / 2)
    assert task.loss({"w": center}, record) == pytest.approx(0, abs=1e-20)


def test_logistic_is_stable_far_out():
    task = Logistic(features=1, bias=False)
    for y in (0, 1):
        loss, slope = jax.value_and_grad(task.loss)(
            {"w": jnp.array([1e4])}, {"x": jnp.ones(1), "y": jnp.array(y)}
        )
        assert np.isfinite(loss)
        assert np.isfinite(slope["w"]).all()


def test_a_label_outside_the_classes_is_no_guess():
    assert np.isnan(cross_entropy(jnp.zeros(3), jnp.array(3)))
    assert np.isnan(cross_entropy(jnp.zeros(3), jnp.array(-1)))


def test_tame_exp_is_exp_then_its_tangent():
    assert tame_exp(jnp.array(2.0)) == pytest.approx(np.exp(2), rel=1e-6)
    slope = jax.grad(tame_exp)
    assert slope(2.0) == pytest.approx(np.exp(2), rel=1e-6)
    assert slope(25.0) == slope(20.0) == pytest.approx(np.exp(20), rel=1e-5)
    assert np.isfinite(tame_exp(jnp.array(1e28)))


def test_binary_tasks_agree(x64):
    """Two scores with opposite halves of the weights are one log-odds."""
    rng = np.random.default_rng(1)
    w, record = rng.standard_normal(3), {"x": rng.standard_normal(3), "y": np.array(1)}
    two = {"w": np.stack([-w / 2, w / 2], axis=1)}
    one = Logistic(features=3, bias=False).loss({"w": w}, record)
    assert Multinomial(features=3, classes=2, bias=False).loss(two, record) == pytest.approx(one)


def test_random_features_equal_their_head_on_transformed_records(x64):
    rng = np.random.default_rng(2)
    task = RandomFeatures(features=6, classes=3, units=10, seed=4, l2=0.1)
    records = {"x": rng.standard_normal((7, 2, 3)), "y": np.arange(7) % 3}
    params = jax.tree.map(lambda leaf: leaf + rng.standard_normal(leaf.shape), task.init(KEY))
    lifted = task.transform(records)
    np.testing.assert_allclose(
        task.losses(params, records), task.head.losses(params, lifted), rtol=1e-12
    )
    assert task.penalty(params) == task.head.penalty(params)
    assert jax.tree.map(jnp.shape, task.init(KEY)) == jax.tree.map(jnp.shape, task.head.init(KEY))


def test_the_frozen_layer_is_public_and_keeps_norms():
    rng = np.random.default_rng(3)
    records = {"x": rng.standard_normal((200, 20))}
    one = RandomFeatures(features=20, classes=2, seed=1).transform(records)["x"]
    again = RandomFeatures(features=20, classes=2, seed=1).transform(records)["x"]
    other = RandomFeatures(features=20, classes=2, seed=2).transform(records)["x"]
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 0.1
    ratio = np.sum(one**2) / np.sum(records["x"] ** 2)
    assert ratio == pytest.approx(1, abs=0.15)


def fit(task, records):
    start, restore = jax.flatten_util.ravel_pytree(task.init(KEY))

    def objective(v):
        return task.losses(restore(v), records).mean()

    found = optimize.minimize(
        jax.jit(jax.value_and_grad(objective)), start, jac=True, method="L-BFGS-B"
    )
    return restore(jnp.asarray(found.x))


def survival_records(count=4000, shape=1.5):
    rng = np.random.default_rng(5)
    w = np.array([0.8, -0.5])
    x = rng.standard_normal((count, 2))
    times = (rng.exponential(size=count) / np.exp(x @ w)) ** (1 / shape)
    ends = rng.uniform(0.2, 3, count)
    return w, {"x": x, "time": np.minimum(times, ends), "event": (times <= ends).astype(int)}


@pytest.mark.parametrize(
    ("name", "given"),
    [("weibull", {}), ("cox-piecewise", {"cuts": [0.1, 0.25, 0.5, 0.75, 1, 1.5]})],
)
def test_hazard_ratios_are_found(name, given, x64):
    w, records = survival_records()
    task = make(name, shape=(2,), **given)
    found = fit(task, records)
    np.testing.assert_allclose(found["w"], w, atol=0.07)
    index = task.metrics(np.asarray(task.outputs(found, records)), records)["concordance"]
    assert 0.65 < index < 0.85
    if name == "weibull":
        assert np.exp(found["log_shape"]) == pytest.approx(1.5, abs=0.07)


def test_the_unit_of_time_only_rescales(x64):
    _, records = survival_records(count=300)
    days = {**records, "time": records["time"] * 365.25}
    params = {"w": np.array([0.3, 0.1]), "a": np.array([0.2, -0.4])}
    years = make("cox-piecewise", shape=(2,), cuts=[0.8])
    in_days = make("cox-piecewise", shape=(2,), cuts=[0.8], unit=365.25)
    np.testing.assert_allclose(in_days.losses(params, days), years.losses(params, records))


def test_no_cuts_are_exponential_regression(x64):
    _, records = survival_records(count=50)
    w = np.array([0.3, 0.1])
    piecewise = make("cox-piecewise", shape=(2,)).losses({"w": w, "a": np.array([0.7])}, records)
    weibull = make("weibull", shape=(2,), exponential=True)
    np.testing.assert_allclose(piecewise, weibull.losses({"w": w, "b": np.array(0.7)}, records))


def test_an_event_at_time_zero_is_finite():
    record = {"x": jnp.ones(2), "time": jnp.array(0.0), "event": jnp.array(1)}
    for name in ("weibull", "cox-piecewise"):
        task = make(name, shape=(2,))
        value, slope = jax.value_and_grad(task.loss)(task.init(KEY), record)
        assert np.isfinite(value)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))


def test_one_class_test_sets_have_an_accuracy_only():
    records = {"x": np.ones((3, 2)), "y": np.zeros(3, int)}
    for task in (Logistic(features=2), Multinomial(features=2, classes=2)):
        outputs = np.asarray(task.outputs(task.init(KEY), records))
        assert set(task.metrics(outputs, records)) == {"accuracy"}


def test_your_own_functions():
    task = from_functions(
        lambda key: {"v": jax.random.normal(key, (2,))},
        lambda params, record: jnp.sum((params["v"] - record["x"]) ** 2),
        output=lambda params, record: params["v"] - record["x"],
        metrics=lambda outputs, records: {"far": float(np.abs(outputs).max())},
        penalty=lambda params: jnp.sum(params["v"]),
    )
    params = {"v": jnp.array([1.0, 2.0])}
    records = {"x": np.zeros((2, 2))}
    assert task.loss(params, {"x": jnp.zeros(2)}) == 5
    assert task.penalty(params) == 3
    assert task.metrics(np.asarray(task.outputs(params, records)), records) == {"far": 2.0}
    assert hash(task) == hash(task)
    bare = from_functions(lambda key: params, lambda p, r: jnp.sum(p["v"]))
    assert bare.metrics(np.asarray(bare.outputs(params, records)), records) == {}
    assert bare.penalty(params) == 0


def test_a_loss_that_is_no_number_is_refused():
    task = from_functions(lambda key: {"v": jnp.zeros(2)}, lambda p, r: p["v"] - r["x"])
    with pytest.raises(ValueError, match="single number"):
        task.loss({"v": jnp.zeros(2)}, {"x": jnp.zeros(2)})
