"""From a budget to noise: never above the budget, and at least 99.9 % of it."""

import math

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import (
    Budget,
    Everyone,
    FixedSize,
    Part,
    Poisson,
    SamplingScheme,
    ShuffledEpochs,
    calibrate,
    calibrate_split,
    compose,
    epsilon_of,
    gaussian_event,
    gdp_eps,
    gdp_mu,
    laplace_event,
    pure_event,
)
from tacit.errors import BudgetError, TacitError


def gaussians(
    relation: str, count: int, sampling: SamplingScheme | None = None, radius: float = 1.0
) -> object:
    return lambda noise: gaussian_event(
        radius=radius, noise=noise, relation=relation, sampling=sampling, count=count
    )


budgets = st.builds(
    Budget,
    st.floats(-1.5, 1.7).map(lambda x: 10**x),
    st.floats(-9, -3).map(lambda x: 10**x),
)


@settings(max_examples=40)
@given(
    budget=budgets,
    count=st.integers(1, 10**6),
    relation=st.sampled_from(["add-remove", "replace-one"]),
)
def test_unsampled_noise_is_exact(budget: Budget, count: int, relation: str) -> None:
    event = gaussians(relation, count)
    noise = calibrate(event, budget, relation=relation)
    moved = 1 if relation == "add-remove" else 2
    closed = moved * math.sqrt(count) / gdp_mu(budget.epsilon, budget.delta)
    assert noise == pytest.approx(closed, rel=1e-8)
    assert epsilon_of(event(noise), delta=budget.delta, relation=relation) <= budget.epsilon


@settings(max_examples=8)
@given(
    budget=budgets,
    count=st.integers(2, 3000),
    rate=st.floats(-2.5, -0.05).map(lambda x: 10**x),
    fixed=st.booleans(),
)
def test_sampled_noise_reaches_the_budget_from_below(
    budget: Budget, count: int, rate: float, fixed: bool
) -> None:
    relation = "replace-one" if fixed else "add-remove"
    sampling = FixedSize.of_rate(round(rate, 6)) if fixed else Poisson(rate=rate)
    event = gaussians(relation, count, sampling)
    noise = calibrate(event, budget, relation=relation)
    spent = epsilon_of(event(noise), delta=budget.delta, relation=relation)
    assert 0.999 * budget.epsilon <= spent <= budget.epsilon


@pytest.mark.parametrize(
    ("kind", "accountant"),
    [
        ("laplace", "pure"),
        ("laplace", "best"),
        ("scaled group", "best"),
        ("renyi", "rdp"),
        ("zcdp", "zcdp"),
    ],
)
def test_other_releases_reach_it_too(kind: str, accountant: str) -> None:
    events = {
        "laplace": lambda s: laplace_event(radius=1, noise=s, relation="add-remove", count=9),
        "scaled group": lambda s: compose(
            gaussian_event(radius=1, noise=2 * s, relation="add-remove", count=5),
            gaussian_event(
                radius=1, noise=s, relation="add-remove", sampling=Poisson(rate=0.1), count=50
            ),
        ),
        "renyi": gaussians("add-remove", 50, Poisson(rate=0.1)),
        "zcdp": gaussians("add-remove", 50),
    }
    event, budget = events[kind], Budget(1.5, 1e-6)
    noise = calibrate(event, budget, relation="add-remove", accountant=accountant)
    spent = epsilon_of(
        event(noise), delta=budget.delta, relation="add-remove", accountant=accountant
    )
    assert 0.999 * budget.epsilon <= spent <= budget.epsilon


def test_pure_noise_at_delta_0() -> None:
    noise = calibrate(
        lambda s: laplace_event(radius=1, noise=s, relation="replace-one", count=3),
        Budget(2.0, 0.0),
        relation="replace-one",
    )
    assert noise == pytest.approx(3.0, rel=1e-8)
    assert noise >= 3.0


@pytest.mark.parametrize("start", [1e-6, 1e6])
def test_the_start_does_not_matter(start: float) -> None:
    event, budget = gaussians("add-remove", 200, Poisson(rate=0.05)), Budget(2.0, 1e-5)
    usual = calibrate(event, budget, relation="add-remove")
    noise = calibrate(event, budget, relation="add-remove", start=start)
    assert noise == pytest.approx(usual, rel=5e-4)
    library = privacy_loss_distribution.from_gaussian_mechanism(
        noise, sampling_prob=0.05, value_discretization_interval=1e-4
    ).self_compose(200)
    assert library.get_epsilon_for_delta(1e-5) == pytest.approx(2.0, rel=1e-3)


# Noise on the mean of a batch of 100, in units of C: tables 1.4 and 1.5 of the specification.


@pytest.mark.parametrize(
    ("records", "steps", "epsilon", "sigma"),
    [
        (22605, 22600, 1.0, 0.05043),
        (22605, 22600, 5.024, 0.01875),
        (22605, 22600, 8.0, 0.01541),
        (1500, 1500, 8.0, 0.03543),
        (1500, 15000, 8.0, 0.09612),
        (1500, 3000, 8.0, 0.04707),
        (1500, 3000, 2.0, 0.13412),
    ],
)
def test_fixed_size_noise_of_the_specification(
    records: int, steps: int, epsilon: float, sigma: float
) -> None:
    event = gaussians("replace-one", steps, FixedSize(sample=100, population=records), 1 / 100)
    noise = calibrate(event, Budget(epsilon, 1e-4), relation="replace-one", start=0.05)
    assert noise == pytest.approx(sigma, rel=1.1e-3)


@pytest.mark.parametrize(
    ("records", "steps", "epsilon", "sigma"),
    [
        (22605, 22600, 1.0, 0.02239),
        (22605, 22600, 8.0, 0.00690),
        (1500, 1500, 8.0, 0.01577),
        (1500, 15000, 8.0, 0.04496),
    ],
)
def test_poisson_noise_of_the_specification(
    records: int, steps: int, epsilon: float, sigma: float
) -> None:
    event = gaussians("add-remove", steps, Poisson(rate=100 / records), 1 / 100)
    noise = calibrate(event, Budget(epsilon, 1e-4), relation="add-remove", start=0.02)
    assert noise == pytest.approx(sigma, rel=1.5e-3)


@pytest.mark.parametrize(("rounds", "sigma"), [(100, 0.1086), (1000, 0.3435)])
def test_shuffled_epochs_of_the_specification(rounds: int, sigma: float) -> None:
    event = gaussians("replace-one", 15 * rounds, ShuffledEpochs(batches=15), 1 / 100)
    noise = calibrate(event, Budget(8.0, 1e-4), relation="replace-one")
    assert noise == pytest.approx(sigma, rel=1e-3)


def adaptdp_parts() -> dict[str, Part]:
    return {
        "radius": Part(
            lambda noise: gaussian_event(
                radius=1 / 1500, noise=noise, relation="replace-one", count=150, shape="interval"
            ),
            share=0.1,
        ),
        "gradient": Part(
            gaussians("replace-one", 3000, FixedSize(sample=100, population=1500), 1 / 100)
        ),
    }


@pytest.mark.parametrize(
    ("epsilon", "gradient", "radius"), [(8.0, 0.04919, 0.01402), (2.0, 0.14104, 0.04478)]
)
def test_a_tenth_of_the_budget_for_a_scalar(epsilon: float, gradient: float, radius: float) -> None:
    parts, budget = adaptdp_parts(), Budget(epsilon, 1e-4)
    noises = calibrate_split(parts, budget, relation="replace-one")
    assert list(noises) == ["radius", "gradient"]
    assert noises["gradient"] == pytest.approx(gradient, rel=1.5e-3)
    assert noises["radius"] == pytest.approx(radius, rel=1e-3)
    both = compose(*(parts[name].event(noise) for name, noise in noises.items()))
    spent = epsilon_of(both, delta=1e-4, relation="replace-one")
    assert 0.999 * epsilon <= spent <= epsilon


@pytest.mark.parametrize("shares", [(0.1, 0.2), (None, None), (1.0, None), (0.0, None)])
def test_an_impossible_split_is_refused(shares: tuple[float | None, float | None]) -> None:
    parts = {
        str(n): Part(gaussians("add-remove", 1), share=share) for n, share in enumerate(shares)
    }
    with pytest.raises(TacitError, match="share"):
        calibrate_split(parts, Budget(1.0, 1e-5), relation="add-remove")


def small_parts() -> dict[str, object]:
    return {
        "gaussian": gaussians("add-remove", 10),
        "sampled": gaussians("add-remove", 100, Poisson(rate=0.02)),
        "pure": lambda noise: pure_event(6 / noise, count=5),
    }


@pytest.mark.parametrize("first", ["gaussian", "sampled", "pure"])
@pytest.mark.parametrize("rest", ["gaussian", "sampled", "pure"])
@pytest.mark.parametrize(
    ("epsilon", "delta", "share"),
    [(4.0, 1e-2, 1e-4), (0.05, 1e-4, 1e-4), (0.1, 1e-3, 1e-3), (0.1, 1e-3, 1e-9)],
)
def test_a_share_whose_epsilon_is_0_at_this_delta(
    epsilon: float, delta: float, share: float, first: str, rest: str
) -> None:
    mu = gdp_mu(epsilon, delta)
    assert gdp_eps(mu * math.sqrt(share), delta) == 0
    events = small_parts()
    parts = {"first": Part(events[first], share), "rest": Part(events[rest])}
    noises = calibrate_split(parts, Budget(epsilon, delta), relation="add-remove")
    both = compose(*(parts[name].event(noise) for name, noise in noises.items()))
    spent = epsilon_of(both, delta=delta, relation="add-remove")
    assert 0.999 * epsilon <= spent <= epsilon
    if first == "gaussian":
        assert noises["first"] == pytest.approx(math.sqrt(10) / mu / math.sqrt(share), rel=1e-10)


@pytest.mark.parametrize("share", [1e-4, 0.05])
def test_several_small_shares_keep_the_budget_together(share: float) -> None:
    events, budget = small_parts(), Budget(0.05, 1e-4)
    parts = {name: Part(event, share) for name, event in events.items()}
    parts["rest"] = Part(gaussians("add-remove", 3))
    noises = calibrate_split(parts, budget, relation="add-remove")
    whole = compose(*(parts[name].event(noise) for name, noise in noises.items()))
    spent = epsilon_of(whole, delta=budget.delta, relation="add-remove")
    assert 0.999 * budget.epsilon <= spent <= budget.epsilon


@settings(max_examples=60)
@given(
    epsilon=st.floats(-3, 1.5).map(lambda x: 10**x),
    delta=st.floats(-12, -0.1).map(lambda x: 10**x),
    share=st.floats(-300, -0.01).map(lambda x: 10**x),
)
def test_a_plain_gaussian_gets_its_share_of_mu(epsilon: float, delta: float, share: float) -> None:
    event = gaussians("replace-one", 1)
    parts = {"first": Part(event, share), "rest": Part(event)}
    noises = calibrate_split(parts, Budget(epsilon, delta), relation="replace-one")
    exact = 2 / (gdp_mu(epsilon, delta) * math.sqrt(share))
    assert noises["first"] == pytest.approx(exact, rel=1e-8)
    whole = compose(*(event(noise) for noise in noises.values()))
    spent = epsilon_of(whole, delta=delta, relation="replace-one")
    assert 0.999 * epsilon <= spent <= epsilon


# What cannot be.


def test_an_impossible_budget_is_refused_with_the_smallest_epsilon() -> None:
    def event(noise: float) -> dp_event.DpEvent:
        fixed = pure_event(0.5, count=4)
        return compose(fixed, gaussian_event(radius=1, noise=noise, relation="add-remove", count=3))

    with pytest.raises(BudgetError, match="not possible here with any noise") as refusal:
        calibrate(event, Budget(1.0, 1e-5), relation="add-remove")
    least = float(str(refusal.value).removesuffix(".").split()[-1])
    alone = epsilon_of(pure_event(0.5, count=4), delta=1e-5, relation="add-remove")
    assert alone <= least <= alone * (1 + 1e-3)
    assert calibrate(event, Budget(3.0, 1e-5), relation="add-remove") > 0


def test_the_floor_of_the_general_bound_is_an_impossible_budget() -> None:
    event = gaussians("replace-one", 15_000, FixedSize(sample=100, population=1500))
    with pytest.raises(BudgetError, match="smallest possible epsilon is"):
        calibrate(event, Budget(1.0, 1e-4), relation="replace-one", accountant="wang")


@pytest.mark.parametrize("sampling", [Everyone(), Poisson(rate=0.1)])
def test_gaussian_noise_at_delta_0_is_refused(sampling: SamplingScheme) -> None:
    event = gaussians("add-remove", 3, sampling)
    with pytest.raises(TacitError, match="delta"):
        calibrate(event, Budget(1.0, 0.0), relation="add-remove")


def test_a_release_that_needs_no_noise() -> None:
    nothing = calibrate(lambda _: dp_event.NoOpDpEvent(), Budget(1.0, 1e-5), relation="add-remove")
    assert nothing == 0
    rare = gaussians("add-remove", 1, Poisson(rate=1e-7))
    noise = calibrate(rare, Budget(1.0, 1e-5), relation="add-remove")
    assert 0 < noise < 1e-5
