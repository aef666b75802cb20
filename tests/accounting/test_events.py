"""Events know the sensitivity; leaves read them back."""

import math

import pytest
from dp_accounting import dp_event
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import (
    Everyone,
    FixedSize,
    Poisson,
    PureDpEvent,
    ShuffledEpochs,
    compose,
    epsilon_of,
    gaussian_event,
    laplace_event,
    pure_event,
    repeated,
    sensitivity,
)
from tacit.errors import TacitError


@pytest.mark.parametrize(
    ("relation", "shape", "moved"),
    [
        ("add-remove", "ball", 3.0),
        ("replace-one", "ball", 6.0),
        ("add-remove", "interval", 3.0),
        ("replace-one", "interval", 3.0),
    ],
)
def test_how_far_one_unit_moves_a_sum(relation: str, shape: str, moved: float) -> None:
    assert sensitivity(3.0, relation, shape) == moved


def test_an_unknown_shape_is_not_taken_for_the_smaller_one() -> None:
    with pytest.raises(TacitError, match="shape"):
        sensitivity(1.0, "replace-one", "vector")


@pytest.mark.parametrize("radius", [-1.0, math.nan, math.inf])
def test_an_impossible_radius_is_refused(radius: float) -> None:
    with pytest.raises(TacitError, match="radius"):
        sensitivity(radius, "add-remove")


@given(radius=st.floats(1e-6, 1e6), noise=st.floats(1e-6, 1e6))
def test_the_multiplier_is_noise_over_sensitivity(radius: float, noise: float) -> None:
    added = gaussian_event(radius=radius, noise=noise, relation="add-remove")
    replaced = gaussian_event(radius=radius, noise=noise, relation="replace-one")
    assert added.noise_multiplier == pytest.approx(noise / radius)
    assert replaced.noise_multiplier == pytest.approx(noise / (2 * radius))


def test_each_kind_of_sampling_has_its_event() -> None:
    poisson = gaussian_event(
        radius=1, noise=2, relation="add-remove", sampling=Poisson(rate=0.1), count=5
    )
    assert poisson == dp_event.SelfComposedDpEvent(
        dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(2.0)), 5
    )
    fixed = gaussian_event(
        radius=1, noise=2, relation="replace-one", sampling=FixedSize(sample=3, population=7)
    )
    assert fixed == dp_event.SampledWithoutReplacementDpEvent(7, 3, dp_event.GaussianDpEvent(1.0))
    plain = gaussian_event(radius=1, noise=2, relation="add-remove", sampling=Everyone())
    assert plain == dp_event.GaussianDpEvent(2.0)


@pytest.mark.parametrize("sampling", [Poisson(rate=1.0), FixedSize(sample=4, population=4)])
def test_sampling_everyone_is_no_sampling(sampling: Poisson | FixedSize) -> None:
    event = gaussian_event(radius=1, noise=2, relation="replace-one", sampling=sampling)
    assert event == dp_event.GaussianDpEvent(1.0)


@pytest.mark.parametrize(("count", "epochs"), [(1, 1), (10, 1), (11, 2), (30, 3)])
def test_a_unit_is_in_one_batch_of_a_shuffled_epoch(count: int, epochs: int) -> None:
    shuffled = gaussian_event(
        radius=1,
        noise=2,
        relation="replace-one",
        sampling=ShuffledEpochs(batches=10),
        count=count,
    )
    plain = gaussian_event(radius=1, noise=2, relation="replace-one", count=epochs)
    assert shuffled == plain


@pytest.mark.parametrize("sampling", [FixedSize(sample=1, population=2), ShuffledEpochs(batches=2)])
def test_a_public_size_has_no_add_remove_guarantee(sampling: FixedSize | ShuffledEpochs) -> None:
    with pytest.raises(TacitError, match="replace-one"):
        gaussian_event(radius=1, noise=1, relation="add-remove", sampling=sampling)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan])
def test_an_impossible_rate_is_refused(rate: float) -> None:
    with pytest.raises(TacitError, match="rate"):
        Poisson(rate=rate)
    with pytest.raises(TacitError, match="rate"):
        FixedSize.of_rate(rate)


@pytest.mark.parametrize(("sample", "population"), [(0, 5), (6, 5), (-1, 5)])
def test_an_impossible_sample_is_refused(sample: int, population: int) -> None:
    with pytest.raises(TacitError, match="not possible"):
        FixedSize(sample=sample, population=population)


@given(st.fractions(min_value="1/1000000", max_value=1))
def test_a_rate_finds_its_sizes(ratio: object) -> None:
    found = FixedSize.of_rate(float(ratio))
    assert found.sample / found.population == pytest.approx(float(ratio), rel=1e-9)


def test_a_rate_too_small_for_whole_sizes_is_refused() -> None:
    with pytest.raises(TacitError, match="too small"):
        FixedSize.of_rate(1e-12)


@pytest.mark.parametrize("count", [-1, 2.5, math.nan, math.inf])
def test_an_impossible_count_is_refused(count: float) -> None:
    with pytest.raises(TacitError, match="count"):
        gaussian_event(radius=1, noise=1, relation="add-remove", count=count)
    with pytest.raises(TacitError, match="count"):
        repeated(dp_event.GaussianDpEvent(1.0), count)


@pytest.mark.parametrize("noise", [-1.0, math.nan])
def test_an_impossible_noise_is_refused(noise: float) -> None:
    with pytest.raises(TacitError, match="noise"):
        gaussian_event(radius=1, noise=noise, relation="add-remove")
    with pytest.raises(TacitError, match="noise"):
        laplace_event(radius=1, noise=noise, relation="add-remove")


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf])
def test_an_impossible_pure_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(TacitError, match="pure epsilon"):
        pure_event(epsilon)


def test_no_noise_is_not_private_and_nothing_moved_is_free() -> None:
    assert gaussian_event(radius=1, noise=0, relation="add-remove") == (
        dp_event.NonPrivateDpEvent()
    )
    assert gaussian_event(radius=0, noise=0, relation="add-remove") == dp_event.NoOpDpEvent()
    assert gaussian_event(radius=1, noise=math.inf, relation="add-remove") == (
        dp_event.NoOpDpEvent()
    )


def test_composition_leaves_out_nothing_but_nothing() -> None:
    one = pure_event(1.0)
    assert compose() == dp_event.NoOpDpEvent()
    assert compose(one, repeated(one, 0)) == one
    assert epsilon_of(compose(one, one, one), delta=0.0, relation="add-remove") == 3.0


@pytest.mark.parametrize("relation", ["Replace-one", "add/remove", ""])
def test_an_unknown_relation_is_refused(relation: str) -> None:
    with pytest.raises(TacitError, match="relation"):
        epsilon_of(PureDpEvent(1.0), delta=1e-5, relation=relation)
