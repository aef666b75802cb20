"""What every algorithm must stand: see ``registry``, where a new one joins with one row."""

from __future__ import annotations

from collections import Counter

import jax
import numpy as np
import pytest
from engines import (
    SEED,
    assert_close,
    assert_same_bits,
    cohorts,
    erased,
    on_host,
    outcome,
    priced_once,
    simulator,
    watched,
    with_records,
)
from registry import CASES, Case

from tacit.algorithm import releases
from tacit.release import Release
from tacit.simulation import Simulator
from tacit.simulation.devices import precision
from tacit.wire.local import LocalFederation

# All tests of a row one after the other, so that they share its compiled programs.
pytestmark = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id, scope="module")


def test_erasure_and_times(case: Case) -> None:
    """With all mechanisms erased two data sets give the same bits, and calls equal ``times``."""
    first, second = case.federation(0), case.federation(1)
    assert not np.array_equal(*(next(iter(f.records.values())) for f in (first, second)))
    calls: Counter[Release] = Counter()
    with erased(calls):
        engine = Simulator(case.planned(), case.task(), first, seed=SEED, max_devices=1)
        one = on_host(engine.advance(engine.init(), 0, case.rounds))
        assert calls == expected_calls(case)
        with_records(engine, second)
        other = on_host(engine.advance(engine.init(), 0, case.rounds))
    assert_same_bits(one.server, other.server)
    assert engine.traces == 1


def expected_calls(case: Case) -> Counter[Release]:
    federation = case.federation(0)
    members = sum(len(c) for c in cohorts(case, federation.clients, case.rounds))
    expected: Counter[Release] = Counter()
    for release in releases(case.planned(), case.task(), case.population).values():
        times = case.rounds if release.at == "aggregate" else members * release.times
        expected[priced_once(release)] += times
    return expected


def test_both_engines_agree(case: Case) -> None:
    """Blocks, devices and messages of bytes are three ways to the same numbers."""
    one = outcome(case)
    wide = watched(
        case,
        Simulator(
            case.planned(),
            case.task(),
            case.federation(0),
            seed=SEED,
            dtype="float64",
            block=3,
            max_devices=1,
        ),
    )
    assert_close(one.states, wide.states)
    assert_close(one.clients, wide.clients)
    wire = LocalFederation(
        case.planned(), case.task(), case.federation(0), seed=SEED, dtype="float64"
    )
    asked = cohorts(case, len(wire.clients), case.rounds)
    for round_, state in enumerate(one.states[1:]):
        report = wire.server.round(round_, wire.ask)
        assert report.excluded == ()
        assert report.cohort == tuple(asked[round_])
        assert_close(wire.server.state, state)
        for client, member in enumerate(wire.clients):
            kept = jax.tree.map(lambda v, i=client: v[i], one.clients[round_ + 1])
            assert_close(member._state, kept)


def test_no_second_compilation(case: Case) -> None:
    """Rounds, stretches of rounds and cohorts of any size run one program."""
    engine = simulator(case)
    state = engine.advance(engine.init(), 0, 1)
    state = engine.advance(state, 1, case.rounds - 1)
    assert_same_bits(state.server, outcome(case).states[-1])
    assert engine.traces == 1
    assert engine._advance._cache_size() == 1


def test_paper_properties(case: Case) -> None:
    """What the row says that the paper promises."""
    with precision("float64"):
        for holds in case.properties:
            holds(outcome(case))
