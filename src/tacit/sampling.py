"""Sampling: cohorts of clients for a round, batches of records for a local step.

Each class draws the sample AND gives its sampling scheme to the accounting, so the sample that is
drawn is the sample that is charged. Draws use counter-based keys: a cohort depends only on the key
of the round, so every engine draws the same cohort.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array

from tacit import random_numbers
from tacit.accounting.events import (
    Everyone,
    FixedSize,
    Poisson,
    SamplingScheme,
    ShuffledEpochs,
    Turns,
)
from tacit.errors import TacitError


class Cohort(Protocol):
    """Chooses the clients that take part in a round."""

    def mask(self, key: Array, clients: int, round_: Array | int = 0) -> Array:
        """True for the clients that take part in this round."""
        ...

    def expected(self, clients: int) -> float:
        """The expected cohort size, the divisor of every mean."""
        ...

    def scheme(self, clients: int) -> SamplingScheme:
        """The sampling scheme for the accounting of an aggregate over the cohort."""
        ...


@dataclass(frozen=True)
class FullCohort:
    """Every client takes part in every round."""

    def mask(self, key: Array, clients: int, round_: Array | int = 0) -> Array:
        """All True."""
        del key, round_
        return jnp.ones(clients, bool)

    def expected(self, clients: int) -> float:
        """All of them."""
        return float(clients)

    def scheme(self, clients: int) -> SamplingScheme:
        """No amplification."""
        del clients
        return Everyone()


@dataclass(frozen=True)
class PoissonCohort:
    """Every client takes part independently with probability ``rate``; a cohort may be empty."""

    rate: float

    def __post_init__(self) -> None:
        Poisson(rate=self.rate)

    def mask(self, key: Array, clients: int, round_: Array | int = 0) -> Array:
        """Independent coins."""
        del round_
        return _coins(key, clients, self.rate)

    def expected(self, clients: int) -> float:
        """The rate times the number of clients."""
        return self.rate * clients

    def scheme(self, clients: int) -> SamplingScheme:
        """Poisson sampling."""
        del clients
        return Poisson(rate=self.rate)


@dataclass(frozen=True)
class FixedCohort:
    """``size`` clients drawn without replacement in every round."""

    size: int

    def mask(self, key: Array, clients: int, round_: Array | int = 0) -> Array:
        """True for ``size`` clients, uniformly."""
        del round_
        self._check(clients)
        chosen = random_numbers.distinct(key, clients, self.size, self.size)
        return jnp.zeros(clients, bool).at[chosen].set(True)

    def expected(self, clients: int) -> float:
        """The size, always."""
        self._check(clients)
        return float(self.size)

    def scheme(self, clients: int) -> SamplingScheme:
        """Fixed-size sampling."""
        self._check(clients)
        return FixedSize(sample=self.size, population=clients)

    def _check(self, clients: int) -> None:
        if not 1 <= self.size <= clients:
            raise TacitError(f"a cohort of {self.size} cannot be drawn from {clients} clients.")


@dataclass(frozen=True)
class TurnsCohort:
    """Disjoint groups of clients that take turns: a client takes part in one of ``groups`` rounds.

    The groups are public and drawn before training. In a run of T rounds a client pays only for its
    own T / groups rounds. Group sizes differ by at most one client.
    """

    groups: int
    seed: int = 0

    def __post_init__(self) -> None:
        Turns(groups=self.groups, seed=self.seed)

    def mask(self, key: Array, clients: int, round_: Array | int = 0) -> Array:
        """True for the group whose turn it is."""
        del key
        self._check(clients)
        order = np.random.default_rng([self.seed, clients]).permutation(clients)
        return jnp.asarray(order % self.groups) == jnp.asarray(round_) % self.groups

    def expected(self, clients: int) -> float:
        """The mean group size, the same divisor for every group."""
        self._check(clients)
        return clients / self.groups

    def scheme(self, clients: int) -> SamplingScheme:
        """No amplification, because the groups are public; but a client pays only for its turns."""
        self._check(clients)
        return Turns(groups=self.groups, seed=self.seed)

    def _check(self, clients: int) -> None:
        if self.groups > clients:
            raise TacitError(
                f"{clients} clients cannot take turns in {self.groups} groups: some groups would"
                " be empty. Use fewer groups."
            )


class Batch(Protocol):
    """Chooses the records for a local step of a client with ``size`` records."""

    def chosen(self, key: Array, step: Array, size: Array, capacity: int) -> tuple[Array, Array]:
        """Record indices, the chosen ones first, and the number of chosen records.

        ``capacity`` is the static number of rows for the client's records.
        """
        ...

    def expected(self, size: Array | int) -> Array | float:
        """The expected batch size, the divisor of the mean of a step."""
        ...

    def chunk(self, capacity: int) -> int:
        """How many records to process at once; a larger batch is processed in several chunks."""
        ...

    def most(self, capacity: int) -> int:
        """The largest possible batch."""
        ...

    def scheme(self, size: int) -> SamplingScheme:
        """The sampling scheme for the accounting of the steps of a client with ``size`` records."""
        ...


@dataclass(frozen=True)
class FullBatch:
    """All records in every step."""

    def chosen(self, key: Array, step: Array, size: Array, capacity: int) -> tuple[Array, Array]:
        """Every record."""
        del key, step
        return jnp.arange(capacity), size

    def expected(self, size: Array | int) -> Array | float:
        """All of them."""
        return size

    def chunk(self, capacity: int) -> int:
        """All of them."""
        return capacity

    def most(self, capacity: int) -> int:
        """All of them."""
        return capacity

    def scheme(self, size: int) -> SamplingScheme:
        """No amplification."""
        del size
        return Everyone()


@dataclass(frozen=True)
class FixedBatch:
    """``size`` records without replacement, drawn independently for every step.

    A client with fewer records uses all of them.
    """

    size: int

    def __post_init__(self) -> None:
        _check_batch(self.size)

    def chosen(self, key: Array, step: Array, size: Array, capacity: int) -> tuple[Array, Array]:
        """Distinct records; every subset of this size is equally likely."""
        count = jnp.minimum(self.size, size)
        most = min(self.size, capacity)
        return random_numbers.distinct(random_numbers.fold_in(key, step), size, count, most), count

    def expected(self, size: Array | int) -> Array | float:
        """The batch size, or all records of a smaller client."""
        return jnp.minimum(self.size, size)

    def chunk(self, capacity: int) -> int:
        """The batch."""
        return min(self.size, capacity)

    def most(self, capacity: int) -> int:
        """The batch."""
        return min(self.size, capacity)

    def scheme(self, size: int) -> SamplingScheme:
        """Fixed-size sampling, independent in every step."""
        return FixedSize(sample=min(self.size, size), population=size)


@dataclass(frozen=True)
class PoissonBatch:
    """Independent choice of each record; ``size`` is the expected batch size, 0 is possible."""

    size: int

    def __post_init__(self) -> None:
        _check_batch(self.size)

    def chosen(self, key: Array, step: Array, size: Array, capacity: int) -> tuple[Array, Array]:
        """Independent coins for all records."""
        rate = jnp.minimum(1.0, self.size / size)
        coins = _coins(random_numbers.fold_in(key, step), capacity, rate)
        coins = coins & (jnp.arange(capacity) < size)
        return jnp.nonzero(coins, size=capacity, fill_value=0)[0], jnp.sum(coins)

    def expected(self, size: Array | int) -> Array | float:
        """The expected batch size, or all records of a smaller client."""
        return jnp.minimum(self.size, size)

    def chunk(self, capacity: int) -> int:
        """Slightly above the expected batch size, so that nearly every batch is one chunk."""
        return min(self.size + math.ceil(4 * math.sqrt(self.size)), capacity)

    def most(self, capacity: int) -> int:
        """All of them (unlikely but possible)."""
        return capacity

    def scheme(self, size: int) -> SamplingScheme:
        """Poisson sampling of records."""
        return Poisson(rate=min(1.0, self.size / size))


@dataclass(frozen=True)
class ShuffledBatches:
    """Shuffled epochs; every round starts a new epoch. No amplification is claimed for them."""

    size: int

    def __post_init__(self) -> None:
        _check_batch(self.size)

    def chosen(self, key: Array, step: Array, size: Array, capacity: int) -> tuple[Array, Array]:
        """The slice of the epoch's permutation for this step."""
        batches = -(-size // self.size)
        epoch, place = step // batches, step % batches
        scores = _scores(random_numbers.fold_in(key, epoch), size, capacity)
        order = jnp.argsort(scores, descending=True)
        start = place * self.size
        rows = jnp.minimum(start + jnp.arange(min(self.size, capacity)), capacity - 1)
        return order[rows], jnp.minimum(self.size, size - start)

    def expected(self, size: Array | int) -> Array | float:
        """The batch size; the last batch of an epoch is divided by it too."""
        return jnp.minimum(self.size, size)

    def chunk(self, capacity: int) -> int:
        """The batch."""
        return min(self.size, capacity)

    def most(self, capacity: int) -> int:
        """The batch."""
        return min(self.size, capacity)

    def scheme(self, size: int) -> SamplingScheme:
        """Each record is in one release per epoch."""
        return ShuffledEpochs(batches=-(-size // self.size))


def step_batch(size: int | None) -> Batch:
    """The batch of a local step without noise: all records, or ``size`` newly drawn ones."""
    return FullBatch() if size is None else FixedBatch(size)


def _coins(key: Array, count: int, rate: Array | float) -> Array:
    """Random booleans, True with probability at most ``rate`` and within 2^-21 of it."""
    bits = random_numbers.words(key, count)
    if isinstance(rate, (int, float)):
        threshold = jnp.asarray(min(int(rate * 2**32), 2**32 - 1), jnp.uint32)
        return (bits < threshold) | (rate >= 1)
    return (bits < _threshold(rate)) | (rate >= 1)


def _threshold(rate: Array) -> Array:
    """How many of the 2^32 values mean True."""
    # The product may be rounded up by a relative 2^-24: subtract more than that.
    lowered = rate * (1 - 2.0**-22) * 2.0**32
    return jnp.clip(jnp.floor(lowered), 0, 2.0**32 - 256).astype(jnp.uint32)


def _scores(key: Array, size: Array, capacity: int) -> Array:
    """Random 32-bit scores for the client's records (ties are rare), and 0 for empty rows."""
    bits = jnp.maximum(random_numbers.words(key, capacity), 1)
    return jnp.where(jnp.arange(capacity) < size, bits, 0)


def _check_batch(size: int) -> None:
    if size < 1:
        raise TacitError(f"a batch must have at least one record, not {size}.")
