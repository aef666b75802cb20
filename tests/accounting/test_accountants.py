"""The accountants by name: the default is the tightest, and every one is an upper bound."""

import math

import pytest
from dp_accounting import dp_event

from tacit.accounting import (
    FixedSize,
    Poisson,
    ShuffledEpochs,
    compose,
    epsilon_of,
    every_epsilon,
    gaussian_event,
    gdp_eps,
    guarantee,
    laplace_event,
    pure_event,
    tightest,
)
from tacit.accounting.accountants import NAMES
from tacit.errors import TacitError

PLAIN = gaussian_event(radius=1, noise=3, relation="replace-one", count=10)
FIXED = gaussian_event(
    radius=1,
    noise=3,
    relation="replace-one",
    sampling=FixedSize(sample=10, population=100),
    count=30,
)
POISSON = gaussian_event(
    radius=1, noise=2, relation="add-remove", sampling=Poisson(rate=0.1), count=30
)
PURE = pure_event(0.2, count=5)


def test_the_default_is_exact_when_it_can_be() -> None:
    assert tightest(PLAIN, "replace-one") == "exact"
    assert tightest(FIXED, "replace-one") == "pld"
    assert tightest(compose(PLAIN, PURE), "replace-one") == "pld"
    exact = gdp_eps(2 / 3 * math.sqrt(10), 1e-5)
    assert epsilon_of(PLAIN, delta=1e-5, relation="replace-one") == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(
    ("event", "relation", "offered"),
    [
        (PLAIN, "replace-one", {"exact", "pld", "rdp", "rdp-mironov", "wang", "zcdp"}),
        (FIXED, "replace-one", {"pld", "rdp", "rdp-mironov", "wang", "wang-mironov"}),
        (POISSON, "add-remove", {"pld", "rdp", "rdp-mironov"}),
        (PURE, "replace-one", {"pld", "pure", "rdp", "zcdp"}),
    ],
)
def test_best_is_the_smallest_of_all(
    event: dp_event.DpEvent, relation: str, offered: set[str]
) -> None:
    everything = every_epsilon(event, delta=1e-5, relation=relation)
    assert offered <= set(everything) <= set(NAMES)
    assert list(everything.values()) == sorted(everything.values())
    best = epsilon_of(event, delta=1e-5, relation=relation)
    assert best <= min(everything.values()) * (1 + 1e-4)


def test_every_accountant_states_a_whole_guarantee() -> None:
    for name in every_epsilon(FIXED, delta=1e-5, relation="replace-one"):
        said = guarantee(
            FIXED,
            delta=1e-5,
            unit="record",
            relation="replace-one",
            observer="the server",
            accountant=name,
        )
        assert said.accountant == name
        assert "whole run" in said.sentence()


def test_best_is_named_in_the_guarantee() -> None:
    said = guarantee(PLAIN, delta=1e-5, unit="client", relation="replace-one", observer="all")
    assert said.accountant == "exact"
    assert "exact Gaussian profile" in said.sentence()


def test_shuffled_epochs_are_one_gaussian_each() -> None:
    shuffled = gaussian_event(
        radius=1,
        noise=3,
        relation="replace-one",
        sampling=ShuffledEpochs(batches=15),
        count=15 * 100,
    )
    exact = gdp_eps(2 / 3 * math.sqrt(100), 1e-5)
    assert epsilon_of(shuffled, delta=1e-5, relation="replace-one") == pytest.approx(exact)


def test_the_same_event_under_another_relation_is_not_the_same_number() -> None:
    sampled = dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.0))
    event = dp_event.SelfComposedDpEvent(sampled, 100)
    removed = epsilon_of(event, delta=1e-5, relation="add-remove")
    replaced = epsilon_of(event, delta=1e-5, relation="replace-one")
    assert replaced > removed * 1.05


@pytest.mark.parametrize("accountant", NAMES)
def test_nothing_costs_nothing(accountant: str) -> None:
    nothing = dp_event.NoOpDpEvent()
    for delta in (0.0, 1e-5):
        assert epsilon_of(nothing, delta=delta, relation="add-remove", accountant=accountant) == 0


@pytest.mark.parametrize("accountant", NAMES)
def test_a_release_without_noise_is_infinite(accountant: str) -> None:
    bare = compose(PURE, gaussian_event(radius=1, noise=0, relation="add-remove"))
    for delta in (0.0, 1e-5):
        assert (
            epsilon_of(bare, delta=delta, relation="add-remove", accountant=accountant) == math.inf
        )


def test_delta_0_adds_up_pure_mechanisms_and_refuses_nothing() -> None:
    laplace = laplace_event(radius=1, noise=2, relation="add-remove", count=3)
    assert epsilon_of(compose(PURE, laplace), delta=0.0, relation="add-remove") == (
        pytest.approx(2.5)
    )
    assert epsilon_of(compose(PURE, PLAIN), delta=0.0, relation="add-remove") == math.inf


@pytest.mark.parametrize(
    ("event", "accountant", "sentence"),
    [
        (POISSON, "exact", "without sampling"),
        (PURE, "exact", "Gaussian noise"),
        (PLAIN, "pure", "not pure"),
        (POISSON, "zcdp", "amplification"),
        (PLAIN, "guess", "no accountant 'guess'"),
    ],
)
def test_an_accountant_that_cannot_is_refused(
    event: dp_event.DpEvent, accountant: str, sentence: str
) -> None:
    with pytest.raises(TacitError, match=sentence):
        epsilon_of(event, delta=1e-5, relation="add-remove", accountant=accountant)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
def test_an_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(TacitError, match="delta is"):
        epsilon_of(PLAIN, delta=delta, relation="replace-one")
    with pytest.raises(TacitError, match="delta is"):
        every_epsilon(PLAIN, delta=delta, relation="replace-one")


def test_a_full_mix_composes_in_one_run() -> None:
    parts = [
        PLAIN,
        FIXED,
        PURE,
        laplace_event(radius=1, noise=10, relation="replace-one", count=4),
    ]
    whole = epsilon_of(compose(*parts), delta=1e-5, relation="replace-one")
    each = [epsilon_of(part, delta=1e-5, relation="replace-one") for part in parts]
    split = [epsilon_of(part, delta=2.5e-6, relation="replace-one") for part in parts]
    assert max(each) < whole < sum(split)
    backwards = epsilon_of(compose(*parts[::-1]), delta=1e-5, relation="replace-one")
    assert backwards == pytest.approx(whole, rel=1e-9)
