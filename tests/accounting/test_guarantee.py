"""A guarantee is a whole sentence, and what it prints holds as printed."""

import math
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import (
    Budget,
    Guarantee,
    Poisson,
    epsilon_of,
    gaussian_event,
    guarantee,
    rounded_up,
)
from tacit.accounting.guarantee import SERVER_TRUSTED
from tacit.errors import TacitError


def sure(**changes: object) -> Guarantee:
    fields = {
        "unit": "client",
        "relation": "replace-one",
        "observer": "the server",
        "epsilon": 1.23451,
        "delta": 1e-5,
        "accountant": "pld",
    }
    return Guarantee(**{**fields, **changes})


def test_the_sentence_says_everything() -> None:
    said = sure().sentence()
    for part in (
        "whole run",
        "every client",
        "the server",
        "epsilon = 1.2346 ",
        "delta = 1e-05",
        "replacing all the data of one client",
        "privacy loss distributions",
    ):
        assert part in said


@pytest.mark.parametrize(
    ("unit", "relation", "words"),
    [
        ("client", "add-remove", "adding or removing one client"),
        ("record", "add-remove", "adding or removing one record"),
        ("record", "replace-one", "replacing one record"),
        ("client", "zero-out", "replacing the contribution of one client by nothing"),
        ("record", "zero-out", "replacing the contribution of one record by nothing"),
    ],
)
def test_unit_and_relation_are_named(unit: str, relation: str, words: str) -> None:
    assert words in sure(unit=unit, relation=relation).sentence()


def test_delta_is_rounded_up_too() -> None:
    assert "delta = 1.2346e-05" in sure(delta=1.23451e-5).sentence()


def test_an_infinite_epsilon_is_no_privacy() -> None:
    said = sure(epsilon=math.inf).sentence()
    assert "no privacy is guaranteed" in said
    assert "epsilon =" not in said


def test_an_infinite_epsilon_at_delta_0_blames_delta() -> None:
    event = gaussian_event(radius=1, noise=1, relation="add-remove")
    said = guarantee(event, delta=0.0, unit="client", relation="add-remove", observer="all")
    assert said.epsilon == math.inf
    assert "delta = 0" in said.sentence()


def test_it_is_frozen_and_says_all_its_fields() -> None:
    with pytest.raises(FrozenInstanceError):
        sure().epsilon = 1.0  # type: ignore[misc]
    shown = sure().as_dict()
    assert shown["sentence"] == sure().sentence()
    assert set(shown) == {
        "unit",
        "relation",
        "observer",
        "epsilon",
        "delta",
        "accountant",
        "sampled",
        "public_sizes",
        "noise_from",
        "uncharged",
        "sentence",
        "short",
        "meaning",
        "attack",
    }


def test_what_a_number_rests_on_is_in_the_sentence() -> None:
    said = sure(
        sampled=True, public_sizes=True, noise_from="system", uncharged=("a choice",)
    ).sentence()
    assert "Secret: who takes part in a round" in said
    assert "Public: how many clients" in said
    assert "Noise: from the operating system." in said
    assert "Not counted: a choice." in said
    records = sure(unit="record", sampled=True).sentence()
    assert "Secret: which records a step uses" in records
    assert not any(word in sure().sentence() for word in ("Secret", "Public", "Noise", "counted"))


def test_a_simulation_says_first_that_it_protects_nobody() -> None:
    said = sure(noise_from="seed").sentence()
    assert said.startswith("This is a simulation: its noise comes from a seed and protects nobody.")
    assert "over the whole run, every client" in said
    assert sure(noise_from="seed").short().endswith("simulated")


def test_the_short_form_is_for_tables() -> None:
    said = sure(observer=SERVER_TRUSTED, sampled=True).short()
    assert said == (
        "epsilon 1.2346 at delta 1e-05; client, replace-one; server trusted; secret sample"
    )
    assert sure(epsilon=math.inf).short() == "no privacy for a client"


def test_sampling_is_read_off_the_event() -> None:
    rule = {"delta": 1e-5, "unit": "client", "relation": "zero-out", "observer": "the public"}
    for rate, sampled in ((0.1, True), (1.0, False)):
        event = gaussian_event(
            radius=1, noise=1, relation="zero-out", sampling=Poisson(rate=rate), count=3
        )
        assert guarantee(event, **rule).sampled == sampled


def test_zero_out_costs_what_adding_or_removing_does() -> None:
    for sampling in (None, Poisson(rate=0.2)):
        spent = [
            epsilon_of(
                gaussian_event(radius=1, noise=2, relation=relation, sampling=sampling, count=9),
                delta=1e-5,
                relation=relation,
            )
            for relation in ("zero-out", "add-remove")
        ]
        assert spent[0] == spent[1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"unit": "person"},
        {"relation": "swap"},
        {"delta": 1.0},
        {"delta": -1e-9},
        {"delta": math.nan},
        {"epsilon": math.nan},
        {"epsilon": -0.1},
        {"accountant": "guess"},
    ],
)
def test_an_impossible_guarantee_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(TacitError):
        sure(**wrong)


@pytest.mark.parametrize("budget", [(0.0, 1e-5), (-1.0, 1e-5), (math.inf, 1e-5), (1.0, 1.0)])
def test_an_impossible_budget_is_refused(budget: tuple[float, float]) -> None:
    with pytest.raises(TacitError):
        Budget(*budget)


@given(
    value=st.floats(0, 1e300, allow_subnormal=False),
    digits=st.integers(1, 12),
)
def test_a_number_is_never_rounded_down(value: float, digits: int) -> None:
    shown = float(rounded_up(value, digits))
    assert shown >= value
    assert shown <= value * (1 + 1.0001 * 10.0 ** (1 - digits))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (8.0, "8"),
        (0.1, "0.1"),
        (1.2345, "1.2345"),
        (1.23450000001, "1.2346"),
        (9.999991, "10"),
        (123456.0, "1.2346e+05"),
        (math.inf, "inf"),
    ],
)
def test_what_is_shown(value: float, shown: str) -> None:
    assert rounded_up(value) == shown
