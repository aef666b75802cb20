"""Metrics under names that say who may know them."""

import numpy as np
import pytest

import tacit
from tacit.algorithms import DPFedEXP, FedAvg
from tacit.data.datasets.generators import fedexp_regression
from tacit.errors import NoPrivacyWarning
from tacit.tasks.linear import LeastSquares


@pytest.fixture(autouse=True)
def _quick(quick_compilation: None) -> None:
    """Compile quickly in this file."""


def test_a_generated_problem_reports_its_distance_and_fedexp_its_target():
    problem = fedexp_regression(clients=40, dimension=6, seed=0)
    task = LeastSquares(features=6, bias=False, factor=1.0)
    algorithm = DPFedEXP(trust="local", clip=0.3, noise=0.7, local_steps=5, local_lr=0.01)
    result = tacit.train(
        algorithm,
        task,
        problem.federation,
        rounds=4,
        delta=1e-5,
        seed=0,
        dtype="float64",
        eval_every=1,
    )
    named = {(row.round, row.metric): row.value for row in result.rows}
    start = named[0, "oracle/distance"]
    assert start == pytest.approx(np.linalg.norm(problem.optimum))
    assert named[4, "oracle/distance"] < start
    # The probe by hand at round 0: bounded updates of all clients from zero.
    x, y = (problem.federation.records[name] for name in ("x", "y"))
    updates = []
    for features, target in zip(x, y, strict=True):
        w = np.zeros(6)
        for _ in range(5):
            w = w - 0.01 * 2 * features * (features @ w - target)
        updates.append(w * min(1, 0.3 / np.linalg.norm(w)))
    mean = np.mean(updates, axis=0)
    spread = np.mean(np.sum(np.square(updates), axis=1))
    assert named[0, "oracle/signal"] == pytest.approx(np.linalg.norm(mean), rel=1e-9)
    assert named[0, "oracle/target_step"] == pytest.approx(spread / (mean @ mean), rel=1e-9)
    noise = 0.7 * 0.3 * 6**0.5 / 40**0.5
    assert named[0, "oracle/noise"] == pytest.approx(noise)
    assert named[0, "oracle/signal_to_noise"] == pytest.approx(np.linalg.norm(mean) / noise)
    assert "server/step_size" in result.metrics


def test_held_out_private_records_are_an_oracle_s():
    federation = tacit.federate("digits", split="iid", clients=4, held_out=0.2)
    task = tacit.make_task("multinomial", shape=(64,), classes=10)
    with pytest.warns(NoPrivacyWarning, match="no privacy is guaranteed"):
        result = tacit.train(FedAvg(), task, federation, rounds=1)
    assert "oracle/held_out/accuracy" in result.metrics
    assert not any(name.startswith("test/") for name in result.metrics)
