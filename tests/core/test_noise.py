"""Mechanisms: the noise has the scale that is charged, and no two draws have anything in common."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import dp_event
from scipy import stats

from tacit.accounting import Everyone, FixedSize, Poisson
from tacit.accounting.guarantee import Relation, Unit
from tacit.algorithm import Phase
from tacit.algorithms import DPFedAvg, RecordDPFedAvg
from tacit.boundary import enter_server, leave_client
from tacit.bounds import Clip, ClipScalar
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian, Laplace, Mechanism, NoNoise
from tacit.population import Population
from tacit.release import At, Release
from tacit.sampling import FixedBatch
from tacit.streams import Stream

DRAWS = 20_000
pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(5)
RADIUS = 0.7


def drawn(mechanism: Mechanism, round_: int = 0, dtype: str = "float32") -> np.ndarray:
    """Noise on a scalar zero, from independent keys."""
    keys = jax.random.split(KEY, DRAWS)
    zero = jnp.zeros((), dtype)
    one = jax.jit(jax.vmap(lambda key: mechanism.noised(key, zero, RADIUS, round_)))
    return np.asarray(one(keys), np.float64)


def p_value(sample: np.ndarray, law: Any) -> float:
    return float(stats.kstest(sample, law.cdf).pvalue)


@pytest.mark.parametrize(
    ("mechanism", "law"),
    [(Gaussian(1.5), stats.norm), (Laplace(1.5), stats.laplace)],
    ids=["gaussian", "laplace"],
)
def test_the_scale_is_right_and_no_other(mechanism: Mechanism, law: Any) -> None:
    sample, scale = drawn(mechanism), 1.5 * RADIUS
    assert p_value(sample, law(scale=scale)) > 0.01
    assert p_value(sample, law(scale=scale * 2 / 3)) < 1e-6
    assert p_value(sample, law(scale=scale * 3 / 2)) < 1e-6


@pytest.mark.parametrize("kind", [Gaussian, Laplace])
def test_a_schedule_gives_every_round_its_own_scale(kind: type) -> None:
    law = stats.norm if kind is Gaussian else stats.laplace
    schedule = kind((2.0, 0.5, 1.0))
    for round_, level in enumerate(schedule.noise):
        assert p_value(drawn(schedule, round_), law(scale=level * RADIUS)) > 0.01
        event = schedule.event(
            round_, relation="add-remove", shape="ball", sampling=Everyone(), count=1
        )
        assert event.noise_multiplier == level
    with pytest.raises(TacitError, match="planned for 3 rounds"):
        schedule.event(3, relation="add-remove", shape="ball", sampling=Everyone(), count=1)


def test_a_schedule_follows_the_round_inside_a_compiled_program() -> None:
    schedule, zeros = Gaussian((2.0, 0.5)), jnp.zeros(2000)
    work = jax.jit(lambda r: schedule.noised(KEY, zeros, 1.0, r))
    first, second = (np.asarray(work(jnp.asarray(r))) for r in (0, 1))
    np.testing.assert_allclose(first, 4 * second, rtol=1e-6)


def test_noise_is_added_to_the_value_and_scales_with_the_radius() -> None:
    value = {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(())}
    zero = jax.tree.map(jnp.zeros_like, value)
    noise = Gaussian(0.5).noised(KEY, zero, 1.0, 0)
    noisy = Gaussian(0.5).noised(KEY, value, 2.0, 0)
    for name, leaf in value.items():
        np.testing.assert_allclose(noisy[name], leaf + 2 * noise[name], rtol=1e-6)


def test_price_and_noise_come_from_the_same_field() -> None:
    for mechanism in (Gaussian(1.5), Laplace(1.5)):
        charged = {
            relation: mechanism.event(
                0, relation=relation, shape=shape, sampling=Everyone(), count=1
            ).noise_multiplier
            for relation, shape in (("add-remove", "ball"), ("replace-one", "ball"))
        }
        assert charged == {"add-remove": 1.5, "replace-one": 0.75}
        interval = mechanism.event(
            0, relation="replace-one", shape="interval", sampling=Everyone(), count=1
        )
        assert interval.noise_multiplier == 1.5
        assert mechanism.scaled(2.0).noise == 3.0
    event = Gaussian(1.5).event(
        0, relation="add-remove", shape="ball", sampling=Poisson(rate=0.1), count=3
    )
    assert event == dp_event.SelfComposedDpEvent(
        dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.5)), 3
    )


def test_no_noise_is_charged_as_no_privacy() -> None:
    event = NoNoise().event(0, relation="add-remove", shape="ball", sampling=Everyone(), count=2)
    assert event == dp_event.SelfComposedDpEvent(dp_event.NonPrivateDpEvent(), 2)
    assert NoNoise().noised(KEY, jnp.ones(3), 1.0, 0).tolist() == [1, 1, 1]
    silent = Gaussian(0.0).event(
        0, relation="add-remove", shape="ball", sampling=Everyone(), count=1
    )
    assert silent == dp_event.NonPrivateDpEvent()


def test_laplace_is_for_a_single_number() -> None:
    assert Laplace(1.0).noised(KEY, {"s": jnp.zeros((1, 1))}, 1.0, 0)["s"].shape == (1, 1)
    for value in (jnp.zeros(2), {"a": jnp.zeros(()), "b": jnp.zeros(())}):
        with pytest.raises(TacitError, match="single number"):
            Laplace(1.0).noised(KEY, value, 1.0, 0)


@pytest.mark.parametrize("noise", [-1.0, np.inf, np.nan, (), (1.0, -0.1)])
@pytest.mark.parametrize("kind", [Gaussian, Laplace])
def test_impossible_noise_is_refused(kind: type, noise: Any) -> None:
    with pytest.raises(TacitError, match="noise"):
        kind(noise)


def uncorrelated(*samples: np.ndarray) -> bool:
    """No pair of long samples is correlated, beyond five standard errors."""
    return all(
        abs(np.corrcoef(np.ravel(a), np.ravel(b))[0, 1]) < 5 / np.sqrt(a.size)
        for a, b in itertools.combinations(samples, 2)
    )


def test_leaves_have_independent_noise() -> None:
    zeros = {"a": jnp.zeros(4000), "b": jnp.zeros((40, 100)), "c": jnp.zeros(4000)}
    noisy = Gaussian(1.0).noised(KEY, zeros, 1.0, 0)
    assert uncorrelated(*(np.asarray(v) for v in noisy.values()))
    a = np.asarray(noisy["a"])
    assert uncorrelated(a[:-1], a[1:])


def test_rounds_phases_clients_and_places_have_independent_noise() -> None:
    stream, zeros = Stream.seeded(0), jnp.zeros(4000)
    keys = [
        stream.init,
        *(stream.cohort(r) for r in range(2)),
        *(stream.server(r, p) for r in range(2) for p in range(2)),
        *itertools.chain(
            *(stream.client(r, p, c) for r in range(2) for p in range(2) for c in range(3))
        ),
    ]
    data = {tuple(np.ravel(jax.random.key_data(key)).tolist()) for key in keys}
    assert len(data) == len(keys)
    noise = jax.jit(lambda key: Gaussian(1.0).noised(key, zeros, 1.0, 0))
    assert uncorrelated(*(np.asarray(noise(key)) for key in keys))


def test_a_stream_from_entropy_never_repeats() -> None:
    for x64 in (False, True):
        with jax.enable_x64(x64):
            roots = [jax.random.key_data(Stream.from_entropy().root) for _ in range(8)]
        assert len({tuple(np.ravel(root).tolist()) for root in roots}) == 8


def test_fields_of_a_message_and_of_an_aggregate_have_independent_noise() -> None:
    zeros = jnp.zeros(4000)
    for at in ("message", "aggregate"):
        release = Release(bound=Clip(1.0), mechanism=Gaussian(1.0), at=at)
        phase = Phase(
            name="p",
            client=lambda *a: ({}, ()),
            server=lambda s, m: s,
            releases={"x": release, "y": release},
        )
        released, _ = leave_client(phase, KEY, {"x": zeros, "y": zeros}, 0)
        if at == "aggregate":
            assert not released["x"].any()
            released = enter_server(phase, KEY, released, 0, 1.0, Population((1,)))
        assert np.std(released["x"]) == pytest.approx(1, abs=0.05)
        assert uncorrelated(*(np.asarray(v) for v in released.values()))


def test_an_aggregate_is_noised_once_and_divided_by_the_expected_cohort() -> None:
    release = Release(bound=Clip(0.5), mechanism=Gaussian(3.0), at="aggregate")
    phase = Phase(
        name="p", client=lambda *a: ({}, ()), server=lambda s, m: s, releases={"x": release}
    )
    total = jnp.full(DRAWS, 8.0)
    mean = np.asarray(
        enter_server(phase, KEY, {"x": total}, 0, 4.0, Population((1,)))["x"], np.float64
    )
    law = stats.norm(loc=2.0, scale=3.0 * 0.5 / 4)
    assert p_value(mean, law) > 0.01


def test_a_calibrated_method_draws_its_own_noise() -> None:
    """The releases of methods hold the level that calibration sets, once."""
    for algorithm in (DPFedAvg(noise=1.0), RecordDPFedAvg(noise=1.0)):
        louder = algorithm.with_noise(2.5)
        assert louder.release.mechanism == Gaussian(2.5)
        assert dataclasses.replace(louder, noise=1.0) == algorithm
        assert algorithm.with_noise(0.0).release.mechanism == NoNoise()


def test_a_release_knows_its_place() -> None:
    common = {"bound": ClipScalar(1.0), "mechanism": NoNoise()}
    with pytest.raises(TacitError, match="step, message, shares, aggregate"):
        Release(**common, at="somewhere")
    with pytest.raises(TacitError, match="at least once"):
        Release(**common, at="step", times=0)
    with pytest.raises(TacitError, match="only a release at a step"):
        Release(**common, at="message", times=2)
    with pytest.raises(TacitError, match="protect records at a step"):
        Release(**common, at="message", unit="record")
    with pytest.raises(TacitError, match="requires a full batch"):
        Release(**common, at="aggregate", unit="record", batch=FixedBatch(3))


@pytest.mark.parametrize(
    ("at", "unit", "relation", "sampled"),
    [
        ("aggregate", "client", "zero-out", True),
        ("aggregate", "client", "replace-one", True),
        ("aggregate", "record", "zero-out", False),  # its siblings give its client away
        ("message", "client", "replace-one", False),
    ],
)
def test_a_cohort_amplifies_aggregates_of_clients_only(
    at: At, unit: Unit, relation: Relation, sampled: bool
) -> None:
    release = Release(bound=Clip(1.0), mechanism=Gaussian(1.0), at=at, unit=unit)
    event = release.event(0, relation=relation, cohort=Poisson(rate=0.1), records=5)
    assert isinstance(event, dp_event.PoissonSampledDpEvent) == sampled


def test_a_cohort_of_fixed_size_amplifies_nothing() -> None:
    """The other clients know when they were asked, and so when the last one was not."""
    release = Release(bound=Clip(1.0), mechanism=Gaussian(1.0), at="aggregate")
    cohort = FixedSize(sample=10, population=100)
    for relation in ("zero-out", "replace-one"):
        event = release.event(0, relation=relation, cohort=cohort, records=5)
        assert isinstance(event, dp_event.GaussianDpEvent)


def test_a_message_is_protected_under_replace_one_only() -> None:
    release = Release(bound=Clip(1.0), mechanism=Gaussian(1.0), at="message")
    with pytest.raises(TacitError, match="use the relation replace-one"):
        release.event(0, relation="zero-out", cohort=Everyone(), records=5)


@pytest.mark.parametrize("at", ["step", "message", "aggregate"])
def test_no_release_of_a_run_hides_that_a_unit_is_added(at: At) -> None:
    release = Release(bound=Clip(1.0), mechanism=Gaussian(1.0), at=at)
    with pytest.raises(TacitError, match="use the relation zero-out"):
        release.event(0, relation="add-remove", cohort=Everyone(), records=5)
