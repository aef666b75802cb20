"""Compiled programs, shared by the tests of a row: compiling is most of the time they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax
import numpy as np
import pytest
from registry import Case, Outcome

from tacit import tree
from tacit.accounting import DpEvent, Relation
from tacit.accounting.leaves import leaves
from tacit.data.federation import Federation
from tacit.planning import Plan
from tacit.release import Release
from tacit.simulation import Simulator
from tacit.streams import Stream
from tacit.wire import client as wire_client

SEED = 11


@cache
def simulator(case: Case) -> Simulator:
    """The row's simulator in float64: one client a block, on all devices."""
    return Simulator(case.planned(), case.task(), case.federation(0), seed=SEED, dtype="float64")


@cache
def outcome(case: Case) -> Outcome:
    """A run of the row, round by round."""
    return watched(case, simulator(case))


def watched(case: Case, engine: Simulator) -> Outcome:
    """The states of server and clients before and after every round."""
    state = engine.init()
    seen = [on_host(state)]
    for round_ in range(case.rounds):
        state = engine.advance(state, round_, 1)
        seen.append(on_host(state))
    return Outcome(
        case,
        engine.algorithm,
        engine.federation,
        [s.server for s in seen],
        [by_client(s.clients, engine.federation.clients) for s in seen],
    )


def by_client(states: Any, clients: int) -> Any:
    """Client i lives on device i mod D; here they stand in their own order."""
    return jax.tree.map(lambda v: np.swapaxes(v, 0, 1).reshape(-1, *v.shape[2:])[:clients], states)


def on_host(state: Any) -> Any:
    """A copy that outlives the donation of the original."""
    return jax.tree.map(np.array, state)


@contextmanager
def erased(
    calls: Counter[Release] | None = None, keys: Counter[bytes] | None = None
) -> Iterator[None]:
    """Every release returns noise that depends on its key alone; calls are counted at run time.

    ``keys`` counts how often noise was drawn with each key.

    All noise is drawn through ``Release.noised``, so one replacement reaches every mechanism, also
    where a client's function has closed over its release. A mechanism that is called around the
    release is not replaced, keeps its input, and so fails the test as it should.
    """

    original = Release.noised

    def destroy(
        self: Release, key: jax.Array, value: Any, round_: Any, radius: Any = None, terms: int = 1
    ) -> tree.Tree:
        if calls is not None:
            jax.debug.callback(partial(_count, calls, priced_once(self)))
        if keys is not None:
            jax.debug.callback(partial(_note, keys), jax.random.key_data(key))
        # A message of another form (PrivUnit's has a level) is made as if there were no data.
        nothing = original(self, key, tree.zeros_like(value), round_, radius, terms)
        leaves, structure = jax.tree.flatten(nothing)
        if structure != jax.tree.structure(value):
            return nothing
        noise = [
            jax.random.normal(jax.random.fold_in(key, number), v.shape, v.dtype)
            for number, v in enumerate(leaves)
        ]
        return jax.tree.unflatten(structure, noise)

    _forget_programs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Release, "noised", destroy)
        yield
    _forget_programs()


def priced_once(release: Release) -> Release:
    """Releases that differ in how often they happen only are counted together."""
    return replace(release, times=1)


def _count(calls: Counter[Release], release: Release) -> None:
    calls[release] += 1


def _note(keys: Counter[bytes], key: Any) -> None:
    keys[np.asarray(key).tobytes()] += 1


def _forget_programs() -> None:
    """The clients of the wire keep compiled programs, which would outlive a replacement."""
    wire_client._worker.cache_clear()


def with_records(engine: Simulator, federation: Federation) -> None:
    """Give a compiled simulator the records of another federation of the same sizes."""
    assert np.array_equal(engine.federation.sizes, federation.sizes)
    engine.load(federation)


def cohorts(case: Case, clients: int, rounds: int) -> list[np.ndarray]:
    """Who takes part in each round."""
    stream, cohort = Stream.seeded(SEED), case.planned().cohort
    return [
        np.flatnonzero(np.asarray(cohort.mask(stream.cohort(r), clients, r))) for r in range(rounds)
    ]


def plan_of(case: Case) -> Plan:
    return Plan(case.algorithm(), case.task(), case.population, case.rounds)


def parts(event: DpEvent, relation: Relation) -> list[tuple[Any, ...]]:
    """The mechanisms of an event, in an order of their own and free of rounding."""
    found = leaves(event, relation)
    return sorted((p.kind, p.sampled, p.rate, p.count, round(p.size, 12)) for p in found)


def assert_same_bits(first: Any, second: Any) -> None:
    """Equal structure, types and bytes."""
    ours, theirs = tree.to_named(first), tree.to_named(second)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert value.dtype == theirs[name].dtype
        assert value.tobytes() == theirs[name].tobytes(), name


def assert_close(first: Any, second: Any, tolerance: float = 1e-10) -> None:
    """Equal structure and values up to a tolerance."""
    ours, theirs = tree.to_named(first), tree.to_named(second)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], rtol=0, atol=tolerance, err_msg=name)
