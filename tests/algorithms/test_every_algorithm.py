"""What every algorithm must stand: see ``registry``, where a new one joins with one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

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
    parts,
    plan_of,
    priced_once,
    simulator,
    watched,
    with_records,
)
from registry import CASES, Case

from local_federation import LocalFederation
from tacit import tree
from tacit.accounting import DpEvent, Ledger, compose
from tacit.accounting.events import in_turn
from tacit.algorithm import releases, unit_of
from tacit.data.federation import Federation
from tacit.errors import TacitError
from tacit.mechanisms import NoNoise
from tacit.precision import precision
from tacit.release import PLACES, At, Release
from tacit.run.exactness import require_exact_noise
from tacit.simulation import Simulator
from tacit.streams import Stream
from tacit.wire.client import WireClient
from tacit.wire.codec import encode
from tacit.wire.holdings import Holdings

REAL = (  # one for each way in which noise is drawn
    *("dp-fedavg-poisson", "dp-fedavg-local", "dp-fedavg-record-fixed"),
    *("dp-fedexp", "auto-record-central", "auto-record-shares"),
)
# PrivUnit, PrivUnitG and Laplace noise (of two-phases) have no exact sampler.
NOT_EXACT = (
    *("dp-fedexp-privunit", "dp-scaffold-privunit", "two-phases"),
    *("auto-local", "auto-local-twice"),
)

# All tests of a row one after the other, so that they share its compiled programs.
BLOCKS = ("dp-fedavg-poisson", "dp-fedavg-record-poisson", "dp-fedexp-privunit", "auto-record")
pytestmark = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id, scope="module")


def test_erasure_and_times(case: Case) -> None:
    """With all mechanisms erased two data sets give the same bits, and calls equal ``times``.

    No two draws of a run share their key: the difference of two values with one noise has none.
    """
    first, second = case.federation(0), case.federation(1)
    assert not np.array_equal(*(next(iter(f.records.values())) for f in (first, second)))
    calls: Counter[Release] = Counter()
    keys: Counter[bytes] = Counter()
    with erased(calls, keys):
        engine = Simulator(case.planned(), case.task(), first, seed=SEED, max_devices=1)
        one = on_host(engine.advance(engine.init(), 0, case.rounds))
        assert calls == expected_calls(case)
        assert set(keys.values()) == {1}
        assert keys.total() == calls.total()
        with_records(engine, second)
        other = on_host(engine.advance(engine.init(), 0, case.rounds))
        if is_local(case):
            assert answers(case, first) == answers(case, second)
    assert_same_bits(one.server, other.server)
    if unit_of(releases(case.planned(), case.task(), case.population)) == "record":
        # What a client remembers comes back in later messages without a bound of its own.
        assert_same_bits(one.clients, other.clients)
    assert engine.traces == 1


def test_real_noise(case: Case) -> None:
    """Without a seed a run draws other noise every time, on the same records, and stays finite."""
    if case.id in NOT_EXACT:
        with pytest.raises(TacitError, match="drawn in floating point"):
            require_exact_noise(plan_of(case))
        return
    require_exact_noise(plan_of(case))
    if case.id not in REAL:
        pytest.skip("one row for each place of noise is enough: every program compiles anew")
    engine = Simulator(case.planned(), case.task(), case.federation(0), seed=None, dtype="float64")
    runs = [on_host(engine.advance(engine.init(), 0, 2)).server.params for _ in range(2)]
    engine.reseed(None)
    runs.append(on_host(engine.advance(engine.init(), 0, 2)).server.params)
    first, again, fresh = (tree.to_named(params) for params in runs)
    noisy = not all(
        isinstance(release.mechanism, NoNoise)
        for release in releases(case.planned(), case.task(), case.population).values()
    )
    for name, value in first.items():
        assert np.isfinite(value).all()
        np.testing.assert_array_equal(value, again[name])  # one stream, one process, one noise
        assert not noisy or not np.array_equal(value, fresh[name])


def test_noise_of_a_client_does_not_hide_that_it_answers(case: Case) -> None:
    """A message that a client noises itself is protected under replace-one only, in any method."""
    method = case.planned()
    found = releases(method, case.task(), case.population).values()
    if all(release.at != "message" for release in found):
        pytest.skip("no message is noised by its client")
    told = replace(method, relation="zero-out")
    if told.relation == "zero-out":  # DP-FedAvg, whose default that is, takes replace-one itself
        with pytest.raises(TacitError, match="use the relation replace-one"):
            replace(plan_of(case), algorithm=told).guarantee(1e-5)


def is_local(case: Case) -> bool:
    """Whether clients noise each message fully themselves."""
    found = releases(case.planned(), case.task(), case.population)
    return not any(release.summed for release in found.values())


def answers(case: Case, federation: Federation) -> list[bytes]:
    """What the server reads of one client in the first round, byte for byte."""
    algorithm, task = case.planned(), case.task()
    client = WireClient(
        algorithm,
        task,
        case.population,
        federation.client(1),
        index=1,
        stream=Stream.seeded(SEED),
    )
    state = algorithm.init(task.init(jax.random.key(0)))
    said = []
    for phase in algorithm.phases(task, case.population):
        sent = tree.to_named(phase.send(state))
        said.append(client.answer(encode(phase.name, sent, {"round": 0})))
        assert client.last_error is None
    return said


def expected_calls(case: Case) -> Counter[Release]:
    federation = case.federation(0)
    members = sum(len(c) for c in cohorts(case, federation.clients, case.rounds))
    expected: Counter[Release] = Counter()
    for release in releases(case.planned(), case.task(), case.population).values():
        times = case.rounds if release.summed else members * release.times
        expected[priced_once(release.on_sum(federation.clients))] += times
    return expected


@pytest.fixture
def new_ledger(case: Case, tmp_path: Path) -> Iterator[Callable[[str], Ledger]]:
    """Makes ledgers for the row's promise, and closes them."""
    plan = plan_of(case)
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(
            Ledger.create(
                tmp_path / f"{name}.jsonl",
                unit=plan.unit,
                relation=plan.relation,
                observer=plan.observer,
            )
        )


def test_both_engines_agree(case: Case, new_ledger: Callable[[str], Ledger]) -> None:
    """Blocks, devices and messages of bytes are three ways to the same numbers."""
    if case.like is not None:
        assert case.like in {other.id for other in CASES if other.like is None}
        return
    one = outcome(case)
    # Blocks write the states of clients; without a state one row of each kind is enough.
    if jax.tree.leaves(one.clients[0]) or case.id in BLOCKS:
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
        case.planned(),
        case.task(),
        case.federation(0),
        seed=SEED,
        dtype="float64",
        holdings={
            client: Holdings(new_ledger(str(client))) for client in range(case.population.clients)
        },
    )
    wire.server.ledger = new_ledger("server")
    asked = cohorts(case, len(wire.clients), case.rounds)
    for round_, state in enumerate(one.states[1:]):
        report = wire.server.round(round_, wire.ask)
        assert report.excluded == ()
        assert report.cohort == tuple(asked[round_])
        assert_close(wire.server.state, state)
        for client, member in enumerate(wire.clients):
            kept = jax.tree.map(lambda v, i=client: v[i], one.clients[round_ + 1])
            # A client keeps the state after a reply pending until it hears that the reply counted.
            assert_close(member._pending[1] if member._pending else member._state, kept)
    check_wire_ledgers(case, wire, asked)


def check_wire_ledgers(case: Case, wire: LocalFederation, asked: list[np.ndarray]) -> None:
    """A client has paid for its own noise; the server has counted all that it asked for."""
    plan, cohort = plan_of(case), case.planned().cohort.scheme(case.population.clients)
    phases = plan.algorithm.phases(plan.task, plan.population)

    def due(places: tuple[At, ...], rounds: list[int], records: int) -> list[DpEvent]:
        return [
            phase.event(r, relation=plan.relation, cohort=cohort, records=records, places=places)
            for r in rounds
            for phase in phases
        ]

    def check(ledger: Ledger, *events: DpEvent) -> None:
        event = compose(*events)
        assert parts(ledger.spent(), plan.relation) == parts(event, plan.relation)
        assert all(charge.done for charge in ledger.charges)

    of_server = (
        in_turn(event, r, cohort)
        for r in range(case.rounds)
        for event in due(PLACES, [r], plan.population.smallest)
    )
    check(wire.server.ledger, *of_server)
    for index, client in enumerate(wire.clients):
        took_part = [r for r in range(case.rounds) if index in asked[r]]
        check(
            client.holdings.ledger,
            *due(("step", "message", "shares"), took_part, case.population.sizes[index]),
        )
    if is_local(case) and all(len(members) == case.population.clients for members in asked):
        smallest = wire.clients[int(np.argmin(case.population.sizes))]
        check(smallest.holdings.ledger, plan.total())


def test_no_second_compilation(case: Case) -> None:
    """Rounds, stretches of rounds and cohorts of any size run one program."""
    engine = simulator(case)
    state = engine.advance(engine.init(), 0, 1)
    state = engine.advance(state, 1, case.rounds - 1)
    assert_same_bits(state.server, outcome(case).states[-1])
    assert engine.traces == 1
    assert engine._advance._run.func._cache_size() == 1


def test_paper_properties(case: Case) -> None:
    """What the row says that the paper promises."""
    with precision("float64"):
        for holds in case.properties:
            holds(outcome(case))
