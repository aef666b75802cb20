"""Sampling: what is drawn has the law that is charged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tacit.accounting import Everyone, FixedSize, Poisson, ShuffledEpochs
from tacit.algorithm import ClientData
from tacit.errors import TacitError
from tacit.local import sum_over_chosen
from tacit.sampling import (
    Batch,
    Cohort,
    FixedBatch,
    FixedCohort,
    FullBatch,
    FullCohort,
    PoissonBatch,
    PoissonCohort,
    ShuffledBatches,
    _threshold,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(3)
ROUNDS = 4000
SIZE, CAPACITY = 7, 12
BATCHES = [FullBatch(), FixedBatch(3), PoissonBatch(3), ShuffledBatches(3)]


def cohorts(cohort: Cohort, clients: int) -> np.ndarray:
    keys = jax.random.split(KEY, ROUNDS)
    return np.asarray(jax.jit(jax.vmap(lambda key: cohort.mask(key, clients)))(keys))


@cache
def drawing(batch: Batch, capacity: int) -> Any:
    one = jax.vmap(lambda step, size: batch.chosen(KEY, step, size, capacity), (0, None))
    return jax.jit(one)


def chosen(
    batch: Batch, steps: int, size: int = SIZE, capacity: int = CAPACITY
) -> list[np.ndarray]:
    """The records of each step, in the order in which they are treated."""
    orders, counts = drawing(batch, capacity)(jnp.arange(steps), jnp.asarray(size))
    counts = np.broadcast_to(counts, (steps,))
    return [order[:count] for order, count in zip(np.asarray(orders), counts, strict=True)]


def masks(batch: Batch, steps: int) -> np.ndarray:
    """True where a step takes a record."""
    found = np.zeros((steps, SIZE), bool)
    for step, records in enumerate(chosen(batch, steps)):
        assert len(set(records.tolist())) == len(records)
        assert ((records >= 0) & (records < SIZE)).all()
        found[step, records] = True
    return found


def assert_rate(drawn: np.ndarray, rate: float) -> None:
    """Every unit is drawn as often as the rate says, as a chi-square test sees it."""
    trials = len(drawn)
    score = ((drawn.sum(axis=0) - trials * rate) ** 2 / (trials * rate * (1 - rate))).sum()
    assert stats.chi2(drawn.shape[1]).sf(score) > 1e-3


def assert_independent_over_time(drawn: np.ndarray) -> None:
    """Being drawn now says nothing about being drawn next."""
    now, then = drawn[:-1].ravel(), drawn[1:].ravel()
    table = np.histogram2d(now, then, bins=2)[0]
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_everyone_takes_part_in_a_full_cohort() -> None:
    assert cohorts(FullCohort(), 5).all()
    assert FullCohort().expected(5) == 5
    assert FullCohort().scheme(5) == Everyone()


def test_poisson_cohorts() -> None:
    drawn = cohorts(PoissonCohort(0.3), 6)
    assert_rate(drawn, 0.3)
    assert_independent_over_time(drawn)
    sizes = np.bincount(drawn.sum(axis=1), minlength=7)
    expected = ROUNDS * stats.binom(6, 0.3).pmf(np.arange(7))
    rare = expected < 5
    expected = np.append(expected[~rare], expected[rare].sum())
    observed = np.append(sizes[~rare], sizes[rare].sum())
    assert stats.chisquare(observed, expected).pvalue > 1e-3
    assert sizes[0] > 0, "some cohorts are empty"
    assert PoissonCohort(0.3).expected(6) == pytest.approx(1.8)
    assert PoissonCohort(0.3).scheme(6) == Poisson(rate=0.3)


def test_certain_poisson_cohorts_take_everyone() -> None:
    assert cohorts(PoissonCohort(1.0), 5).all()


def test_fixed_cohorts() -> None:
    drawn = cohorts(FixedCohort(2), 5)
    assert (drawn.sum(axis=1) == 2).all()
    assert_rate(drawn, 2 / 5)
    assert_independent_over_time(drawn)
    pairs = {tuple(np.flatnonzero(row)) for row in drawn}
    assert len(pairs) == 10
    assert FixedCohort(2).scheme(5) == FixedSize(sample=2, population=5)
    for size in (0, 6):
        for ask in (lambda c: c.mask(KEY, 5), lambda c: c.expected(5), lambda c: c.scheme(5)):
            with pytest.raises(TacitError, match="cannot be drawn"):
                ask(FixedCohort(size))


def test_a_cohort_depends_on_the_key_alone() -> None:
    for cohort in (PoissonCohort(0.5), FixedCohort(3)):
        eager = cohort.mask(KEY, 9)
        assert (eager == jax.jit(lambda key, c=cohort: c.mask(key, 9))(KEY)).all()


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, np.nan])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(TacitError, match="rate"):
        PoissonCohort(rate)


@pytest.mark.parametrize("kind", [FixedBatch, PoissonBatch, ShuffledBatches])
def test_impossible_batches_are_refused(kind: Any) -> None:
    with pytest.raises(TacitError, match="at least one record"):
        kind(0)


def test_full_batches() -> None:
    assert masks(FullBatch(), 3).all()


def test_fixed_batches() -> None:
    drawn = masks(FixedBatch(3), ROUNDS)
    assert (drawn.sum(axis=1) == 3).all()
    assert_rate(drawn, 3 / SIZE)
    assert_independent_over_time(drawn)
    assert FixedBatch(3).scheme(SIZE) == FixedSize(sample=3, population=SIZE)


def test_poisson_batches() -> None:
    drawn = masks(PoissonBatch(3), ROUNDS)
    assert_rate(drawn, 3 / SIZE)
    assert_independent_over_time(drawn)
    assert len(set(drawn.sum(axis=1).tolist())) == SIZE + 1, "also empty and whole batches"
    together = np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]
    assert abs(together) < 5 / np.sqrt(ROUNDS)
    assert PoissonBatch(3).scheme(SIZE) == Poisson(rate=3 / SIZE)


def test_poisson_batches_are_never_likelier_than_charged() -> None:
    sizes = np.unique(np.geomspace(1, 2e6, 400).astype(np.int64))
    for batch in (1, 3, 7, 100, 12345):
        population = sizes[sizes > batch]
        exact = batch / population
        for x64 in (False, True):
            with jax.enable_x64(x64):
                falls = np.asarray(_threshold(batch / jnp.asarray(population, jnp.int32)))
            assert (falls / 2.0**32 <= exact).all()
            assert (falls / 2.0**32 >= exact * (1 - 2.0**-21) - 2.0**-31).all()


def test_shuffled_batches_touch_each_record_once_an_epoch() -> None:
    steps = chosen(ShuffledBatches(3), 30)
    epochs = [np.concatenate(steps[i : i + 3]) for i in range(0, 30, 3)]
    assert all(sorted(epoch.tolist()) == list(range(SIZE)) for epoch in epochs)
    assert [len(step) for step in steps[:3]] == [3, 3, 1]
    assert len({tuple(epoch.tolist()) for epoch in epochs}) == len(epochs), "every epoch is new"
    assert ShuffledBatches(3).scheme(SIZE) == ShuffledEpochs(batches=3)


def test_shuffled_batches_are_uniform() -> None:
    drawn = masks(ShuffledBatches(3), ROUNDS)
    assert_rate(drawn[::3], 3 / SIZE)
    assert_rate(drawn[2::3], 1 / SIZE)


@pytest.mark.parametrize("batch", BATCHES, ids=lambda b: type(b).__name__)
def test_a_draw_does_not_depend_on_the_padding(batch: Batch) -> None:
    """Engines pad a client's records differently and must draw the same."""
    exact = chosen(batch, 30, SIZE, SIZE)
    for capacity in (CAPACITY, 64):
        padded = chosen(batch, 30, SIZE, capacity)
        assert all(a.tolist() == b.tolist() for a, b in zip(exact, padded, strict=True))


@pytest.mark.parametrize("batch", BATCHES, ids=lambda b: type(b).__name__)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_small_clients_give_what_they_have(batch: Batch, size: int) -> None:
    for records in chosen(batch, 30, size):
        assert ((records >= 0) & (records < size)).all()
        if not isinstance(batch, ShuffledBatches):
            assert sorted(records.tolist()) == list(range(size))
    assert float(batch.expected(size)) == size
    scheme = batch.scheme(size)
    whole = [Everyone(), Poisson(rate=1.0), FixedSize(sample=size, population=size)]
    assert scheme in [*whole, ShuffledEpochs(batches=1)]


@dataclass(frozen=True)
class Chunked(PoissonBatch):
    """Poisson batches that are treated two records at a time."""

    at_once: int = 2

    def chunk(self, capacity: int) -> int:
        return self.at_once


@pytest.mark.parametrize("at_once", [1, 2])
def test_batches_beyond_the_first_chunk_are_exact(at_once: int) -> None:
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        x = jnp.asarray(rng.standard_normal((CAPACITY, 4)))
        data = ClientData({"x": x}, jnp.asarray(SIZE))
        batch = Chunked(4, at_once=at_once)

        def total(records: Any, weights: Any) -> Any:
            return {"sum": weights @ records["x"]}

        work = jax.jit(
            lambda step: sum_over_chosen(batch, KEY, step, data, {"sum": jnp.zeros(4)}, total)
        )
        sizes = set()
        for step in range(12):
            summed, count = work(jnp.asarray(step))
            order, expected = batch.chosen(KEY, jnp.asarray(step), data.size, CAPACITY)
            assert count == expected
            sizes.add(int(count))
            brute = np.asarray(x)[np.asarray(order)[: int(count)]].sum(axis=0)
            np.testing.assert_allclose(summed["sum"], brute, atol=1e-12)
    assert min(sizes) <= 2
    assert max(sizes) > 2 * 2
