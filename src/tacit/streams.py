"""Streams of randomness: one key for each (round, phase, client), the same in every engine.

Seeded streams are for science: they make a simulation reproducible. A real client draws its keys
from the operating system instead.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple, Self

import jax
from jax import Array

from tacit import random_numbers


class Stream(NamedTuple):
    """A root key and the keys that follow from it."""

    root: Array

    @classmethod
    def seeded(cls, seed: int) -> Self:
        """The stream of a seed."""
        return cls(jax.random.key(seed))

    @classmethod
    def from_entropy(cls) -> Self:
        """A stream that nobody can repeat, from the operating system's entropy."""
        key = jax.random.key(secrets.randbits(63))
        for _ in range(3):
            key = random_numbers.fold_in(key, secrets.randbits(31))
        return cls(key)

    def again(self, attempt: int) -> Stream:
        """The stream of a repeated attempt, so that nothing is drawn twice; 0 is the first."""
        if attempt == 0:
            return self
        return Stream(random_numbers.fold_in(random_numbers.fold_in(self.root, 2), attempt))

    @property
    def init(self) -> Array:
        """The key of the first model."""
        return random_numbers.fold_in(self.root, 0)

    def cohort(self, round_: Array | int) -> Array:
        """The key of a round's cohort."""
        return random_numbers.fold_in(self._round(round_), 0)

    def server(self, round_: Array | int, phase: int) -> Array:
        """The key of the server's noise in a phase."""
        return random_numbers.fold_in(self._phase(round_, phase), 0)

    def client(self, round_: Array | int, phase: int, client: Array | int) -> tuple[Array, Array]:
        """A client's keys in a phase: for its local work, and for leaving."""
        key = random_numbers.fold_in(self._phase(round_, phase), client + 1)
        return random_numbers.fold_in(key, 0), random_numbers.fold_in(key, 1)

    def _round(self, round_: Array | int) -> Array:
        return random_numbers.fold_in(random_numbers.fold_in(self.root, 1), round_)

    def _phase(self, round_: Array | int, phase: int) -> Array:
        return random_numbers.fold_in(self._round(round_), phase + 1)
