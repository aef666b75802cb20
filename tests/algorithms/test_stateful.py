"""Dynamic LDP, DP-ScaffNew, DP-SCAFFOLD and ISRL-DP: what their papers promise."""

from functools import partial

import jax
import numpy as np
import pytest

from local_federation import LocalFederation
from tacit.accounting import Budget, gaussian_event, gdp_eps
from tacit.algorithm import Problem
from tacit.algorithms import ISRLDP, DPFedAvg, DPScaffNew, DynamicLDP, FedAvg
from tacit.algorithms.registry import make
from tacit.algorithms.scaffnew import steps_of_coins
from tacit.data.datasets.generators import ijcnn_like
from tacit.data.federation import Federation
from tacit.errors import TacitError
from tacit.planning import Plan, calibrate
from tacit.population import Population
from tacit.simulation import Simulator
from tacit.tasks.linear import LeastSquares
from tacit.tasks.logistic import Logistic

L2 = 0.1
TASK = Logistic(features=5, bias=False, l2=L2)
FEDERATION = ijcnn_like(clients=4, records=30, dimension=5, shift=2.0, seed=3)
POPULATION = Population((30,) * 4)

scaffold = partial(make, "dp-scaffold")


def run(algorithm, rounds, seed=0):
    plan = Plan(algorithm, TASK, POPULATION, rounds)
    simulator = Simulator(plan.algorithm, TASK, FEDERATION, seed=seed, dtype="float64")
    state = simulator.advance(simulator.init(), 0, plan.rounds)
    return np.asarray(simulator.params(state)["w"]), state


@pytest.fixture(scope="module")
def optimum():
    return run(FedAvg(local_steps=1, local_lr=2.0), 2000)[0]


def error(found, optimum):
    return float(np.linalg.norm(found - optimum) / np.linalg.norm(optimum))


def test_fedavg_drifts_and_scaffnew_does_not(optimum):
    assert error(run(FedAvg(local_steps=5, local_lr=1.0), 200)[0], optimum) > 1e-3
    for options in ({"local_steps": 5}, {"probability": 0.2}):
        found, _ = run(DPScaffNew(lr=1.0, clip=None, **options), 400)
        assert error(found, optimum) < 1e-6


def test_scaffnew_takes_minibatches_and_a_batch_of_all_records_is_the_full_gradient():
    options = {"lr": 0.5, "local_steps": 5, "clip": None}
    full, _ = run(DPScaffNew(**options), 50)
    np.testing.assert_allclose(run(DPScaffNew(**options, batch_size=30), 50)[0], full, rtol=1e-9)
    small, _ = run(DPScaffNew(**options, batch_size=4), 50)
    again, _ = run(DPScaffNew(**options, batch_size=4), 50)
    other, _ = run(DPScaffNew(**options, batch_size=4), 50, seed=1)
    np.testing.assert_array_equal(small, again)
    assert 1e-3 < error(small, full) < 1
    assert error(small, other) > 1e-3


def test_a_batch_of_no_records_is_refused():
    with pytest.raises(TacitError, match="at least one record"):
        run(DPScaffNew(local_steps=2, batch_size=0), 2)


def test_scaffnew_controls_sum_to_zero_after_a_thousand_noisy_communications():
    _, state = run(DPScaffNew(lr=0.5, probability=0.5, noise=1.0, clip=0.1), 1000)
    total = np.asarray(state.clients.h["w"]).reshape(-1, 5).sum(axis=0)
    largest = np.abs(np.asarray(state.clients.h["w"])).max()
    assert np.abs(total).max() <= 1e-9 * max(largest, 1.0)
    assert largest > 1e-3


@pytest.mark.parametrize(
    "options",
    [
        {"protects": "record", "option": "I", "batches": "full", "batch_size": None},
        {"protects": "record", "option": "II", "batches": "full", "batch_size": None},
        {"protects": "client", "noise_at": "message"},
        {"protects": "client", "noise_at": "aggregate"},
    ],
    ids=lambda o: "-".join(str(v) for v in o.values()),
)
def test_scaffold_has_the_right_sign_and_denominator(options, optimum):
    found, state = run(scaffold(local_steps=5, local_lr=1.0, clip=1e3, **options), 300)
    assert error(found, optimum) < 1e-6
    # At the optimum the mean of the clients' gradients, and so c, is minus the penalty's gradient.
    if options["protects"] == "client":
        assert np.abs(np.asarray(state.server.control["w"])).max() < 1e-6


def test_scaffold_arrives_though_every_message_is_clipped_on_the_way(optimum):
    options = {"protects": "client", "noise_at": "aggregate", "local_steps": 5, "local_lr": 1.0}
    found, _ = run(scaffold(clip=0.05, **options), 300)
    assert error(found, optimum) < 1e-6
    shortened, _ = run(scaffold(clip=0.05, controls="shortened", **options), 300)
    assert error(shortened, optimum) > 0.1
    clipped, _ = run(DPFedAvg(clip=0.05, local_steps=5, local_lr=1.0), 300)
    assert error(clipped, optimum) > 0.1


def test_shortened_controls_are_gradients_shortened_like_the_messages():
    options = {"protects": "client", "local_steps": 1, "local_lr": 1.0, "clip": 0.05}
    algorithm = scaffold(controls="shortened", **options)
    federation = LocalFederation(algorithm, TASK, FEDERATION, seed=0, dtype="float64")
    federation.server.round(0, federation.ask)
    w = np.asarray(federation.server.state.params["w"])
    control = np.asarray(federation.server.state.control["w"])
    federation.server.round(1, federation.ask)
    for number, client in enumerate(federation.clients):
        records = FEDERATION.client(number)
        sign = 2.0 * records["y"] - 1.0
        pull = sign / (1 + np.exp(sign * (records["x"] @ w)))
        gradient = L2 * w - (pull[:, None] * records["x"]).mean(axis=0)
        assert client._pending is not None
        own, found = np.asarray(client._state["w"]), np.asarray(client._pending[1]["w"])
        share = 0.05 / np.linalg.norm(gradient - own + control)
        assert share < 0.5
        np.testing.assert_allclose(found, share * gradient, rtol=1e-9)


def test_shortened_controls_are_scaffold_where_nothing_is_clipped(optimum):
    options = {"protects": "client", "local_steps": 5, "local_lr": 1.0, "clip": 1e3}
    found, _ = run(scaffold(controls="shortened", **options), 300)
    assert error(found, optimum) < 1e-6


def test_shortened_controls_need_messages_that_are_clipped():
    with pytest.raises(TacitError, match="has no option 'controls'"):
        scaffold(controls="shortened")


@pytest.mark.parametrize(
    "options",
    [
        {"protects": "record"},
        {"protects": "client", "noise_at": "aggregate"},
    ],
)
def test_scaffold_refuses_privunit_where_it_would_not_be_local(options):
    with pytest.raises(TacitError):
        scaffold(mechanism="privunit", **options)


def test_scaffold_with_privunit_costs_what_its_messages_cost():
    whole = scaffold(protects="client", mechanism="privunit", eps0=1.0, eps1=2.0, eps2=3.0)
    plan = Plan.of(whole, TASK, POPULATION, 5)
    assert plan.guarantee(0.0).epsilon == pytest.approx(5 * 6.0)
    half = calibrate(plan, Budget(15.0, 1e-12))
    # A delta of 1e-12 buys next to nothing: each of the three budgets is nearly halved.
    assert half.guarantee(1e-12).epsilon <= 15.0
    assert half.algorithm.release.mechanism.eps2 == pytest.approx(1.5, rel=1e-2)


def test_scaffold_refuses_a_control_that_would_need_its_own_release():
    with pytest.raises(TacitError, match="has no option 'option'"):
        scaffold(protects="client", option="I")


def test_option_one_is_charged_for_its_gradient():
    plans = [
        Plan(scaffold(option=option, noise=3.0, batch_size=10, local_steps=4), TASK, POPULATION, 10)
        for option in ("I", "II")
    ]
    assert plans[0].guarantee(1e-5).epsilon > plans[1].guarantee(1e-5).epsilon


def test_dynamic_ldp_reaches_the_optimum_without_noise(optimum):
    found, _ = run(DynamicLDP(strong_convexity=L2), 6000)
    assert error(found, optimum) < 1e-4


def test_dynamic_noise_is_bounded_in_the_rounds_and_static_noise_grows(optimum):
    def final(allocation, rounds):
        algorithm = DynamicLDP(strong_convexity=L2, allocation=allocation)
        plan = calibrate(Plan(algorithm, TASK, POPULATION, rounds), Budget(2.0, 1e-4))
        assert plan.guarantee(1e-4).epsilon <= 2.0
        simulator = Simulator(plan.algorithm, TASK, FEDERATION, dtype="float64")
        errors = []
        for seed in range(4):
            simulator.reseed(seed)
            state = simulator.advance(simulator.init(), 0, rounds)
            errors.append(error(np.asarray(simulator.params(state)["w"]), optimum) ** 2)
        return float(np.mean(errors))

    dynamic = [final("dynamic", rounds) for rounds in (500, 5000)]
    static = [final("static", rounds) for rounds in (500, 5000)]
    assert static[1] > 4 * static[0]
    assert dynamic[1] < 2.5 * dynamic[0]
    assert static[1] > 2 * dynamic[1]


def test_dynamic_needs_a_strong_convexity_and_says_so():
    with pytest.raises(TacitError, match="strong_convexity"):
        DynamicLDP()


def test_isrl_dp_converges_when_strongly_convex(optimum):
    mu, smooth = TASK.constants(1.0)
    found, _ = run(ISRLDP(smoothness=smooth, strong_convexity=mu, clip=1e3), 60)
    assert error(found, optimum) < 0.01


def test_isrl_dp_accelerates_an_ill_conditioned_convex_problem():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 5)) * np.array([1.0, 0.3, 0.1, 0.03, 0.01])
    x /= np.linalg.norm(x, axis=1).max()
    records = {"x": x, "y": x @ np.ones(5)}
    federation = Federation(records=records, sizes=np.array([30, 30]), names=("a", "b"))
    task, population = LeastSquares(features=5, bias=False), Population((30, 30))

    def loss(algorithm):
        plan = Plan(algorithm, task, population, 300)
        simulator = Simulator(plan.algorithm, task, federation, dtype="float64")
        state = simulator.advance(simulator.init(), 0, 300)
        return simulator.evaluate(simulator.params(state), federation.records)["loss"]

    accelerated = loss(ISRLDP(smoothness=1.0, clip=1e3))
    assert accelerated < 0.5 * loss(FedAvg(local_steps=1, local_lr=0.5))


def test_scaffnew_is_calibrated_to_the_communications_that_happen():
    algorithm = DPScaffNew(lr=1.0, probability=0.1, iterations=100, coin_seed=11)
    plan = calibrate(Plan(algorithm, TASK, POPULATION, 1), Budget(1.0, 1e-5))
    happened = len(steps_of_coins(100, 0.1, 11))
    assert plan.rounds == happened
    assert plan.guarantee(1e-5).epsilon == pytest.approx(1.0, rel=1e-6)
    # More communications than the expected 10 would overspend noise calibrated to 10.
    assert happened > 10
    expected_noise = plan.algorithm.noise * (10 / happened) ** 0.5
    mu = 2 * happened**0.5 / expected_noise
    assert gdp_eps(mu, 1e-5) > 1.05
    assert gaussian_event(radius=1, noise=1, relation="replace-one").noise_multiplier == 0.5


def test_coins_are_drawn_up_front_and_the_last_step_communicates():
    steps = steps_of_coins(1000, 0.1, seed=4)
    assert sum(steps) == 1000
    assert steps == steps_of_coins(1000, 0.1, seed=4)
    assert 60 < len(steps) < 140
    assert steps_of_coins(10, 0.5, 0, local_steps=4) == (4, 4, 2)


def test_a_client_whose_reply_was_lost_goes_on_from_the_state_before():
    algorithm = DPScaffNew(lr=0.5, local_steps=2, noise=1.0).planned(Problem(TASK, POPULATION, 4))
    whole = LocalFederation(algorithm, TASK, FEDERATION, seed=0, dtype="float64")
    lossy = LocalFederation(algorithm, TASK, FEDERATION, seed=0, dtype="float64")

    def lose(requests):
        replies = lossy.ask(requests)
        if lossy.server.state.round == 1:
            replies[2] = None
        return replies

    for number in range(3):
        whole.server.round(number, whole.ask)
        report = lossy.server.round(number, lose)
        assert [e.client for e in report.excluded] == ([2] if number == 1 else [])
    h = [jax.tree.map(np.asarray, client._state) for client in lossy.clients]
    kept = [jax.tree.map(np.asarray, client._state) for client in whole.clients]
    # The others moved on; the lost one still holds the control and the message of round 0.
    assert not np.allclose(h[0].sent["w"], h[2].sent["w"])
    first = LocalFederation(algorithm, TASK, FEDERATION, seed=0, dtype="float64")
    first.server.round(0, first.ask)
    pending = first.clients[2]._pending
    assert pending is not None
    np.testing.assert_array_equal(h[2].sent["w"], np.asarray(pending[1].sent["w"]))
    assert not np.allclose(kept[2].sent["w"], h[2].sent["w"])
