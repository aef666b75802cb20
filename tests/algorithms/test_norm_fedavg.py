"""DP-NormFedAvg: its noise, its outputs, and normalising against clipping on one noise."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.theory.norm import implied_constant, key_quantity, theory_choice
from tacit import algorithm
from tacit.accounting import Budget
from tacit.algorithms import DPNormFedAvg
from tacit.algorithms.output import Outputs
from tacit.data.datasets.generators import Problem, client_quadratics
from tacit.errors import TacitError
from tacit.planning import Plan, calibrate
from tacit.population import Population
from tacit.sampling import PoissonCohort
from tacit.simulation import Simulator
from tacit.tasks.linear import Quadratic

TASK = Quadratic(features=30)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return client_quadratics(clients=20, dimension=30, rank=20, start=1.0, seed=3)


def final(method: DPNormFedAvg, problem: Problem, rounds: int, seed: int = 0) -> np.ndarray:
    population = Population((1,) * problem.federation.clients)
    simulator = Simulator(
        method.planned(algorithm.Problem(TASK, population, rounds)),
        TASK,
        problem.federation,
        seed=seed,
        dtype="float64",
    )
    return np.asarray(simulator.params(simulator.advance(simulator.init(), 0, rounds))["w"])


# --- noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relation", "noise", "constant"),
    [("zero-out", 21.914562, 1.7381), ("replace-one", 43.829124, 6.952)],
)
def test_full_participation(relation: str, noise: float, constant: float) -> None:
    plan = Plan(DPNormFedAvg(relation=relation), TASK, Population((1,) * 100), 500)
    found = calibrate(plan, Budget(5.0, 1e-6)).algorithm.noise
    assert found == pytest.approx(noise, rel=1e-6)
    assert implied_constant(found, 500, 1.0, 5.0, 1e-6) == pytest.approx(constant, rel=1e-4)


@pytest.mark.parametrize(
    ("rounds", "epsilon", "noise", "constant"),
    [(100, 5.0, 2.0068, 2.186), (500, 2.0, 9.0010, 1.407)],
)
def test_poisson_cohorts(rounds: int, epsilon: float, noise: float, constant: float) -> None:
    """With r/n = 0.2 and delta = 1e-5."""
    plan = Plan(
        DPNormFedAvg(clients_per_round=PoissonCohort(0.2)), TASK, Population((1,) * 3000), rounds
    )
    found = calibrate(plan, Budget(epsilon, 1e-5)).algorithm.noise
    assert found == pytest.approx(noise, rel=2e-3)
    assert implied_constant(found, rounds, 0.2, epsilon, 1e-5) == pytest.approx(constant, rel=5e-3)


def test_theory_choice_uses_the_whole_scale() -> None:
    """K has C = G E in its denominator."""
    rho = key_quantity(2.0, 200, 100, 5.0, 1e-6)
    choice = theory_choice(rho, 4.0, 2.0, 3.0, 5.0, 10)
    assert choice.scale == 30.0
    assert choice.step_size == pytest.approx(rho / 16)
    assert choice.rounds == pytest.approx(2 * 4.0 * 5.0 / (30.0 * rho**2))


def test_the_aggregate_carries_the_noise() -> None:
    """Noise once on the sum, whatever the cohort, so the server is trusted."""
    method = DPNormFedAvg(noise=2.0, clients_per_round=PoissonCohort(0.5))
    assert method.release.at == "aggregate"
    plan = Plan(method, TASK, Population((1,) * 10), 3)
    assert "the server itself is trusted" in plan.guarantee(1e-5).observer


# --- the method -------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", ["normalize", "clip"])
def test_noise_free_rounds_follow_the_pseudo_code(problem: Problem, bound: str) -> None:
    a, center = problem.federation.records["a"], problem.federation.records["center"]
    w, velocity, scale = np.zeros(30), np.zeros(30), 4.0
    for round_ in range(3):
        eta = 0.02 * 0.9**round_
        total = np.zeros(30)
        for matrix, middle in zip(a, center, strict=True):
            local = w.copy()
            for _ in range(4):
                local -= eta * matrix @ (matrix.T @ (local - middle))
            u = (w - local) / eta
            size = np.linalg.norm(u)
            total += u * (scale / size if bound == "normalize" else min(1, scale / size))
        velocity = 0.5 * velocity + total / 20
        w = w - 0.5 * eta * velocity
    method = DPNormFedAvg(
        bound=bound, scale=scale, local_steps=4, local_lr=0.02, decay=0.9, server_momentum=0.5
    )
    np.testing.assert_allclose(final(method, problem, 3), w, rtol=1e-10, atol=1e-12)


def test_norm_is_never_worse_than_clip_on_the_same_noise(problem: Problem) -> None:
    """Equal below the smallest update, better where updates are short."""
    a, center = problem.federation.records["a"], problem.federation.records["center"]
    curvature = np.einsum("ndr,ner->de", a, a) / len(a)

    def gap(method: DPNormFedAvg, seed: int) -> float:
        off = final(method, problem, 60, seed) - problem.optimum
        return float(off @ curvature @ off / 2)

    base = DPNormFedAvg(local_steps=10, local_lr=0.01, server_ratio=1.0, noise=4.0)
    sums = 10 * np.linalg.norm(np.einsum("ndr,ner,ne->nd", a, a, center), axis=1)
    small, large = 0.3 * sums.min(), 1.5 * sums.max()
    for scale in (small, large):
        norm = replace(base, scale=float(scale))
        clip = replace(norm, bound="clip")
        pairs = np.array([[gap(norm, seed), gap(clip, seed)] for seed in range(2)])
        assert (pairs[:, 0] <= pairs[:, 1] * (1 + 1e-6)).all()
    assert pairs[:, 0].mean() < 0.95 * pairs[:, 1].mean()


def test_the_same_noise_serves_both_options(problem: Problem) -> None:
    """At a scale that hides all signal both options return the same noise."""
    both = [
        final(DPNormFedAvg(bound=bound, scale=1e-9, noise=1e9, local_lr=1e-3), problem, 2)
        for bound in ("normalize", "clip")
    ]
    assert np.linalg.norm(both[0]) > 1e-4
    np.testing.assert_allclose(*both, rtol=1e-7, atol=1e-12)


# --- outputs ----------------------------------------------------------------------------------


def walked(outputs: Outputs, rounds: int) -> list[float]:
    """What is returned after each round when the model after round k is k + 1."""
    kept, found = outputs.start({"w": jnp.zeros(())}), []
    for k in range(rounds):
        before, after = ({"w": jnp.asarray(float(v))} for v in (k, k + 1))
        kept = outputs.keep(kept, before, after, jnp.asarray(k))
        found.append(float(outputs.choose(kept, after, jnp.asarray(k + 1))["w"]))
    return found


def test_outputs() -> None:
    assert walked(Outputs("last", 5, None), 4) == [1, 2, 3, 4]
    assert walked(Outputs("average", 3, 6), 6) == pytest.approx([1, 2, 3, 4, 4.5, 5])
    assert walked(Outputs("average", 9, 4), 4) == pytest.approx([1, 1.5, 2, 2.5])
    for rounds in range(1, 30):
        final_choice = walked(Outputs("random", 5, rounds), rounds)[-1]
        assert 0 <= final_choice < rounds


def test_the_random_iterate_is_spread_over_the_rounds() -> None:
    chosen = np.array(
        [Outputs("random", 5, rounds)._chosen() / rounds for rounds in range(50, 450)]
    )
    assert abs(chosen.mean() - 0.5) < 4 / math.sqrt(12 * 400)


def test_outputs_need_the_rounds() -> None:
    with pytest.raises(TacitError, match="plan the run first"):
        walked(Outputs("average", 5, None), 1)


def test_zero_update_stays_zero() -> None:
    bound = DPNormFedAvg(scale=3.0).release.bound
    assert np.asarray(jax.jit(bound)(jnp.zeros(4))).tolist() == [0, 0, 0, 0]
