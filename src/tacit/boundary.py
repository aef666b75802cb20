"""The only two doors: out of a client, and into the server.

Both engines call them, so a value that has not gone through its release cannot be sent. Between
them lies a sum over clients. Where the noise is added to the sum, the sum is exact (``addend``), so
that no client can change what the others contribute.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from tacit import random_numbers, tree
from tacit.algorithm import Message, Phase
from tacit.bounds import Unbounded
from tacit.errors import TacitError
from tacit.exact_sums import Split, split
from tacit.local import BoundedSum, Noised
from tacit.mechanisms.additive import Additive
from tacit.mechanisms.rounded import wants_exact_noise
from tacit.population import Population
from tacit.release import Release
from tacit.tree import Tree


class Opened(NamedTuple):
    """A secure sum: the noise came in shares with the clients' messages."""

    value: Tree


def leave_client(
    phase: Phase, key: Array, message: Message, round_: Array | int
) -> tuple[dict[str, Tree], dict[str, Array]]:
    """What may be sent: each field through its release, and statistics of the released fields."""
    _check_fields(phase, message)
    released: dict[str, Tree] = {}
    for number, (name, release) in enumerate(sorted(phase.releases.items())):
        if phase.norm_of is not None and name == phase.norm_of[0]:
            vector = phase.norm_of[1]
            squared = tree.squared_norm(phase.releases[vector].bound(message[vector]))
            released[name] = release.bound(squared)
            continue
        value = message[name]
        if release.at == "step" or release.by_record:
            released[name] = Unbounded()(_by_record(phase, name, release, value))
            continue
        bounded = release.bound(value)
        if release.at == "message":
            bounded = release.noised(random_numbers.fold_in(key, number), bounded, round_)
        released[name] = bounded
    stats = {name: jnp.asarray(rule(released)) for name, rule in sorted(phase.stats.items())}
    return released, stats


def addend(phase: Phase, released: Mapping[str, Tree], population: Population) -> dict[str, Tree]:
    """One client's part of the sums, split where noise comes after the sum: it is then exact."""

    def one(name: str, value: Tree) -> Tree:
        release = phase.releases.get(name)
        if release is None or not release.summed or not _is_additive(release):
            return value
        return split(value, release.summed_radius(population), population.clients)

    return {name: one(name, value) for name, value in released.items()}


def enter_server(
    phase: Phase,
    key: Array,
    sums: Mapping[str, Tree],
    round_: Array | int,
    expected: float,
    population: Population,
) -> dict[str, Tree]:
    """The means that the server may use: noise on what is aggregated, then the expected divisor."""
    means: dict[str, Tree] = {}
    for number, (name, total) in enumerate(sorted(sums.items())):
        release = phase.releases.get(name)
        if isinstance(total, Split) and not wants_exact_noise():
            total = total.joined()
        if isinstance(total, Opened):
            total = total.value
        elif release is not None and release.summed:
            # Sums over clients are exact; a client's own sum of records is rounded by floats.
            terms = max(population.sizes) if release.by_record else 1
            noise = random_numbers.fold_in(key, number)
            total = release.on_sum(population.clients).noised(noise, total, round_, terms=terms)
        means[name] = tree.scale(1 / expected, total)
    return means


def _by_record(phase: Phase, name: str, release: Release, value: Tree) -> Tree:
    """What was bounded record by record: only ``local`` makes values of its types."""
    wanted = BoundedSum if release.by_record else Noised
    if not isinstance(value, wanted):
        raise TacitError(
            f"the field {name!r} of phase {phase.name!r} is declared as bounded by record, and its"
            f" client sends a plain value: make it with the functions of tacit.local that return"
            f" {wanted.__name__}."
        )
    return value.value


def _is_additive(release: Release) -> bool:
    """Whether noise is added to the sum; without any there is nothing to keep exact."""
    return isinstance(release.mechanism, Additive)


def _check_fields(phase: Phase, message: Message) -> None:
    undeclared = sorted(set(message) - set(phase.releases))
    if undeclared:
        raise TacitError(
            f"phase {phase.name!r} would send {', '.join(map(repr, undeclared))} without a release:"
            " nothing leaves a client undeclared."
        )
    computed = {phase.norm_of[0]} if phase.norm_of is not None else set()
    missing = sorted(set(phase.releases) - set(message) - computed)
    if missing:
        raise TacitError(
            f"phase {phase.name!r} declares {', '.join(map(repr, missing))} but its client does"
            " not send it."
        )
