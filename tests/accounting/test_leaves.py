"""An event taken apart: nothing is lost, nothing strange is believed."""

import math
from time import perf_counter

import pytest
from dp_accounting import dp_event
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import PureDpEvent, epsilon_of, gdp_eps
from tacit.accounting.leaves import Leaf, leaves
from tacit.errors import TacitError

GAUSSIAN = dp_event.GaussianDpEvent(2.0)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8))
def test_a_schedule_of_gaussians_is_one_gaussian(noises: list[float]) -> None:
    event = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(n) for n in noises])
    (leaf,) = leaves(event, "add-remove")
    assert leaf.size == pytest.approx(math.sqrt(sum(n**-2 for n in noises)), rel=1e-12)
    assert leaf.count == 1


def test_counts_multiply_and_equal_mechanisms_are_counted_together() -> None:
    sampled = dp_event.PoissonSampledDpEvent(0.1, GAUSSIAN)
    twice = dp_event.SelfComposedDpEvent(dp_event.SelfComposedDpEvent(sampled, 3), 4)
    event = dp_event.ComposedDpEvent([twice, sampled, PureDpEvent(1.0)])
    assert set(leaves(event, "add-remove")) == {
        Leaf("gaussian", 0.5, "poisson", 0.1, 13),
        Leaf("pure", 1.0),
    }


def test_gaussians_on_one_sample_are_one_gaussian() -> None:
    both = dp_event.ComposedDpEvent([GAUSSIAN, dp_event.SelfComposedDpEvent(GAUSSIAN, 3)])
    (leaf,) = leaves(dp_event.PoissonSampledDpEvent(0.1, both), "add-remove")
    assert leaf == Leaf("gaussian", 1.0, "poisson", 0.1)


def test_rates_at_the_ends() -> None:
    assert leaves(dp_event.PoissonSampledDpEvent(1.0, GAUSSIAN), "add-remove") == (
        Leaf("gaussian", 0.5),
    )
    assert leaves(dp_event.PoissonSampledDpEvent(0.0, GAUSSIAN), "add-remove") == ()
    whole = dp_event.SampledWithoutReplacementDpEvent(5, 5, GAUSSIAN)
    assert leaves(whole, "replace-one") == (Leaf("gaussian", 0.5),)


def test_nothing_and_no_noise() -> None:
    silent = dp_event.GaussianDpEvent(math.inf)
    assert leaves(dp_event.NoOpDpEvent(), "add-remove") == ()
    assert leaves(dp_event.SelfComposedDpEvent(dp_event.NonPrivateDpEvent(), 0), "add-remove") == ()
    assert leaves(dp_event.PoissonSampledDpEvent(0.1, silent), "add-remove") == ()
    (leaf,) = leaves(dp_event.GaussianDpEvent(0.0), "add-remove")
    assert leaf.kind == "none"


@pytest.mark.parametrize(
    "event",
    [
        dp_event.GaussianDpEvent(math.nan),
        dp_event.GaussianDpEvent(-1.0),
        dp_event.LaplaceDpEvent(math.nan),
        PureDpEvent(math.nan),
        PureDpEvent(-1.0),
        dp_event.PoissonSampledDpEvent(math.nan, GAUSSIAN),
        dp_event.PoissonSampledDpEvent(-0.5, GAUSSIAN),
        dp_event.SelfComposedDpEvent(GAUSSIAN, -3),
        dp_event.SelfComposedDpEvent(GAUSSIAN, 2.5),
        dp_event.ComposedDpEvent([GAUSSIAN, dp_event.SelfComposedDpEvent(GAUSSIAN, -1)]),
        dp_event.PoissonSampledDpEvent(0.1, dp_event.PoissonSampledDpEvent(0.1, GAUSSIAN)),
        dp_event.PoissonSampledDpEvent(0.1, dp_event.ComposedDpEvent([GAUSSIAN, PureDpEvent(1.0)])),
        dp_event.PoissonSampledDpEvent(0.1, dp_event.SelfComposedDpEvent(PureDpEvent(1.0), 2)),
        dp_event.SampledWithoutReplacementDpEvent(10, 1, GAUSSIAN),
        dp_event.UnsupportedDpEvent(),
    ],
    ids=str,
)
def test_what_is_not_understood_is_refused_and_never_guessed(event: dp_event.DpEvent) -> None:
    with pytest.raises(TacitError):
        epsilon_of(event, delta=1e-5, relation="add-remove")


@pytest.mark.parametrize("multiplier", [1e-90, 1e-200, 5e-324])
def test_almost_no_noise_does_not_overflow(multiplier: float) -> None:
    plain = dp_event.GaussianDpEvent(multiplier)
    for event in (plain, dp_event.PoissonSampledDpEvent(0.1, plain)):
        assert epsilon_of(event, delta=1e-5, relation="add-remove") > 1e100


def test_almost_all_noise_does_not_vanish() -> None:
    event = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1e200), 10**6)
    (leaf,) = leaves(event, "add-remove")
    assert leaf.size == pytest.approx(1e-197)


def test_ten_thousand_different_noises_are_quick_and_exact() -> None:
    noises = [100 + 0.01 * n for n in range(10_000)]
    event = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(n) for n in noises])
    start = perf_counter()
    found = epsilon_of(event, delta=1e-5, relation="add-remove")
    assert perf_counter() - start < 5
    mu = math.sqrt(math.fsum(n**-2 for n in noises))
    assert found == pytest.approx(gdp_eps(mu, 1e-5), rel=1e-9)
