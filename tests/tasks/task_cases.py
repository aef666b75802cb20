"""One row for each task: the task and a few records of its kind."""

import jax
import numpy as np

from tacit.tasks import make

rng = np.random.default_rng(7)


def features(count, *shape):
    return rng.standard_normal((count, *shape)).astype(np.float64)


def labels(count, classes):
    return (np.arange(count) % classes).astype(np.int32)


SURVIVAL = {
    "x": features(9, 4),
    "time": rng.uniform(0, 5, 9),
    "event": labels(9, 2),
}
BINARY = {"x": features(9, 5), "y": labels(9, 2)}
MANY = {"x": features(9, 2, 3), "y": labels(9, 4)}
IMAGES = {"x": rng.random((3, 16, 16)), "y": labels(3, 10)}
COLOUR = {"x": rng.random((2, 16, 16, 3)), "y": labels(2, 10)}
COUNTS = {"x": features(9, 5), "y": rng.integers(0, 6, 9), "exposure": rng.uniform(0.5, 2, 9)}
LINES = {"x": features(9, 5), "y": features(9)}
MATRICES = {"a": features(4, 6, 3), "center": features(4, 6)}

CASES = {
    "least-squares": (make("least-squares", shape=(5,), l2=0.1, bias=True), LINES),
    "least-squares-paper-003": (make("least-squares", shape=(5,), factor=1), LINES),
    "quadratic": (make("quadratic", shape=(6, 3), l2=0.1), MATRICES),
    "quadratic-vectors": (make("quadratic", shape=(5,)), LINES),
    "logistic": (make("logistic", shape=(5,), classes=2, l2=0.1), BINARY),
    "logistic-no-bias": (make("logistic", shape=(5,), classes=2, bias=False), BINARY),
    "multinomial": (make("multinomial", shape=(2, 3), classes=4, l2=0.1), MANY),
    "multinomial-no-bias": (make("multinomial", shape=(2, 3), classes=4, bias=False), MANY),
    "random-features": (make("random-features", shape=(2, 3), classes=4, units=16), MANY),
    "mlp": (make("mlp", shape=(2, 3), classes=4), MANY),
    "mlp-deep": (make("mlp", shape=(6,), classes=4, hidden=[7, 5], activation="relu"), MANY),
    "mlp-none": (make("mlp", shape=(6,), classes=4, hidden=[40, 5], activation="none"), MANY),
    "mlp-tanh": (make("mlp", shape=(6,), classes=4, hidden=[7], activation="tanh"), MANY),
    "poisson": (make("poisson", shape=(5,)), COUNTS),
    "cox-piecewise": (make("cox-piecewise", shape=(4,), cuts=[1.0, 2.5]), SURVIVAL),
    "weibull": (make("weibull", shape=(4,), l2=0.01), SURVIVAL),
    "exponential": (make("weibull", shape=(4,), exponential=True), SURVIVAL),
    "cnn": (make("cnn", shape=(256,), classes=10), IMAGES),
    "small-cnn": (make("small-cnn", shape=(16, 16), classes=10), IMAGES),
    "cifar-cnn": (make("cifar-cnn", shape=(16, 16, 3), classes=10), COLOUR),
}


def trains(task, records, steps=40, rate=0.3):
    """A few steps of gradient descent lower the loss; returns the last parameters."""
    params = jax.jit(task.init)(jax.random.key(0))

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
