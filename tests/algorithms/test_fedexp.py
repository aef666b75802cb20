"""DP-FedEXP: the step size, what it costs, and guarantees that cover all rounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.fedexp_variants import FedEXPVariants
from tacit import tree
from tacit.accounting import Budget, epsilon_of, gaussian_event, joint_mu_squared
from tacit.algorithms import DPFedEXP
from tacit.algorithms.fedexp import step_size
from tacit.boundary import leave_client
from tacit.data.datasets.generators import Problem, fedexp_regression
from tacit.errors import TacitError
from tacit.planning import Plan, calibrate
from tacit.planning.notes import notes
from tacit.population import Population
from tacit.sampling import FixedCohort, PoissonCohort
from tacit.simulation import Simulator
from tacit.tasks.linear import LeastSquares

THOUSAND = Population((1,) * 1000)


def plan_of(method: DPFedEXP, dimension: int = 500, rounds: int = 50) -> Plan:
    return Plan(method, LeastSquares(features=dimension, factor=1.0), THOUSAND, rounds)


def epsilon(method: DPFedEXP, dimension: int = 500, rounds: int = 50, delta: float = 1e-5) -> float:
    return plan_of(method, dimension, rounds).guarantee(delta).epsilon


# --- the price --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rounds", "alone", "separate_500", "separate_5046"),
    [(49, 15.257053763, 15.64620, 15.260896517), (50, 15.456155823, 15.850908807, 15.460053852)],
)
def test_table_1_central(
    rounds: int, alone: float, separate_500: float, separate_5046: float
) -> None:
    """The printed values are those of 49 rounds; jointly the step size is free."""
    method = FedEXPVariants(noise=5.0)
    separate = replace(method, accounting="separate")
    assert epsilon(replace(method, step="one"), rounds=rounds) == pytest.approx(alone, rel=1e-8)
    assert epsilon(method, rounds=rounds) == pytest.approx(alone, rel=1e-8)
    assert epsilon(separate, rounds=rounds) == pytest.approx(separate_500, rel=1e-6)
    assert epsilon(separate, 5046, rounds) == pytest.approx(separate_5046, rel=1e-6)


def test_joint_accounting_beyond_the_free_region() -> None:
    """With B > 2.77 A the maximum over pairs of norms is charged, and still less than both."""
    method = FedEXPVariants(noise=5.0, scalar_noise=2.0)  # A = 1/25, B = 1/4
    squared = joint_mu_squared(1 / 25, 1 / 4)
    b = np.linspace(0, 1, 200_001)
    assert squared == pytest.approx(float(((1 + b) ** 2 * (1 / 25 + (1 - b) ** 2 / 4)).max()))
    assert squared > 4 / 25
    event = gaussian_event(
        radius=1.0, noise=squared**-0.5, relation="zero-out", count=50
    )  # mu of one round is the root of squared
    expected = epsilon_of(event, delta=1e-5, relation="zero-out")
    assert epsilon(method) == pytest.approx(expected, rel=1e-9)
    assert epsilon(replace(method, step="one")) < epsilon(method)
    assert epsilon(method) < epsilon(replace(method, accounting="separate"))


def test_the_free_region_ends_where_the_specification_says() -> None:
    assert joint_mu_squared(1.0, 2.77) == pytest.approx(4.0, rel=1e-9)
    assert joint_mu_squared(1.0, 2.80) > 4.0


def test_a_scalar_without_enough_noise_is_never_free() -> None:
    noises = [0.5, 1.0, 5.0, 50.0]
    spent = [epsilon(DPFedEXP(noise=5.0, scalar_noise=noise)) for noise in noises]
    assert spent == sorted(spent, reverse=True)
    assert spent[-1] == pytest.approx(15.456155823, rel=1e-8)


def test_local_guarantees_cover_all_rounds() -> None:
    """The paper's 15.66 and 6 are those of one round."""
    gaussian = DPFedEXP(trust="local", noise=0.7)
    assert epsilon(gaussian, 100, 1) == pytest.approx(15.658124, rel=1e-7)
    assert epsilon(gaussian, 100) == pytest.approx(289.33863705, rel=1e-8)
    unit = DPFedEXP(trust="local-privunit")
    assert epsilon(unit, 100, 1, delta=0.0) == pytest.approx(6.0)
    assert epsilon(unit, 100, delta=0.0) == pytest.approx(300.0)
    assert 299.9 < epsilon(unit, 100, delta=1e-5) <= 300.0
    sentence = plan_of(gaussian, 100).guarantee(1e-5).sentence()
    assert "Over the whole run" in sentence
    assert "against the server" in sentence


def test_the_price_of_one_round_is_named_as_such() -> None:
    (gaussian,) = notes(DPFedEXP(trust="local", noise=0.7), THOUSAND, 1e-5)
    assert "One round alone has epsilon = 15.659" in gaussian
    (unit,) = notes(DPFedEXP(trust="local-privunit"), THOUSAND, 1e-5)
    assert "PrivUnit with 2 + 2 and ScalarDP with 2" in unit
    assert "epsilon = 6," in unit
    assert notes(DPFedEXP(noise=5.0), THOUSAND, 1e-5) == []


@pytest.mark.parametrize(("total", "sigma"), [(15.658, 4.9497), (8.0, 8.48852), (2.0, 28.19677)])
def test_local_noise_for_a_total_budget(total: float, sigma: float) -> None:
    settled = calibrate(plan_of(DPFedEXP(trust="local"), 100), Budget(total, 1e-5))
    assert settled.algorithm.noise == pytest.approx(sigma, rel=1e-4)


def test_privunit_is_calibrated_by_dividing_its_budgets() -> None:
    settled = calibrate(plan_of(DPFedEXP(trust="local-privunit"), 100), Budget(30.0, 1e-9))
    method = settled.algorithm
    assert isinstance(method, DPFedEXP)
    assert settled.guarantee(1e-9).epsilon <= 30.0
    assert method.release.mechanism.epsilon == pytest.approx(0.6, rel=0.2)


def test_cohorts_amplify_the_central_noise_alone() -> None:
    few = PoissonCohort(0.1)
    central = DPFedEXP(noise=5.0, relation="zero-out", scalar_noise=1e3)
    assert epsilon(replace(central, clients_per_round=few)) < 0.3 * epsilon(central)
    own = DPFedEXP(trust="local", noise=5.0)
    assert epsilon(replace(own, clients_per_round=few), 100) == epsilon(own, 100)


# --- the step ---------------------------------------------------------------------------------


def test_step_is_never_below_one_nor_above_the_cap() -> None:
    assert float(step_size(jnp.asarray(-3.0), jnp.asarray(2.0))) == 1.0
    assert float(step_size(jnp.asarray(6.0), jnp.asarray(2.0))) == 3.0
    assert float(step_size(jnp.asarray(6.0), jnp.asarray(2.0), 2.5)) == 2.5
    assert float(step_size(jnp.asarray(6.0), jnp.asarray(0.0))) == 1.0


def test_the_boundary_computes_the_squared_norm_itself() -> None:
    """A client that sends a number of its own is ignored: the bounded update decides."""
    method = DPFedEXP(noise=5.0, clip=2.0)
    (phase,) = method.phases(LeastSquares(features=2), THOUSAND)
    honest = {"update": {"w": jnp.asarray([30.0, 40.0])}}
    lying = {**honest, "sq_norm": jnp.asarray(1e9)}
    for message in (honest, lying):
        released, _ = leave_client(phase, jax.random.key(0), message, 0)
        assert float(released["sq_norm"]) == pytest.approx(4.0, rel=1e-4)
        assert float(tree.squared_norm(released["update"])) == pytest.approx(4.0, rel=1e-4)


def test_local_statistics_use_released_values_alone() -> None:
    """The statistic of a client is a function of what it sends, so it costs nothing."""
    method = FedEXPVariants(trust="local", noise=0.5, clip=2.0)
    (phase,) = method.phases(LeastSquares(features=2), THOUSAND)
    message = {"update": {"w": jnp.asarray([1.0, -0.5])}}
    released, stats = leave_client(phase, jax.random.key(0), message, 0)
    sent = float(tree.squared_norm(released["update"]))
    assert float(stats["sq_norm"]) == pytest.approx(sent - 2 * (0.5 * 2.0) ** 2, rel=1e-5)
    (naive,) = replace(method, step="naive").phases(LeastSquares(features=2), THOUSAND)
    _, stats = leave_client(naive, jax.random.key(0), message, 0)
    assert float(stats["sq_norm"]) == pytest.approx(sent, rel=1e-5)


# --- runs -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem() -> Problem:
    return fedexp_regression(clients=60, dimension=8, seed=1)


def run(method: DPFedEXP, problem: Problem, rounds: int) -> tuple[Any, np.ndarray]:
    task = LeastSquares(features=8, factor=1.0)
    simulator = Simulator(method, task, problem.federation, dtype="float64", block=60)
    state = simulator.advance(simulator.init(), 0, rounds)
    return state.server, np.asarray(simulator.params(state)["w"])


def test_without_noise_it_is_fedexp(problem: Problem) -> None:
    x, y = problem.federation.records["x"], problem.federation.records["y"]
    w, before, eta = np.zeros(8), np.zeros(8), 1.0
    for _ in range(3):
        updates = []
        for xi, yi in zip(x, y, strict=True):
            local = w.copy()
            for _ in range(5):
                local -= 0.01 * 2 * xi * (xi @ local - yi)
            updates.append(local - w)
        mean = np.mean(updates, axis=0)
        eta = max(1.0, np.mean(np.sum(np.square(updates), axis=1)) / (mean @ mean))
        before, w = w, w + eta * mean
    state, returned = run(DPFedEXP(clip=1e6, local_steps=5, local_lr=0.01), problem, 3)
    np.testing.assert_allclose(state.params["w"], w, rtol=1e-9)
    np.testing.assert_allclose(returned, (w + before) / 2, rtol=1e-9)
    assert float(state.step_size) == pytest.approx(eta)


def test_step_one_returns_the_last_model(problem: Problem) -> None:
    state, returned = run(FedEXPVariants(step="one", noise=1.0, local_lr=0.01), problem, 2)
    np.testing.assert_array_equal(returned, state.params["w"])
    assert float(state.step_size) == 1.0


def test_the_correction_makes_the_step_follow_its_target(problem: Problem) -> None:
    """Without it the step grows with d sigma^2 over the noise in the mean: up to M."""
    method = FedEXPVariants(trust="local", noise=3.0, local_lr=0.01, clip=0.3)
    corrected, _ = run(method, problem, 1)
    naive, _ = run(replace(method, step="naive"), problem, 1)
    assert float(naive.step_size) > 3 * float(corrected.step_size)


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"step": "naive"}, "only local noise needs"),
        ({"max_step": 0.5}, "max_step is 0.5; give at least 1"),
        ({"local_lr": 0.0}, "local_lr is 0.0; give a positive number"),
    ],
)
def test_unsound_combinations_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(TacitError, match=words):
        FedEXPVariants(**wrong)


def test_fixed_cohorts_cost_what_everyone_costs() -> None:
    """The other clients know when they are asked: nothing is amplified, under any relation."""
    for relation in ("zero-out", "replace-one"):
        everyone = DPFedEXP(noise=5.0, relation=relation, scalar_noise=9.0)
        assert epsilon(replace(everyone, clients_per_round=FixedCohort(10))) == epsilon(everyone)


def test_without_noise_there_is_no_guarantee() -> None:
    assert math.isinf(epsilon(DPFedEXP()))
