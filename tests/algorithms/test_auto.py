"""Auto: its rule, its prelude, its guarantee, and that it learns without being told anything."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.accounting import Budget, Ledger, gdp_mu
from tacit.accounting.events import Everyone
from tacit.algorithm import ClientData, Moment, Problem
from tacit.algorithms import Auto, AutoLocal
from tacit.algorithms.auto_base import with_prior
from tacit.boundary import leave_client
from tacit.bounds import Clip, Normalize
from tacit.data.federation import Federation
from tacit.errors import TacitError
from tacit.mechanisms import PrivUnitG
from tacit.planning import Plan, calibrate
from tacit.planning.rounds import rounds_for
from tacit.population import Population
from tacit.preludes.mean_record import PrivateMean
from tacit.record_maps import centred_rows, unit_rows
from tacit.run import train
from tacit.run.loop import Settings
from tacit.run.run import Run
from tacit.sampling import PoissonCohort
from tacit.schedules.auto import MOST, enough_rounds, step_size
from tacit.simulation import Simulator
from tacit.tasks.linear import LeastSquares
from tacit.tasks.logistic import Logistic, Multinomial

CLIENTS, EACH, FEATURES = 200, 6, 5
TASK = Multinomial(features=FEATURES, classes=3)
POPULATION = Population((EACH,) * CLIENTS)
BUDGET = Budget(2.0, 1e-5)


def clustered(seed: int = 0, shift: float = 2.0) -> Federation:
    """Three classes around centres that share a large mean: what centring is for."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((3, FEATURES)) + shift

    def draw(count: int) -> dict[str, Any]:
        y = rng.integers(0, 3, count)
        x = centres[y] + 0.4 * rng.standard_normal((count, FEATURES))
        return {"x": x.astype(np.float32), "y": y}

    return Federation(
        records=draw(CLIENTS * EACH),
        sizes=np.full(CLIENTS, EACH),
        names=tuple(f"c{i}" for i in range(CLIENTS)),
        test=draw(600),
        classes=3,
    )


def planned(algorithm: Auto | AutoLocal, rounds: int, budget: Budget = BUDGET) -> Any:
    return calibrate(Plan(algorithm, TASK, POPULATION, rounds), budget).algorithm


@pytest.mark.parametrize("rounds", [10, 90])
def test_the_step_is_that_of_the_rule(rounds: int) -> None:
    """lr = kappa / (T s1) with the s1 that each case has on paper, and kappa 2 for few clients."""
    mu = gdp_mu(BUDGET.epsilon, BUDGET.delta)
    spreads = {
        1 / (CLIENTS * mu): Auto(centre="public"),
        2 / (mu * math.sqrt(CLIENTS)): AutoLocal(mechanism="gaussian"),
        math.sqrt(CLIENTS) / (CLIENTS * EACH * mu): Auto(protects="record", centre="public"),
        1 / (CLIENTS * EACH * mu): Auto(protects="record", noise_at="aggregate", centre="public"),
    }
    for s1, algorithm in spreads.items():
        found = planned(algorithm, rounds)
        kappa = 2.0 if getattr(found, "few", False) else 1.0
        assert found.lr == pytest.approx(min(40 * kappa, kappa / (rounds * s1)), rel=1e-6)


def test_where_the_noise_decides_clients_take_local_steps() -> None:
    """By public numbers alone: clients, records, budget."""

    def rule(clients: int, each: int, **options: Any) -> tuple[bool, int, float]:
        population = Population((each,) * clients)
        found = calibrate(Plan(Auto(**options), TASK, population, 60), BUDGET).algorithm
        assert isinstance(found, Auto)
        return found.few, found.steps(population), found.usual_kappa

    assert rule(50, 20) == (True, 20, 2.0)
    assert rule(50, 4) == (True, 1, 2.0)
    assert rule(5000, 20) == (False, 1, 1.0)
    assert rule(50, 20, local_steps=3)[1] == 3
    assert rule(50, 20, protects="record")[:2] == (False, 1)
    assert rule(50, 20, records="as-is")[:2] == (False, 1)
    with pytest.raises(TacitError, match="for clients"):
        Auto(protects="record", local_steps=2)
    with pytest.raises(TacitError, match="local_steps is 0; give at least 1"):
        Auto(local_steps=0)


def linear(clients: int = 300, each: int = 5, noise: float = 0.1) -> Federation:
    """Targets of size up to 1, linear in records that are not centred."""
    rng = np.random.default_rng(4)
    slope = rng.standard_normal(FEATURES)

    def draw(count: int) -> dict[str, Any]:
        x = rng.standard_normal((count, FEATURES))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        y = np.clip(0.6 * x @ slope / np.linalg.norm(slope) + 0.2, -1, 1)
        y += noise * rng.standard_normal(count)
        return {"x": x.astype(np.float32), "y": y.astype(np.float32)}

    return Federation(
        records=draw(clients * each),
        sizes=np.full(clients, each),
        names=tuple(f"c{i}" for i in range(clients)),
        test=draw(500),
        classes=0,
    )


@pytest.mark.parametrize(
    ("algorithm", "budget", "least"),
    [
        (Auto(), Budget(2.0, 1e-5), 0.75),
        (Auto(protects="record", noise_at="aggregate"), Budget(2.0, 1e-5), 0.75),
        (AutoLocal(), Budget(16.0, 1e-5), 0.6),
    ],
    ids=["client", "record", "local"],
)
def test_least_squares_is_learnt_and_needs_no_setting(
    algorithm: Auto | AutoLocal, budget: Budget, least: float
) -> None:
    data = linear()
    task = LeastSquares(features=FEATURES, bias=True)
    population = Population(tuple(int(n) for n in data.sizes))
    rounds = rounds_for(algorithm, task, population, budget)
    plan = calibrate(Plan.of(algorithm, task, population, rounds), budget)
    found = plan.algorithm
    assert isinstance(found, (Auto, AutoLocal))
    assert (found.usual_kappa, found.prior) == (0.3, False)
    result = Run(plan, data, Settings(seed=1, delta=budget.delta, budget=budget)).train()
    assert result.metrics["test/r2"] > least
    assert result.guarantee.epsilon <= budget.epsilon


def test_a_prior_is_for_labels_and_where_it_is_not_said_the_task_decides() -> None:
    def prior(algorithm: Auto | AutoLocal, task: Any) -> Any:
        found = Plan(algorithm, task, POPULATION, 10).algorithm
        assert isinstance(found, (Auto, AutoLocal))
        return found.prior

    assert prior(AutoLocal(), TASK) is True
    assert prior(AutoLocal(), Multinomial(features=FEATURES, classes=3, bias=False)) is False
    assert prior(AutoLocal(), LeastSquares(features=FEATURES, bias=True)) is False
    assert prior(AutoLocal(prior=False), TASK) is False
    assert prior(Auto(), TASK) is False


def test_small_gradients_are_sent_shorter_and_local_ways_at_norm_one() -> None:
    assert Auto(noise=1.0).release.bound == Clip(1.0)
    assert Auto(noise=1.0, floor=0.0).release.bound == Normalize(1.0)
    assert planned(Auto(local_steps=4), 10).release.bound == Normalize(1.0)
    assert planned(Auto(local_steps=1), 10).release.bound == Clip(1.0)
    half, whole = ({"w": jnp.array([size, 0.0])} for size in (0.01, 0.3))
    for gradient, length in ((half, 0.5), (whole, 1.0)):
        sent = Auto().release.bound(Auto()._in_floors(gradient))
        assert float(jnp.linalg.norm(sent["w"])) == pytest.approx(length, rel=1e-5)
    with pytest.raises(TacitError, match="floor is 2"):
        Auto(floor=2.0)


def test_a_centre_that_would_be_noise_is_left_out_for_nearly_nothing() -> None:
    few = Population((6,) * 8)
    plan = calibrate(Plan.of(Auto(), TASK, few, 10), BUDGET)
    mu = gdp_mu(BUDGET.epsilon, BUDGET.delta)
    assert math.sqrt(10) / plan.algorithm.noise == pytest.approx(mu, rel=1e-4)
    whole = clustered()
    part = replace(
        whole,
        records={k: v[:48] for k, v in whole.records.items()},
        sizes=np.full(8, 6),
        names=whole.names[:8],
    )
    result = train(Auto(), TASK, part, rounds=3, budget=BUDGET, seed=0)
    assert not np.any(result.released["centre"])
    assert np.any(train(Auto(), TASK, whole, rounds=3, budget=BUDGET, seed=0).released["centre"])


def test_the_step_of_privunitg_follows_from_its_deviation() -> None:
    found = planned(AutoLocal(), 50)
    mechanism = found.release.mechanism
    assert isinstance(mechanism, PrivUnitG)
    assert 0.99 * BUDGET.epsilon < mechanism.epsilon < 1.01 * BUDGET.epsilon + 1e-3
    assert found.lr == pytest.approx(math.sqrt(CLIENTS) / (50 * mechanism.deviation))


def test_rounds_follow_from_the_noise_and_have_limits() -> None:
    assert enough_rounds(spread=1.0, rounds=1) == 60
    assert enough_rounds(spread=4e-4, rounds=1) == 250
    assert enough_rounds(spread=0.0, rounds=7) == MOST
    assert enough_rounds(spread=1.0, rounds=1, most=12) == 12
    # s1 does not depend on the rounds of the plan that it is read from
    assert enough_rounds(spread=8e-4 * math.sqrt(30), rounds=30) == enough_rounds(8e-4, 1) == 125
    assert rounds_for(Auto(), TASK, POPULATION, BUDGET) == 60
    assert rounds_for(AutoLocal(), TASK, Population((4,) * 25), BUDGET) == 25
    assert rounds_for(AutoLocal(times=2), TASK, Population((4,) * 25), BUDGET) == 50


def test_the_step_is_capped_where_there_is_no_noise() -> None:
    assert step_size(0.0, 10) == 40
    assert step_size(1e-9, 10, kappa=0.5) == 20


def test_a_method_that_does_not_choose_its_rounds_says_so() -> None:
    from tacit.algorithms import DPFedAvg

    with pytest.raises(TacitError, match=r"train\.rounds"):
        rounds_for(DPFedAvg(), TASK, POPULATION, BUDGET)


def test_the_step_before_planning_is_refused() -> None:
    with pytest.raises(TacitError, match="plan the run first"):
        _ = Auto(noise=1.0).lr


@pytest.mark.parametrize("algorithm", [Auto(), Auto(prior=True), AutoLocal(centre="private")])
def test_a_budget_in_a_model_out(algorithm: Auto | AutoLocal) -> None:
    """Nothing but data, task and budget; the guarantee covers the release of the mean."""
    local = isinstance(algorithm, AutoLocal)
    budget = Budget(12.0, 1e-5) if local else BUDGET
    result = train(algorithm, TASK, clustered(), budget=budget, seed=0)
    assert result.guarantee.epsilon <= budget.epsilon
    assert result.metrics["test/accuracy"] > (0.7 if local else 0.9)
    assert result.rounds == 60
    assert len(result.released["centre"]) == FEATURES


def test_the_mean_has_a_quarter_of_mu_and_training_the_rest() -> None:
    plan = calibrate(Plan.of(Auto(), TASK, POPULATION, 40), BUDGET)
    mu = gdp_mu(BUDGET.epsilon, BUDGET.delta)
    assert plan.prelude is not None
    assert 1 / plan.prelude.algorithm.noise == pytest.approx(0.25 * mu, rel=1e-6)
    trained = math.sqrt(40) / plan.algorithm.noise
    assert trained == pytest.approx(math.sqrt(1 - 0.0625) * mu, rel=1e-6)
    assert plan.guarantee(BUDGET.delta).epsilon <= BUDGET.epsilon


def test_few_clients_give_the_mean_up_to_half_of_mu() -> None:
    mean, mu = PrivateMean(features=25), 0.5
    assert mean.share(mu, Population((1,) * 10_000)) == 0.0625
    assert mean.share(mu, Population((1,) * 60)) == pytest.approx((2 * 5 / (60 * mu)) ** 2)
    assert mean.share(mu, Population((1,) * 40)) == pytest.approx(0.25)
    assert mean.share(mu, Population((1,) * 39)) == pytest.approx(1e-4), "not even half is enough"


def test_the_ledger_of_a_run_with_a_prelude_is_its_plan(tmp_path: Path) -> None:
    plan = calibrate(Plan.of(Auto(), TASK, POPULATION, 5), BUDGET)
    settings = Settings(seed=1, delta=BUDGET.delta, budget=BUDGET)
    first = Run(plan, clustered(), settings).train(tmp_path)
    ledger = Ledger.read(tmp_path / "ledger.jsonl")
    assert ledger.guarantee(BUDGET.delta).epsilon == first.guarantee.epsilon
    assert [c.label["round"] for c in ledger.charges] == [-1, 0, 1, 2, 3, 4]
    assert json.loads((tmp_path / "centre.json").read_text()) == first.released
    again = Run(plan, clustered(), settings).train(tmp_path)
    assert again.released == first.released
    assert again.metrics == first.metrics


def mean_of(data: Federation, **given: Any) -> Any:
    algorithm = PrivateMean(features=FEATURES, **given)
    simulator = Simulator(algorithm, TASK, data, max_devices=1)
    return algorithm.released(simulator.advance(simulator.init(), -1, 1).server)["centre"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"at": "message"},
        {"at": "step", "unit": "record"},
        {"at": "aggregate", "unit": "record"},
    ],
)
def test_without_noise_the_centre_is_the_mean_of_unit_records(given: Any) -> None:
    data = clustered()
    expected = unit_rows(data.records["x"]).mean(axis=0)
    np.testing.assert_allclose(mean_of(data, **given), expected, atol=1e-5)


def test_one_client_moves_the_centre_by_no_more_than_its_share() -> None:
    data = clustered()
    x = np.array(data.records["x"])
    x[:EACH] = [1e30, -1e30, 0, 1e-30, 3]
    wild = replace(data, records={**data.records, "x": x})
    moved = np.linalg.norm(np.subtract(mean_of(data), mean_of(wild)))
    assert 0 < moved <= 2 / CLIENTS * (1 + 1e-5)


def test_one_record_moves_a_trusted_server_s_centre_by_no_more_than_its_share() -> None:
    data = clustered()
    x = np.array(data.records["x"])
    x[0] = [1e30, -1e30, 0, 1e-30, 3]
    wild = replace(data, records={**data.records, "x": x})
    both = [mean_of(each, at="aggregate", unit="record") for each in (data, wild)]
    assert 0 < np.linalg.norm(np.subtract(*both)) <= 2 / (CLIENTS * EACH) * (1 + 1e-4)


def test_a_centre_that_is_all_noise_is_no_centre() -> None:
    """James and Stein: under heavy noise the mean is shortened, often to nothing."""
    loud = np.linalg.norm(mean_of(clustered(), noise=CLIENTS * 10.0))
    assert loud < 0.9
    quiet = np.linalg.norm(mean_of(clustered(), noise=1.0))
    assert quiet == pytest.approx(np.linalg.norm(mean_of(clustered())), abs=0.05)


def test_centred_records_have_norm_one() -> None:
    x = clustered().records["x"]
    done = centred_rows(x, unit_rows(x).mean(axis=0))
    np.testing.assert_allclose(np.linalg.norm(done, axis=1), 1, atol=1e-5)
    assert np.linalg.norm(done.mean(axis=0)) < np.linalg.norm(unit_rows(x).mean(axis=0)) / 2
    assert not unit_rows(np.zeros((2, 3))).any()
    np.testing.assert_allclose(np.linalg.norm(unit_rows(np.full((1, 4), 1e300)), axis=1), 1)


def test_the_prior_is_the_log_of_smoothed_frequencies() -> None:
    y = jnp.asarray([0, 0, 2, 1, 1])
    data = ClientData({"x": jnp.zeros((5, 2)), "y": y}, jnp.asarray(3))
    shifted = with_prior({"w": jnp.zeros((2, 3)), "b": jnp.zeros(3)}, data)["b"]
    wanted = np.log([3 / 6, 1 / 6, 2 / 6])
    np.testing.assert_allclose(jax.nn.log_softmax(shifted), wanted, rtol=1e-6)
    binary = ClientData({"x": jnp.zeros((3, 2)), "y": jnp.asarray([1, 1, 0])}, jnp.asarray(3))
    odds = with_prior({"w": jnp.zeros(2), "b": jnp.zeros(())}, binary)["b"]
    assert float(odds) == pytest.approx(math.log(3 / 2), rel=1e-6)
    with pytest.raises(TacitError, match="prior = false"):
        with_prior({"w": jnp.zeros((2, 3))}, data)


def test_a_bias_in_units_of_the_offset_is_a_constant_feature_of_that_value() -> None:
    """The same run with bias, and with a feature of 0.1 and no bias, give the same scores."""
    data = clustered()
    algorithm = Auto(noise=1e-9, records="as-is", average_rounds=1)
    extra = np.full((len(data.records["x"]), 1), 0.1, np.float32)
    wide = {**data.records, "x": np.concatenate([data.records["x"], extra], axis=1)}
    ours = final(algorithm, TASK, replace(data, test=None))
    theirs = final(
        algorithm,
        Multinomial(features=FEATURES + 1, classes=3, bias=False),
        replace(data, records=wide, test=None),
    )
    np.testing.assert_allclose(ours["w"], theirs["w"][:-1], atol=1e-9)
    np.testing.assert_allclose(ours["b"], 0.1 * theirs["w"][-1], atol=1e-9)


def final(algorithm: Auto, task: Any, data: Federation) -> Any:
    done = algorithm.planned(Problem(task, POPULATION, 4))
    simulator = Simulator(done, task, data, dtype="float64", max_devices=1)
    return jax.tree.map(np.asarray, simulator.advance(simulator.init(), 0, 4).server.params)


def test_a_client_who_speaks_once_pays_once_however_long_the_run_is() -> None:
    for rounds, times, messages in ((10, 1, 1), (100, 1, 1), (100, 4, 4)):
        plan = Plan(AutoLocal(times=times, noise=0.5), TASK, POPULATION, rounds)
        assert plan.guarantee(0.0).epsilon == 2.0 * messages
        once = plan.algorithm.release.event(0, relation="replace-one", cohort=Everyone(), records=1)
        assert once.epsilon == 2.0


@pytest.mark.parametrize("floor", [0.0, 0.02])
def test_a_record_moves_the_sum_that_a_trusted_server_noises_by_at_most_one(floor: float) -> None:
    """The silo bounds every record itself: nothing bounds its message afterwards."""
    task = Multinomial(features=FEATURES, classes=3)
    method = Auto(protects="record", noise_at="aggregate", floor=floor, noise=1.0)
    population = Population((8, 8))
    plan = Plan(method, task, population, 3)
    (phase,) = plan.algorithm.phases(task, population)
    rng = np.random.default_rng(5)
    x = rng.standard_normal((9, FEATURES)) * 10.0 ** rng.integers(-4, 7, (9, 1))
    records = {"x": jnp.asarray(x, jnp.float32), "y": jnp.asarray(rng.integers(0, 3, 9))}
    params = jax.tree.map(
        lambda v: jnp.asarray(rng.standard_normal(v.shape), v.dtype), task.init(jax.random.key(0))
    )
    moment = Moment(jnp.zeros((), jnp.int32), jax.random.key(1))

    def summed(size: int) -> np.ndarray[Any, Any]:
        message, _ = phase.client(moment, (), ClientData(records, jnp.asarray(size)), params)
        released, _ = leave_client(phase, jax.random.key(2), message, 0)
        leaves = jax.tree.leaves(released["gradient"])
        return np.concatenate([np.asarray(v, np.float64).ravel() for v in leaves])

    moves = [np.linalg.norm(summed(n + 1) - summed(n)) for n in range(1, 9)]
    assert max(moves) <= 1 + 1e-5
    assert max(moves) > 0.99
    assert np.linalg.norm(summed(9)) > 1.5  # the message itself is not cut to the bound
    sentence = plan.guarantee(1e-5).sentence()
    assert "every single record" in sentence
    assert "the server itself is trusted" in sentence


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(TacitError, match="auto-local"):
        Auto(noise_at="silo")
    with pytest.raises(TacitError, match="label prior"):
        Auto(protects="record", prior=True)
    with pytest.raises(TacitError, match="times is 0; give at least 1"):
        AutoLocal(times=0)
    with pytest.raises(TacitError, match="cannot take turns"):
        Plan(AutoLocal(noise=1.0), TASK, Population((3, 3)), 5)
    for given in ({"kappa": 0.0}, {"momentum": 1.0}, {"average_rounds": 0}):
        with pytest.raises(TacitError, match="give"):
            Auto(**given)  # type: ignore[arg-type]


def test_poisson_cohorts_are_amplified_and_the_step_knows() -> None:
    sampled = planned(Auto(centre="public", clients_per_round=PoissonCohort(0.25)), 40)
    whole = planned(Auto(centre="public"), 40)
    assert sampled.noise < whole.noise
    assert sampled.spread == pytest.approx(sampled.noise / (0.25 * CLIENTS))


def test_binary_logistic_regression_works_the_same() -> None:
    data = clustered()
    both = {
        part: {**records, "y": (np.asarray(records["y"]) > 0).astype(np.int32)}
        for part, records in (("records", data.records), ("test", data.test or {}))
    }
    two = replace(data, classes=2, **both)
    result = train(Auto(), Logistic(features=FEATURES), two, budget=BUDGET, seed=0)
    assert result.metrics["test/accuracy"] > 0.9
