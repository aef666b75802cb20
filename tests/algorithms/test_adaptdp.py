"""AdaptDP-FedAvg: sensitivity, budgets, the printed table with its true epsilons, and its run."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.theory.adaptdp import (
    Silo,
    equation_1_noise,
    equation_3_epsilon,
    equation_3_noise,
)
from tacit import local
from tacit.accounting import (
    Budget,
    FixedSize,
    ShuffledEpochs,
    calibrate,
    epsilon_of,
    gaussian_event,
)
from tacit.algorithm import ClientData, Moment
from tacit.algorithms import AdaptDPFedAvg
from tacit.algorithms.adaptdp_fedavg import clip_radius, radius_lift
from tacit.data.datasets.generators import quadratic
from tacit.errors import BudgetError, TacitError
from tacit.mechanisms import NoNoise
from tacit.planning import Plan
from tacit.planning import calibrate as settle
from tacit.planning.notes import notes, radius_floor, warnings
from tacit.population import Population
from tacit.precision import precision
from tacit.release import Release
from tacit.run import Run, Settings, train
from tacit.tasks.linear import Quadratic

DELTA = 1e-4
T1 = Silo(records=1500, batch=100, rounds=150, steps=20)
T2 = Silo(records=22605, batch=100, rounds=100, steps=226)
T3 = Silo(records=1500, batch=100, rounds=1000, steps=15)


@lru_cache
def calibrated(epsilon: float) -> AdaptDPFedAvg:
    plan = Plan(AdaptDPFedAvg(), Quadratic(features=20), Population((1500, 1500)), 150)
    settled = settle(plan, Budget(epsilon, DELTA))
    spent = settled.guarantee(DELTA).epsilon
    assert 0.999 * epsilon <= spent <= epsilon
    assert isinstance(settled.algorithm, AdaptDPFedAvg)
    return settled.algorithm


# --- the printed table with the privacy that it really gives ---------------------------------


@pytest.mark.parametrize(
    ("silo", "sigma", "printed", "tight"),
    [
        (T1, 0.003, 2.38329e5, 4999.5),
        (T1, 0.006, 3.83390e4, 899.9),
        (T1, 0.010, 2373.77, 211.8),
        (T2, 0.006, 5.81346e4, 263.3),
        (T2, 0.010, 96.4881, 33.47),
        (T2, 0.030, 5.02396, 2.1268),
        (T3, 0.003, 1.19164e6, 21915.0),
        (T3, 0.006, 1.91695e5, 3828.8),
        (T3, 0.010, 1.18688e4, 850.4),
    ],
)
def test_table_1_with_its_true_epsilon(
    silo: Silo, sigma: float, printed: float, tight: float
) -> None:
    epsilon, order = equation_3_epsilon(sigma, silo, DELTA)
    assert epsilon == pytest.approx(printed, rel=1e-5)
    assert order == (2 if epsilon > 2 * math.log(1 / DELTA) else 5)
    event = gaussian_event(
        radius=1.0,
        noise=sigma * silo.batch,
        relation="replace-one",
        sampling=FixedSize(sample=silo.batch, population=silo.records),
        count=silo.rounds * silo.steps,
    )
    exact = epsilon_of(event, delta=DELTA, relation="replace-one")
    assert 0.985 * tight <= exact <= 1.001 * tight


@pytest.mark.parametrize(
    ("silo", "smallest"),
    [
        (Silo(records=1500, batch=100, rounds=1000, steps=15), 9.21),
        (Silo(records=1500, batch=100, rounds=100, steps=15), 4.61),
        (Silo(records=22605, batch=100, rounds=100, steps=226), 0.768),
    ],
)
def test_the_printed_calibration_has_a_floor(silo: Silo, smallest: float) -> None:
    with pytest.raises(BudgetError, match="no noise for epsilon"):
        equation_3_noise(0.98 * smallest, DELTA, silo)
    noise = equation_3_noise(1.02 * smallest, DELTA, silo)
    found, _ = equation_3_epsilon(noise, silo, DELTA)
    assert found == pytest.approx(1.02 * smallest, rel=1e-6)


def test_equation_1_of_t3_and_the_split() -> None:
    """The printed pairs are not those of equation (1) with b^C = 100."""
    for sigma, pair in ((0.003, (0.00403, 0.00115)), (0.010, (0.01117, 0.00724))):
        epsilon, _ = equation_3_epsilon(sigma, T3, DELTA)
        assert equation_1_noise(epsilon, DELTA, T3, 100) == pytest.approx(pair, rel=2e-3)


def test_the_three_calibrations_in_order() -> None:
    """Sigma on the mean for n = 22605, 22600 steps, epsilon 8."""
    printed = equation_3_noise(8.0, DELTA, T2)
    assert printed == pytest.approx(0.02234, rel=1e-3)

    def spent(sigma: float, accountant: str) -> float:
        event = gaussian_event(
            radius=1.0,
            noise=100 * sigma,
            relation="replace-one",
            sampling=FixedSize(sample=100, population=22605),
            count=22600,
        )
        return epsilon_of(event, delta=DELTA, relation="replace-one", accountant=accountant)

    assert spent(printed, "pld") < spent(printed, "rdp") < 8.0
    assert spent(0.01541, "pld") == pytest.approx(8.0, rel=5e-3)


@pytest.mark.parametrize(("rounds", "amplified", "shuffled"), [(100, 0.0354, 0.1086)])
def test_shuffled_epochs_cost_more(rounds: int, amplified: float, shuffled: float) -> None:
    """At epsilon 8 with n = 1500, b = 100, K = 15."""

    def least(scheme: FixedSize | ShuffledEpochs) -> float:
        noise = calibrate(
            lambda z: gaussian_event(
                radius=1.0, noise=z, relation="replace-one", sampling=scheme, count=15 * rounds
            ),
            Budget(8.0, DELTA),
            relation="replace-one",
        )
        return noise / 100

    assert least(FixedSize(sample=100, population=1500)) == pytest.approx(amplified, rel=4e-3)
    assert least(ShuffledEpochs(batches=15)) == pytest.approx(shuffled, rel=1e-3)


def test_shuffled_epochs_over_a_thousand_rounds() -> None:
    noise = calibrate(
        lambda z: gaussian_event(
            radius=1.0,
            noise=z,
            relation="replace-one",
            sampling=ShuffledEpochs(batches=15),
            count=15_000,
        ),
        Budget(8.0, DELTA),
        relation="replace-one",
    )
    assert noise / 100 == pytest.approx(0.3435, rel=1e-3)


# --- both releases in one budget --------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "gradients", "radius"), [(8.0, 0.04919, 0.01402), (2.0, 0.14104, 0.04478)]
)
def test_calibration_of_the_specification(epsilon: float, gradients: float, radius: float) -> None:
    algorithm = calibrated(epsilon)
    assert algorithm.noise / 100 == pytest.approx(gradients, rel=2e-3)
    assert algorithm.radius_noise / 1500 == pytest.approx(radius, rel=2e-3)


def test_a_larger_share_for_the_radius_costs_the_gradients() -> None:
    base = AdaptDPFedAvg(batches="full")
    plans = [
        settle(
            Plan(replace(base, radius_share=share), Quadratic(features=20), Population((50,)), 10),
            Budget(4.0, DELTA),
        ).algorithm
        for share in (0.1, 0.5)
    ]
    assert plans[1].radius_noise < plans[0].radius_noise
    assert plans[1].noise > plans[0].noise


# --- the radius -------------------------------------------------------------------------------


@given(st.floats(-5, 5), st.floats(0, 1), st.floats(1, 3), st.floats(0.01, 10))
def test_radius_is_floored_and_capped(mean: float, nu: float, tau: float, cap: float) -> None:
    found = float(clip_radius(jnp.asarray(mean), nu, tau, cap))
    assert 0 <= found <= cap * (1 + 1e-6)
    if mean + nu <= 0:
        assert found == 0
    else:
        expected = min(math.sqrt(2 * tau * (mean + nu)), cap)
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_lift_of_one_client_is_the_gaussian_quantile() -> None:
    lift = radius_lift(0.01**2, 1, 1, 2 * math.exp(-2.0), 3.0)
    assert lift == pytest.approx(0.01 * 9 * 2)


def test_floor_and_warning() -> None:
    population = Population((1500, 1500))
    algorithm = calibrated(8.0)
    assert radius_floor(algorithm, population) == pytest.approx(
        math.sqrt(2 * radius_lift(0.01402**2, 2, 150, 0.01, 1.0)), rel=2e-3
    )
    assert warnings(algorithm, population) == []
    starved = replace(algorithm, radius_noise=40 * algorithm.radius_noise)
    (sentence,) = warnings(starved, population)
    assert "hardly adapts" in sentence


def test_the_plan_states_both_noises_and_the_floor() -> None:
    (note,) = notes(calibrated(8.0), Population((1500, 1500)), DELTA)
    assert "4.92" in note
    assert "21.03" in note
    assert "above 30% of its cap" in note
    assert notes(AdaptDPFedAvg(), Population((5,)), DELTA) == []


def test_floor_of_the_specification_for_a_thousand_rounds() -> None:
    """n = 1500, R = 1000, epsilon 8, half of mu^2: the radius keeps 0.34 of its cap."""
    plan = Plan(
        AdaptDPFedAvg(batches="full", local_steps=1, radius_share=0.5),
        Quadratic(features=20),
        Population((1500, 1500)),
        1000,
    )
    settled = settle(plan, Budget(8.0, DELTA)).algorithm
    assert isinstance(settled, AdaptDPFedAvg)
    assert radius_floor(settled, plan.population) == pytest.approx(0.34, abs=0.015)


@partial(jax.jit, static_argnums=0)
def scalar(release: Release, x: jax.Array, y: jax.Array) -> jax.Array:
    """The mean of clipped squared norms of a client's records at w = 0, without noise."""
    task = Quadratic(features=x.shape[1])
    params, first = {"w": jnp.zeros(x.shape[1])}, jnp.zeros((), jnp.int32)
    return local.private_mean(
        replace(release, mechanism=NoNoise()),
        Moment(first, jax.random.key(0)),
        ClientData({"x": x, "y": y}, jnp.asarray(len(x))),
        lambda records: local.squared_gradient_norms(task, params, records),
    ).value


@pytest.mark.parametrize("batch", [None, 4])
def test_one_record_moves_the_scalar_by_no_more_than_the_sensitivity(batch: int | None) -> None:
    algorithm = AdaptDPFedAvg(max_radius=1.5, radius_batch=batch)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((9, 3)), 3 * rng.standard_normal(9)
    limit = 1.5**2 / (batch or 9)
    largest = 0.0
    with precision("float64"):
        first = float(scalar(algorithm.measure, x, y))
        assert 0 < first < 1.5**2
        for record in range(9):
            for scale in (0.0, 1.0, 1e3, 1e200):
                other = x.copy()
                other[record] = scale
                moved = abs(float(scalar(algorithm.measure, other, y)) - first)
                assert moved <= limit * (1 + 1e-12)
                largest = max(largest, moved)
    assert largest > 0.5 * limit


# --- a run ------------------------------------------------------------------------------------


def test_a_run_reports_radius_and_quantile_ratios() -> None:
    federation = quadratic(clients=2, records=40, dimension=4, seed=1).federation
    algorithm = AdaptDPFedAvg(batch_size=10, local_steps=3, noise=0.1, radius_noise=0.1)
    result = train(algorithm, Quadratic(features=4), federation, rounds=4, delta=1e-4, seed=0)
    measured = {row.metric for row in result.rows}
    assert {"server/radius", "oracle/gradient_rms", "oracle/tau_0.9", "oracle/tau_1"} <= measured
    radii = [row.value for row in result.rows if row.metric == "server/radius"]
    assert 0 < radii[-1] <= 1.0
    assert result.metrics["oracle/tau_0.5"] <= result.metrics["oracle/tau_0.9"]
    assert result.guarantee.unit == "record"
    assert "server" in result.guarantee.observer


def test_noise_free_run_follows_the_pseudo_code() -> None:
    """Full batches without noise: the radius, the step and both outputs by hand."""
    federation = quadratic(clients=2, records=8, dimension=3, seed=2).federation
    x, y = federation.records["x"].reshape(2, 8, 3), federation.records["y"].reshape(2, 8)
    models, visited, radius = [np.zeros(3)], [], 0.0
    for _ in range(2):
        w = models[-1]
        norms = [((xp @ w - yp)[:, None] * xp) for xp, yp in zip(x, y, strict=True)]
        squares = [np.minimum((g**2).sum(1), 0.4**2).mean() for g in norms]
        radius = min(math.sqrt(2 * np.mean(squares)), 0.4)
        ends = []
        for xp, yp in zip(x, y, strict=True):
            local_w = w.copy()
            for _ in range(3):
                visited.append(local_w)
                g = (xp @ local_w - yp)[:, None] * xp
                size = np.linalg.norm(g, axis=1, keepdims=True)
                local_w = local_w - 0.5 * (g * np.minimum(1, radius / size)).mean(0)
            ends.append(local_w)
        models.append(np.mean(ends, axis=0))
    for output, expected in (("last", models[-1]), ("average", np.mean(visited, axis=0))):
        algorithm = AdaptDPFedAvg(
            batches="full", local_steps=3, local_lr=0.5, max_radius=0.4, output=output
        )
        run = Run.of(
            algorithm,
            Quadratic(features=3),
            federation,
            rounds=2,
            settings=Settings(dtype="float64"),
        )
        result = run.train()
        np.testing.assert_allclose(result.params["w"], expected, rtol=1e-9)
        assert result.metrics["server/radius"] == pytest.approx(radius)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tau": 0.5}, "tau"),
        ({"failure": 1.0}, "failure"),
        ({"local_steps": 0}, "local_steps is 0; give at least 1"),
    ],
)
def test_mistakes_are_sentences(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(TacitError, match=words):
        AdaptDPFedAvg(**wrong)


def test_rounds_must_be_known() -> None:
    with pytest.raises(TacitError, match="plan the run first"):
        AdaptDPFedAvg().phases(Quadratic(features=2), Population((5,)))
