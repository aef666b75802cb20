"""One record's share of a step, in single precision and as optimised as in a run.

Tasks that know their gradients by norms and directions do not form them: bounding is a length for
each direction. Both must be those of one gradient, also where rounding has nearly eaten it: a
neighbour may hold any record. ``tests/tasks/test_extreme_models.py`` has the models that a server
may choose.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit import local
from tacit.bounds import Clip
from tacit.mechanisms import NoNoise
from tacit.release import Release
from tacit.tasks.base import Params, Record, Task
from tacit.tasks.counts import Poisson
from tacit.tasks.linear import LeastSquares, Quadratic
from tacit.tasks.logistic import Logistic, Multinomial
from tacit.tasks.mlp import MLP
from tacit.tasks.random_features import RandomFeatures

KEY, FEATURES = jax.random.key(9), 4

TASKS: dict[str, Task] = {
    "least-squares": LeastSquares(features=FEATURES, bias=True),
    "quadratic": Quadratic(features=FEATURES),
    "logistic": Logistic(features=FEATURES),
    "multinomial": Multinomial(features=FEATURES, classes=3),
    "random-features": RandomFeatures(features=FEATURES, classes=3, units=5),
    "poisson": Poisson(features=FEATURES),
    "mlp": MLP(features=FEATURES, classes=3, hidden=(6, 5), activation="relu"),
}


def wild_records(task: Task, params: Params, seed: int, count: int = 256) -> dict[str, Any]:
    """Records of any size, among them some whose huge features almost cancel in the output."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, FEATURES)) * 10.0 ** rng.integers(-3, 9, (count, 1))
    w = np.asarray(jax.tree.leaves(params)[-1], np.float64).reshape(-1)[:FEATURES]
    away = x - np.outer(x @ w, w) / (w @ w)
    wanted = rng.uniform(-20, 20, (count, 1))
    x = np.where(rng.random((count, 1)) < 0.6, away + wanted * w / (w @ w), x)
    regression = isinstance(task, (LeastSquares, Quadratic))
    y = x @ w + rng.uniform(-2, 2, count) if regression else rng.integers(0, 2, count)
    return {
        "x": jnp.asarray(x, jnp.float32),
        "y": jnp.asarray(y, jnp.float32 if regression else int),
    }


@pytest.mark.parametrize("name", TASKS)
def test_one_record_is_bounded_in_single_precision(name: str) -> None:
    """Also where norms are known and not formed, and where a gradient is nearly rounded away."""
    task = TASKS[name]
    release = Release(bound=Clip(0.7), mechanism=NoNoise(), at="step", unit="record")
    rng = np.random.default_rng(3)
    params = jax.tree.map(
        lambda v: jnp.asarray(0.01 * rng.standard_normal(v.shape), jnp.float32), task.init(KEY)
    )
    records = wild_records(task, params, 4)

    def alone(record: Record) -> Any:
        batch = {k: v[None] for k, v in record.items()}
        return local.bounded_sum(task, release, params, batch, jnp.ones(1), 0.7)

    each = jax.jit(jax.vmap(alone))(records)
    rows = [np.asarray(v, np.float64).reshape(256, -1) for v in jax.tree.leaves(each)]
    norms = np.linalg.norm(np.concatenate(rows, axis=1), axis=1)
    assert np.isfinite(norms).all()
    assert norms.max() <= 0.7
    assert norms.max() > 0.69
