"""Local work against plain loops in NumPy, in float64; and records that are wild."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit import local
from tacit.algorithm import ClientData, Moment
from tacit.bounds import Bound, Clip, Normalize
from tacit.mechanisms import Gaussian, NoNoise
from tacit.release import Release
from tacit.sampling import Batch, FixedBatch, FullBatch, PoissonBatch, ShuffledBatches
from tacit.tasks.base import Params, Record, Task
from tacit.tasks.linear import LeastSquares
from tacit.tasks.logistic import Logistic

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY, ROUND = jax.random.key(9), jnp.asarray(0)
SIZE, CAPACITY, FEATURES = 6, 9, 4
TASK = Logistic(features=FEATURES, l2=0.1)


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@dataclass(frozen=True, kw_only=True)
class Unknown(Task):
    """A task that does not say its gradients' norms, so that they are formed."""

    known: Task

    def init(self, key: Any) -> Params:
        return self.known.init(key)

    def output(self, params: Params, record: Record) -> Any:
        return self.known.output(params, record)

    def loss(self, params: Params, record: Record) -> Any:
        return self.known.loss(params, record)


def make_data(seed: int = 0, size: int = SIZE, rest: float = 0.0) -> ClientData:
    """A client's rows; the rows behind its records are of others and must not matter."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((CAPACITY, FEATURES)), rng.integers(0, 2, CAPACITY)
    x[size:] = rest
    return ClientData({"x": jnp.asarray(x), "y": jnp.asarray(y, jnp.int32)}, jnp.asarray(size))


def start() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {"w": jnp.asarray(rng.standard_normal(FEATURES)), "b": jnp.asarray(0.3)}


def gradients(params: dict[str, Any], data: ClientData) -> np.ndarray:
    """Logistic gradients by hand: one row (weights, bias) for each record."""
    x = np.asarray(data.records["x"])[: int(data.size)]
    y = np.asarray(data.records["y"])[: int(data.size)]
    gap = 1 / (1 + np.exp(-(x @ np.asarray(params["w"]) + float(params["b"])))) - y
    return gap[:, None] * np.concatenate([x, np.ones((len(x), 1))], axis=1)


def flat(params: dict[str, Any]) -> np.ndarray:
    return np.append(np.asarray(params["w"]), np.asarray(params["b"]))


def unflat(vector: np.ndarray) -> dict[str, Any]:
    return {"w": vector[:-1], "b": vector[-1]}


def records_of(batch: Batch, key: Any, step: int, data: ClientData) -> np.ndarray:
    order, count = batch.chosen(key, jnp.asarray(step), data.size, data.capacity)
    return np.asarray(order)[: int(count)]


@pytest.mark.parametrize("batch", [FullBatch(), FixedBatch(2), ShuffledBatches(4)], ids=repr)
def test_gradient_steps(batch: Batch) -> None:
    data, correction = make_data(), unflat(np.linspace(-1, 1, FEATURES + 1))
    found = jax.jit(
        lambda p: local.gradient_steps(
            TASK, batch, KEY, p, data, steps=5, step_size=0.3, correction=correction
        )
    )(start())
    w = flat(start())
    for step in range(5):
        chosen = records_of(batch, KEY, step, data)
        g = gradients(unflat(w), data)[chosen].mean(axis=0) + 0.1 * w
        w = w - 0.3 * (g + flat(correction))
    np.testing.assert_allclose(flat(found), w, atol=1e-12)


def clipped(rows: np.ndarray, radius: float, *, lengthen: bool = False) -> np.ndarray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * (radius / norms if lengthen else np.minimum(1, radius / norms))


@pytest.mark.parametrize(
    "batch", [FullBatch(), FixedBatch(2), PoissonBatch(3), ShuffledBatches(4)], ids=repr
)
def test_private_steps(batch: Batch) -> None:
    release = Release(
        bound=Clip(0.4), mechanism=Gaussian(0.7), at="step", unit="record", times=4, batch=batch
    )
    data = make_data()
    found, visited = jax.jit(
        lambda p: local.private_steps(TASK, release, Moment(ROUND, KEY), p, data, step_size=0.2)
    )(start()).value
    batch_key, noise_key = jax.random.split(KEY)
    w, seen = flat(start()), np.zeros(FEATURES + 1)
    for step in range(4):
        rows = gradients(unflat(w), data)[records_of(batch, batch_key, step, data)]
        total = clipped(rows, 0.4).sum(axis=0)
        zero = unflat(np.zeros(FEATURES + 1))
        noise = release.noised(jax.random.fold_in(noise_key, step), zero, 0)
        assert abs(flat(noise)).max() > 0
        g = (total + flat(noise)) / float(batch.expected(SIZE)) + 0.1 * w
        seen += w
        w = w - 0.2 * g
    np.testing.assert_allclose(flat(found), w, atol=1e-12)
    np.testing.assert_allclose(flat(visited), seen, atol=1e-12)


def test_step_noise_is_the_calibrated_one() -> None:
    """One step on one record: what is sent scatters by rate * noise * clip / batch."""
    release = Release(
        bound=Clip(0.4), mechanism=Gaussian(1.7), at="step", unit="record", batch=FixedBatch(2)
    )
    data = make_data()
    task = Logistic(features=FEATURES)

    def sent(key: Any) -> Any:
        moment = Moment(ROUND, key)
        steps = local.private_steps(task, release, moment, start(), data, step_size=0.5)
        return steps.value[0]["w"] - start()["w"]

    keys = jax.random.split(KEY, 4000)
    quiet = Release(
        bound=Clip(0.4), mechanism=NoNoise(), at="step", unit="record", batch=FixedBatch(2)
    )
    noisy = np.asarray(jax.jit(jax.vmap(sent))(keys))
    release = quiet
    clean = np.asarray(jax.jit(jax.vmap(lambda key: sent(key)))(keys))
    spread = (noisy - clean).std()
    assert spread == pytest.approx(0.5 * 1.7 * 0.4 / 2, rel=0.02)


@pytest.mark.parametrize("bound", [Clip(0.4), Normalize(0.4), Clip(100.0)], ids=repr)
def test_bounded_sum_is_the_sum_of_bounded_gradients(bound: Bound) -> None:
    release = Release(bound=bound, mechanism=NoNoise(), at="step", unit="record")
    data = make_data(size=CAPACITY)
    weights = jnp.asarray([1, 0, 1, 1, 1, 0, 1, 1, 1.0])
    args = release, start(), data.records, weights, bound.radius
    task = Logistic(features=FEATURES)
    known, formed = (
        jax.jit(lambda t=t: local.bounded_sum(t, *args))() for t in (task, blind(task))
    )
    rows = clipped(gradients(start(), data), bound.radius, lengthen=isinstance(bound, Normalize))
    by_hand = np.asarray(weights) @ rows
    np.testing.assert_allclose(flat(known), by_hand, atol=1e-12)
    np.testing.assert_allclose(flat(formed), by_hand, atol=1e-12)


def blind(task: Task) -> Task:
    assert Unknown(known=task).sq_norms({}, {}) is None
    return Unknown(known=task)


@pytest.mark.parametrize("form", [lambda task: task, blind], ids=["known", "formed"])
def test_squared_norms_are_infinite_where_they_are_not_finite(form: Any) -> None:
    data = make_data(size=CAPACITY)
    x = data.records["x"].at[1].set(np.nan).at[2].set(np.inf)
    work = jax.jit(partial(local.squared_gradient_norms, form(Logistic(features=FEATURES))))
    found = np.asarray(work(start(), {**data.records, "x": x}))
    expected = np.sum(gradients(start(), data) ** 2, axis=1)
    assert np.isinf(found[1:3]).all()
    np.testing.assert_allclose(np.delete(found, [1, 2]), np.delete(expected, [1, 2]), rtol=1e-12)


def test_an_empty_batch_is_noise_alone() -> None:
    release = Release(
        bound=Clip(1.0), mechanism=NoNoise(), at="step", unit="record", batch=PoissonBatch(1)
    )
    data = make_data()
    work = jax.jit(
        lambda step: local._noisy_gradient(
            Logistic(features=FEATURES), release, (KEY, KEY), step, start(), data, ROUND, None
        )
    )
    empty = [s for s in range(30) if len(records_of(release.batch, KEY, s, data)) == 0]
    assert empty
    assert not flat(work(jnp.asarray(empty[0]))).any()


# Rows behind a client's own are its neighbours' in the simulator: what they hold must not matter,
# even where it overflows.
@pytest.mark.parametrize("batch", [FullBatch(), FixedBatch(4), FixedBatch(8)], ids=repr)
def test_the_rows_of_others_do_not_matter(batch: Batch) -> None:
    task = LeastSquares(features=FEATURES)
    params = {"w": start()["w"]}

    def trained(rest: float) -> np.ndarray:
        data = make_data(rest=rest)
        reached = local.gradient_steps(task, batch, KEY, params, data, steps=2, step_size=0.1)
        return np.asarray(reached["w"])

    calm = trained(0.0)
    assert np.isfinite(calm).all()
    assert (trained(1e200) == calm).all()
    assert (trained(np.inf) == calm).all()
