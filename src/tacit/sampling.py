"""Who takes part: cohorts of clients in a round, batches of records in a local step.

Each scheme draws the sample AND names the scheme of the accounting, so that what is drawn is what
is charged. Drawing is by counter-based keys: a cohort depends on the round's key alone, and every
engine draws the same one.
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
    """Which clients take part in a round."""

    def mask(self, key: Array, clients: int, round_: Array | int = 0) -> Array:
        """True for the clients that take part in this round."""
        ...

    def expected(self, clients: int) -> float:
        """The expected number that takes part: the divisor of every mean."""
        ...

    def scheme(self, clients: int) -> SamplingScheme:
        """The scheme by which an aggregate over the cohort is charged."""
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
        """The rate times all."""
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
    """Disjoint groups of clients that take turns: a client speaks once in ``groups`` rounds.

    Who is in which group is public and drawn before training, so a run of T rounds costs a client
    the releases of its own T / groups rounds and no more. Sizes differ by at most one client.
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
        """A group's share of all; the same divisor for every group."""
        self._check(clients)
        return clients / self.groups

    def scheme(self, clients: int) -> SamplingScheme:
        """No amplification: whose turn it is, is public; but nobody pays for another's turn."""
        self._check(clients)
        return Turns(groups=self.groups, seed=self.seed)

    def _check(self, clients: int) -> None:
        if self.groups > clients:
            raise TacitError(
                f"{clients} clients cannot take turns in {self.groups} groups: some would be"
                " empty. Take fewer groups, or let clients speak more often."
            )


class Batch(Protocol):
    """Which records take part in a local step of a client with ``size`` records."""

    def chosen(self, key: Array, step: Array, size: Array, capacity: int) -> tuple[Array, Array]:
        """Record numbers, the chosen ones first, and how many are chosen.

        ``capacity`` is the static number of rows that hold the client's records.
        """
        ...

    def expected(self, size: Array | int) -> Array | float:
        """The expected number chosen: the divisor of the step's mean."""
        ...

    def chunk(self, capacity: int) -> int:
        """How many chosen records to treat at once; more are treated in further chunks."""
        ...

    def most(self, capacity: int) -> int:
        """The most records that a step can take."""
        ...

    def scheme(self, size: int) -> SamplingScheme:
        """The scheme by which the steps of a client of this size are charged."""
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
    """``size`` records without replacement, a fresh independent draw for every step.

    A client with fewer records takes all of them.
    """

    size: int

    def __post_init__(self) -> None:
        _check_batch(self.size)

    def chosen(self, key: Array, step: Array, size: Array, capacity: int) -> tuple[Array, Array]:
        """Different records, every set equally likely."""
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
    """Every record independently, ``size`` expected; a batch may be empty."""

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
        """The expected batch, or all records of a smaller client."""
        return jnp.minimum(self.size, size)

    def chunk(self, capacity: int) -> int:
        """A little above the expected batch, so that nearly every batch is one chunk."""
        return min(self.size + math.ceil(4 * math.sqrt(self.size)), capacity)

    def most(self, capacity: int) -> int:
        """All of them, by chance."""
        return capacity

    def scheme(self, size: int) -> SamplingScheme:
        """Poisson sampling of records."""
        return Poisson(rate=min(1.0, self.size / size))


@dataclass(frozen=True)
class ShuffledBatches:
    """Shuffled epochs, a new one at the start of a round: no amplification is charged for them."""

    size: int

    def __post_init__(self) -> None:
        _check_batch(self.size)

    def chosen(self, key: Array, step: Array, size: Array, capacity: int) -> tuple[Array, Array]:
        """The step's slice of its epoch's permutation."""
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
        """One release per epoch touches a record."""
        return ShuffledEpochs(batches=-(-size // self.size))


def step_batch(size: int | None) -> Batch:
    """What a plain local step takes: all records, or ``size`` fresh ones each time."""
    return FullBatch() if size is None else FixedBatch(size)


def _coins(key: Array, count: int, rate: Array | float) -> Array:
    """Coins that fall with probability ``rate`` to within 2^-21 of it, never above it."""
    bits = random_numbers.words(key, count)
    if isinstance(rate, (int, float)):
        threshold = jnp.asarray(min(int(rate * 2**32), 2**32 - 1), jnp.uint32)
        return (bits < threshold) | (rate >= 1)
    return (bits < _threshold(rate)) | (rate >= 1)


def _threshold(rate: Array) -> Array:
    """How many of 2^32 values count as the coin falling."""
    # The quotient may have been rounded up by 2^-24 relative: what is taken off is more.
    lowered = rate * (1 - 2.0**-22) * 2.0**32
    return jnp.clip(jnp.floor(lowered), 0, 2.0**32 - 256).astype(jnp.uint32)


def _scores(key: Array, size: Array, capacity: int) -> Array:
    """Random scores of the client's records, 0 for the rows beyond; 32 bits, so ties are rare."""
    bits = jnp.maximum(random_numbers.words(key, capacity), 1)
    return jnp.where(jnp.arange(capacity) < size, bits, 0)


def _check_batch(size: int) -> None:
    if size < 1:
        raise TacitError(f"a batch has at least one record, not {size}.")
