"""Allocations spend exactly the budget; plans and advice say what they should."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit.accounting import Budget
from tacit.errors import TacitError
from tacit.planning.advice import Problem, advise, honest_word
from tacit.population import Population
from tacit.schedules.allocation import dynamic_levels, static_levels
from tacit.schedules.scaffnew import (
    ScaffNewProblem,
    bound_curve,
    noise_constant,
    scaffnew_plan,
)


@given(
    st.integers(1, 3000),
    st.floats(0.5, 1.0, exclude_min=True),
    st.one_of(st.none(), st.floats(1.0, 1e4)),
)
def test_every_allocation_spends_exactly_the_budget(rounds, contraction, most):
    levels = dynamic_levels(rounds, contraction, most)
    assert math.fsum(level**-2 for level in levels) == pytest.approx(1, abs=1e-12)
    assert all(a >= b for a, b in itertools.pairwise(levels))
    if most is not None:
        assert levels[0] <= most * levels[-1] * (1 + 1e-12)


def test_without_contraction_the_allocation_is_static():
    assert dynamic_levels(7, 1.0) == pytest.approx(static_levels(7))


def test_dynamic_beats_static_for_the_error_that_it_minimises():
    """sum_t c^(T-t) level_t^2 is the variance that is left at the end."""
    rounds, c = 200, 0.97
    weights = [c ** (rounds - 1 - t) for t in range(rounds)]

    def left(levels):
        return math.fsum(w * level**2 for w, level in zip(weights, levels, strict=True))

    best = left(dynamic_levels(rounds, c))
    assert best < 0.7 * left(static_levels(rounds))
    for other in (0.96, 0.98):
        assert best < left(dynamic_levels(rounds, other))


def test_dp_fedavg_takes_the_allocation_at_the_same_price():
    task, population = tacit.make_task("logistic", shape=(3,), classes=2), Population((5,) * 10)
    plain = tacit.Plan(tacit.DPFedAvg(noise=5.0), task, population, 50)
    spread = tacit.Plan(tacit.DPFedAvg(noise=5.0, contraction=0.95), task, population, 50)
    assert spread.guarantee(1e-5).epsilon == pytest.approx(plain.guarantee(1e-5).epsilon, rel=1e-9)
    assert spread.algorithm.levels[0] > 5 > spread.algorithm.levels[-1]


@pytest.mark.parametrize("wrong", [0.0, -1.0, 1.5])
def test_a_contraction_is_a_factor(wrong):
    with pytest.raises(TacitError, match="contraction"):
        dynamic_levels(10, wrong)


def test_scaffnew_plan_is_clamped_with_a_warning_where_the_bound_gives_up():
    problem = ScaffNewProblem(8.63, 0.07, 7.0, 5, 30, 0.463)
    hopeless = scaffnew_plan(problem, 1.0, 1e-5, noise_constant(1.0, 1e-5, exact=False))
    assert hopeless.iterations == pytest.approx(-1043, abs=1)
    assert hopeless.communications == 1
    assert "no gain" in hopeless.warning
    rich = scaffnew_plan(problem, 3000.0, 1e-5)
    assert rich.warning is None
    curve = bound_curve(problem, 3000.0, 1e-5, [1, round(rich.iterations), 5000])
    assert curve[1] < min(curve[0], curve[2])


def test_advice_ranks_by_noise_and_says_when_nothing_can_learn():
    task = tacit.make_task("logistic", shape=(20,), classes=2, l2=0.01)
    many = Problem(Population((100,) * 1000), task, 21, 20, 0.01, 0.5)
    few = Problem(Population((100,) * 3), task, 21, 500, 0.01, 0.5)
    found = advise(many, Budget(8.0, 1e-5), "central")
    assert found[0].name == "auto"  # the default suggestion; then by noise
    assert found[1].name in ("dp-fedavg", "dp-norm-fedavg")
    assert found[0].over_run == pytest.approx(found[0].noise_to_signal / found[0].rounds ** 0.5)
    assert all(c.guarantee.epsilon <= 8.0 for c in found)
    assert all(a.noise_to_signal <= b.noise_to_signal for a, b in itertools.pairwise(found[1:]))
    assert honest_word(found) is None
    assert "cannot teach" in honest_word(advise(few, Budget(0.5, 1e-5), "central"))
    local = {c.name: c for c in advise(many, Budget(8.0, 1e-5), "local")}
    assert {"dp-scaffnew", "dynamic-ldp", "isrl-dp", "adaptdp-fedavg"} <= set(local)
    assert local["dp-fedavg (local)"].protects == "client"
    assert local["dynamic-ldp"].protects == "record"
