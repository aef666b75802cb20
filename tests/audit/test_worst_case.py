"""Whole trainings under attack: consistent at their claim, far from 0, and faults are found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tacit.accounting import Budget
from tacit.algorithm import Algorithm
from tacit.algorithms import Auto, DPFedAvg, DPFedEXP, RecordDPFedAvg
from tacit.audit.verdict import Verdict
from tacit.audit.worst_case import WorstCase, audited, worst_case
from tacit.errors import ConfigError
from tacit.mechanisms import Gaussian
from tacit.planning import Plan, calibrate
from tacit.population import Population
from tacit.sampling import FixedCohort, TurnsCohort
from tacit.simulation import Simulator
from tacit.simulation.replicas import Replicas
from tacit.tasks.logistic import Logistic

TASK, DELTA = Logistic(features=3), 1e-3
pytestmark = pytest.mark.usefixtures("quick_compilation")
METHODS: dict[str, Callable[[], Algorithm]] = {
    "models": lambda: DPFedAvg(local_steps=2),
    "messages": lambda: DPFedEXP(trust="local", local_steps=2),
    "records": lambda: RecordDPFedAvg(batches="full", local_steps=2),
}


def case_of(algorithm: Algorithm, epsilon: float = 3.0, rounds: int = 3) -> WorstCase:
    plan = Plan(algorithm, TASK, Population((6,) * 40), rounds)
    return worst_case(calibrate(plan, Budget(epsilon, DELTA)))


def attacked(case: WorstCase, draws: int = 4096) -> Verdict:
    return audited("method", case, draws=draws, delta=DELTA)


@pytest.mark.parametrize("name", METHODS)
def test_an_attack_comes_close_to_the_claim_and_not_above_it(name: str) -> None:
    case = case_of(METHODS[name]())
    found = attacked(case)
    assert case.plan.population.clients == 2
    assert case.sees_messages == (name != "models")
    assert found.claimed == pytest.approx(3.0, abs=0.01)
    assert not found.violation
    assert found.gaussian
    assert found.share > 0.6


@pytest.mark.parametrize("name", METHODS)
def test_too_little_noise_is_a_violation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(METHODS[name]())
    real = Gaussian.noised
    monkeypatch.setattr(
        Gaussian,
        "noised",
        lambda self, key, value, radius, *rest, **more: real(
            self, key, value, 0.6 * radius, *rest, **more
        ),
    )
    found = attacked(case)
    assert found.violation
    assert "VIOLATION" in found.sentence()


def test_the_federation_is_as_small_as_the_method_allows() -> None:
    assert case_of(DPFedAvg(clients_per_round=FixedCohort(12))).plan.population.clients == 16
    assert case_of(Auto(clients_per_round=TurnsCohort(3))).plan.population.clients == 3
    assert case_of(Auto(noise_at="shares", honest=20)).plan.population.clients == 32
    record = case_of(RecordDPFedAvg(batches="full"))
    assert record.plan.population.sizes == (6, 6)  # what its smallest client holds


def test_neighbours_differ_in_one_unit() -> None:
    for algorithm, rows in ((DPFedAvg(), 4), (RecordDPFedAvg(batches="full"), 1)):
        case = case_of(algorithm)
        changed = np.zeros(len(case.first.records["y"]), bool)
        for name, column in case.first.records.items():
            unlike = column != case.second.records[name]
            changed |= np.reshape(unlike, (len(unlike), -1)).any(axis=1)
        assert changed.nonzero()[0].tolist() == list(range(rows))


def test_replicas_are_runs() -> None:
    """A replica is the run of the engine with that seed, to the last digits."""
    case = case_of(DPFedAvg(local_steps=2))
    engine = Simulator(
        case.plan.algorithm, case.plan.task, case.second, seed=5, dtype="float64", max_devices=1
    )
    alone = engine.advance(engine.init(), 0, 3).server.params["w"]
    many = Replicas(engine, 3, lambda state: state.server.params["w"])(np.array([4, 5, 6]))
    np.testing.assert_allclose(many[1], alone, rtol=1e-12)
    assert not np.allclose(many[0], many[1])


def test_few_runs_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 100"):
        attacked(case_of(DPFedAvg()), draws=50)
