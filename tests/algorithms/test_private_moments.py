"""Private means and scales: bounded, noised, charged, and blind when the mechanism is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import Budget
from tacit.algorithm import Algorithm
from tacit.algorithms import Auto, DPFedAvg, RecordDPFedAvg
from tacit.data.federation import Federation
from tacit.errors import TacitError
from tacit.mechanisms import NoNoise
from tacit.planning import Plan, calibrate
from tacit.planning.notes import warnings
from tacit.population import Population
from tacit.preludes.column_moments import PrivateMoments
from tacit.release import Release
from tacit.released_scaling import Waiting, rescaled
from tacit.simulation import Simulator
from tacit.tasks.logistic import Logistic

COLUMNS = (Waiting("age", 0, 0.0, 120.0), Waiting("dose", 2, -5.0, 5.0))
TASK = Logistic(features=3)
TRAININGS: dict[str, Algorithm] = {
    "central": DPFedAvg(),
    "local": DPFedAvg(noise_at="message"),
    "record": RecordDPFedAvg(),
    "record-central": Auto(protects="record", noise_at="aggregate"),
}


def federation(seed: int = 0, sizes: tuple[int, ...] = (60, 40, 50)) -> Federation:
    rng = np.random.default_rng(seed)
    count = sum(sizes)
    x = np.stack(
        [rng.normal(-0.2, 0.15, count), rng.normal(0, 9, count), rng.normal(0.4, 0.1, count)], 1
    )
    x[:, [0, 2]] = np.clip(x[:, [0, 2]], -1, 1)
    records = {"x": x.astype(np.float32), "y": rng.integers(0, 2, count)}
    names = tuple(f"c{i}" for i in range(len(sizes)))
    return Federation(records=records, sizes=np.array(sizes), names=names, classes=2)


def moments(training: str, data: Federation, noise: float = 0.0) -> PrivateMoments:
    population = Population(tuple(int(n) for n in data.sizes))
    found = PrivateMoments.before(TRAININGS[training], TASK, population, COLUMNS)
    return found.with_noise(noise)


def released(algorithm: PrivateMoments, data: Federation, seed: int = 0) -> Any:
    simulator = Simulator(algorithm, TASK, data, seed=seed, max_devices=1)
    return simulator.advance(simulator.init(), -1, 1).server.params


@cache
def exact(training: str) -> Any:
    """What is released without noise."""
    data = federation()
    return released(moments(training, data), data)


@pytest.mark.parametrize(
    ("training", "at", "unit", "relation"),
    [
        ("central", "aggregate", "client", "zero-out"),
        ("local", "message", "client", "replace-one"),
        ("record", "step", "record", "replace-one"),
        ("record-central", "aggregate", "record", "zero-out"),
    ],
)
def test_it_protects_whom_the_training_protects(
    training: str, at: str, unit: str, relation: str
) -> None:
    found = moments(training, federation())
    assert (found.at, found.unit, found.relation) == (at, unit, relation)


@pytest.mark.parametrize("training", TRAININGS)
def test_without_noise_the_moments_are_those_of_the_clients(training: str) -> None:
    data, found = federation(), exact(training)
    places = [0, 2]
    rows = [np.asarray(data.client(i)["x"], np.float64)[:, places] for i in range(3)]
    if training == "record-central":  # all records count alike, not all clients
        rows = [np.concatenate(rows)]
    mean = np.mean([part.mean(axis=0) for part in rows], axis=0)
    second = np.mean([(part**2).mean(axis=0) for part in rows], axis=0)
    np.testing.assert_allclose(found["mean"], mean, atol=1e-5)
    np.testing.assert_allclose(found["scale"], np.sqrt(second - mean**2), atol=1e-4)


@pytest.mark.parametrize("training", TRAININGS)
def test_the_scaling_is_in_the_units_of_the_column(training: str) -> None:
    data = federation()
    algorithm = moments(training, data)
    state = algorithm.init({"w": jnp.zeros(3)})
    assert algorithm.scaling(state) == {"age": (60.0, 60.0), "dose": (0.0, 5.0)}


@dataclass(frozen=True)
class Blind(NoNoise):
    """Destroys what it is given."""

    def noised(self, key: Any, value: Any, radius: Any, round_: Any) -> Any:
        """Noise alone."""
        return jax.tree.map(lambda v: jax.random.normal(key, v.shape, v.dtype), value)


@dataclass(frozen=True, kw_only=True)
class BlindMoments(PrivateMoments):
    @property
    def release(self) -> Release:
        return replace(super().release, mechanism=Blind())


@pytest.mark.parametrize("training", TRAININGS)
def test_nothing_passes_beside_the_release(training: str) -> None:
    results = []
    for seed in (0, 1):
        data = federation(seed)
        known = moments(training, data)
        blind = BlindMoments(
            columns=known.columns, unit=known.unit, at=known.at, relation=known.relation
        )
        results.append(released(blind, data))
    for name in ("mean", "scale"):
        np.testing.assert_array_equal(results[0][name], results[1][name])


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=6))
def test_a_contribution_never_exceeds_the_radius(values: list[float]) -> None:
    v = np.array(values)
    norm = np.linalg.norm(np.concatenate([v, 1 - v * v]))
    columns = tuple(Waiting(str(i), i, -1.0, 1.0) for i in range(len(values)))
    radius = PrivateMoments(columns=columns).release.bound.radius
    assert norm <= radius * (1 + 1e-12)
    assert radius == math.sqrt(len(values))


@pytest.mark.parametrize("training", ["central", "record", "record-central"])
def test_one_unit_moves_the_sum_by_no_more_than_it_may(training: str) -> None:
    data = federation()
    x = np.array(data.records["x"])
    x[: 60 if training == "central" else 1] = [1e30, 0, -1e30]
    wild = replace(data, records={**data.records, "x": x})
    algorithm = moments(training, data)
    before, after = exact(training), released(algorithm, wild)
    gap = np.concatenate(
        [
            after["mean"] - before["mean"],
            (after["scale"] ** 2 + after["mean"] ** 2)
            - (before["scale"] ** 2 + before["mean"] ** 2),
        ]
    )
    share = {"central": 3, "record": 3 * 60, "record-central": 150}[training]
    assert 0 < np.linalg.norm(gap) <= 2 * algorithm.release.bound.radius / share * (1 + 1e-5)


@pytest.mark.parametrize("training", TRAININGS)
def test_the_noise_has_the_spread_that_is_stated(training: str) -> None:
    data = federation()
    algorithm = moments(training, data, noise=0.02)
    simulator = Simulator(algorithm, TASK, data, max_devices=1)
    means = []
    for seed in range(150):
        simulator.reseed(seed)
        means.append(simulator.advance(simulator.init(), -1, 1).server.params["mean"])
    errors = np.asarray(means) - np.asarray(exact(training)["mean"])
    stated = algorithm.spread(simulator.population)
    assert np.std(errors) == pytest.approx(stated, rel=0.15)
    assert abs(np.mean(errors)) < 4 * stated / math.sqrt(errors.size)


def test_a_scale_below_the_noise_is_not_believed() -> None:
    data = federation()
    x = np.array(data.records["x"])
    x[:, [0, 2]] = 0.25  # no spread at all
    constant = replace(data, records={**data.records, "x": x})
    algorithm = moments("central", constant, noise=0.1)
    spread = algorithm.spread(Population((60, 40, 50)))
    found = released(algorithm, constant)
    assert (np.asarray(found["scale"]) >= math.sqrt(spread) - 1e-6).all()
    assert not warnings(algorithm, Population((60, 40, 50)))
    assert "scaling_share" in warnings(algorithm.with_noise(9.0), Population((60, 40, 50)))[0]


@pytest.mark.parametrize("training", TRAININGS)
@pytest.mark.parametrize("share", [0.05, 0.4])
def test_the_budget_holds_with_the_prelude(training: str, share: float) -> None:
    population = Population((60, 40, 50))
    algorithm = TRAININGS[training]
    if isinstance(algorithm, RecordDPFedAvg):
        algorithm = replace(algorithm, batches="full")
    prelude = Plan(PrivateMoments.before(algorithm, TASK, population, COLUMNS), TASK, population, 1)
    plan = Plan(algorithm, TASK, population, 10, prelude=prelude, prelude_share=share)
    budget = Budget(4.0, 1e-5)
    settled = calibrate(plan, budget)
    alone = calibrate(Plan(algorithm, TASK, population, 10), budget)
    assert 0.999 * 4 <= settled.guarantee(1e-5).epsilon <= 4
    # Gaussians add up their mu squared, so the shares can be read off the noises.
    ratio = (alone.algorithm.noise / settled.algorithm.noise) ** 2  # type: ignore[attr-defined]
    assert ratio == pytest.approx(1 - share, rel=1e-3)
    assert settled.prelude is not None
    assert settled.guarantee(1e-5).epsilon > settled.prelude.guarantee(1e-5).epsilon


def test_a_prelude_of_another_promise_is_refused() -> None:
    population = Population((60, 40, 50))
    prelude = Plan(PrivateMoments(columns=COLUMNS), TASK, population, 1)
    with pytest.raises(TacitError, match="same unit"):
        Plan(RecordDPFedAvg(), TASK, population, 10, prelude=prelude)
    with pytest.raises(TacitError, match="nothing to release"):
        PrivateMoments(columns=())


def test_rescaling_leaves_other_columns_alone() -> None:
    data = federation().with_test(federation(1).records)
    given = {"age": (50.0, 10.0), "dose": (2.0, 0.5)}
    done = data.mapped(lambda records: rescaled(records, COLUMNS, given))
    x, was = done.records["x"], data.records["x"]
    np.testing.assert_array_equal(x[:, 1], was[:, 1])
    np.testing.assert_allclose(x[:, 0], (60 + 60 * was[:, 0] - 50) / 10, atol=1e-5)
    assert done.test is not None and data.test is not None
    np.testing.assert_allclose(
        done.test["x"][:, 2], (5 * data.test["x"][:, 2] - 2) / 0.5, atol=1e-5
    )
