"""Real clients fail in every way there is; noise, divisor and the others' work stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from local_federation import LocalFederation
from tacit import tree
from tacit.accounting import Budget, Ledger
from tacit.algorithms import DPFedAvg
from tacit.data.federation import Federation
from tacit.population import Population
from tacit.sampling import PoissonCohort
from tacit.streams import Stream
from tacit.tasks.logistic import Logistic
from tacit.wire import client as wire_client
from tacit.wire.client import FAILED, REFUSED, WireClient
from tacit.wire.codec import decode, encode
from tacit.wire.holdings import Holdings

pytestmark = pytest.mark.usefixtures("quick_compilation")

FEATURES, SIZES, SEED = 3, (4, 3, 4), 2
TASK = Logistic(features=FEATURES)
CENTRAL = DPFedAvg(noise=1.0, clip=0.5)
LOCAL = DPFedAvg(noise=4.0, clip=0.5, noise_at="message")
POPULATION = Population(SIZES)

Reply = Callable[[bytes], bytes | None]


def federation(seed: int = 0) -> Federation:
    rng, total = np.random.default_rng(seed), sum(SIZES)
    return Federation(
        records={"x": rng.standard_normal((total, FEATURES)), "y": rng.integers(0, 2, total)},
        sizes=np.array(SIZES),
        names=("a", "b", "c"),
        classes=2,
    )


def params_of(wire: LocalFederation) -> dict[str, np.ndarray]:
    return {k: np.asarray(v, np.float64) for k, v in tree.to_named(wire.params).items()}


@pytest.fixture(scope="module")
def shared() -> LocalFederation:
    """One server, whose compiled steps all tests use; its state is put back each time."""
    return LocalFederation(CENTRAL, TASK, federation(), seed=SEED)


@pytest.fixture
def wire(shared: LocalFederation) -> LocalFederation:
    fresh = LocalFederation(CENTRAL, TASK, federation(), seed=SEED)
    fresh.server._steps = shared.server._steps
    return fresh


def round_with(wire: LocalFederation, client: int, fault: Reply, round_: int = 0) -> Any:
    """One round in which a client's reply is replaced."""

    def ask(requests: Mapping[int, bytes]) -> dict[int, bytes | None]:
        replies = wire.ask(requests)
        replies[client] = fault(replies[client])
        return replies

    return wire.server.round(round_, ask)


def changed(reply: bytes, fields: Mapping[str, Any], **meta: Any) -> bytes:
    message = decode(reply)
    return encode(message.kind, {**message.fields, **fields}, {**message.meta, **meta})


W, B = "['update']['w']", "['update']['b']"
FAULTS: dict[str, tuple[Reply, str]] = {
    "missing": (lambda reply: None, "no reply"),
    "empty": (lambda reply: b"", "too few"),
    "garbage": (lambda reply: b"\x80\x04garbage that is no message at all" * 9, "not a message"),
    "torn": (lambda reply: reply[:-9], "message"),
    "one bit": (lambda reply: reply[:40] + bytes([reply[40] ^ 1]) + reply[41:], "checksum"),
    "late": (lambda reply: changed(reply, {}, round=7), "another request"),
    "early": (lambda reply: changed(reply, {}, round=-1), "another request"),
    "other kind": (lambda reply: encode("measure", {}, {"round": 0}), "another request"),
    "no round": (lambda reply: encode("train", decode(reply).fields, {}), "another request"),
    "wrong shape": (lambda reply: changed(reply, {W: np.ones(4, np.float32)}), "is expected"),
    "wrong dtype": (lambda reply: changed(reply, {W: np.ones(3, np.float64)}), "is expected"),
    "integers": (lambda reply: changed(reply, {W: np.ones(3, np.int32)}), "is expected"),
    "NaN": (lambda reply: changed(reply, {B: np.float32("nan")}), "not finite"),
    "infinity": (lambda reply: changed(reply, {B: np.float32("inf")}), "not finite"),
    "extra field": (lambda reply: changed(reply, {"x": np.ones(2)}), "not expected"),
    "no fields": (lambda reply: encode("train", {}, {"round": 0}), "missing"),
    "failed": (lambda reply: encode(FAILED, {}, {"round": 0}), "client failed"),
    "refused": (lambda reply: encode(REFUSED, {}, {"round": 0}), "budget"),
    "text": (lambda reply: "train", "bytes"),  # type: ignore[dict-item, return-value]
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_reply_is_left_out_and_nothing_else_changes(
    wire: LocalFederation, fault: str
) -> None:
    before = params_of(wire)
    said: dict[str, np.ndarray] = {}
    make, reason = FAULTS[fault]

    def break_it(reply: bytes) -> bytes | None:
        said.update({k: np.asarray(v, np.float64) for k, v in decode(reply).fields.items()})
        return make(reply)

    report = round_with(wire, 1, break_it)
    assert [(e.client, e.phase) for e in report.excluded] == [(1, "train")]
    assert reason in report.excluded[0].reason
    assert report.cohort == (0, 1, 2)
    whole = whole_round()
    after = params_of(wire)
    for name in ("['w']", "['b']"):
        assert np.isfinite(after[name]).all()
        assert np.abs(after[name] - before[name]).max() > 0
        # The same noise and the same divisor: exactly this client's share is gone.
        share = said[f"['update']{name}"] / len(SIZES)
        np.testing.assert_allclose(after[name], whole[name] - share, atol=1e-6)


@cache
def whole_round() -> dict[str, np.ndarray]:
    """What the round gives when everybody answers."""
    wire = LocalFederation(CENTRAL, TASK, federation(), seed=SEED)
    assert wire.run(1)[0].excluded == ()
    return params_of(wire)


def test_nobody_answers(wire: LocalFederation) -> None:
    report = wire.server.round(0, lambda requests: {})
    assert [e.client for e in report.excluded] == [0, 1, 2]
    assert np.abs(params_of(wire)["['w']"]).max() > 0
    assert wire.run(2)[-1].excluded == ()


def test_an_empty_cohort_is_a_round_of_noise() -> None:
    algorithm = DPFedAvg(noise=1.0, clients_per_round=PoissonCohort(1e-9))
    wire = LocalFederation(algorithm, TASK, federation(), seed=SEED)
    assert wire.run(1)[0].cohort == ()
    assert np.abs(params_of(wire)["['w']"]).max() > 0


def test_a_reply_of_the_last_round_does_not_count(wire: LocalFederation) -> None:
    kept: list[bytes] = []
    round_with(wire, 0, lambda reply: kept.append(reply) or reply)
    report = round_with(wire, 0, lambda reply: kept[0], round_=1)
    assert [e.reason for e in report.excluded] == ["a reply to another request."]


# The client's side.


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(
        tmp_path / "ledger.jsonl", unit="client", relation="replace-one", observer="the server"
    ) as opened:
        yield opened


def make_client(
    seed: int = 0, holdings: Holdings | None = None, stream: Stream | None = None
) -> WireClient:
    records = federation(seed).client(0)
    return WireClient(LOCAL, TASK, POPULATION, records, index=0, stream=stream, holdings=holdings)


def request(round_: Any = 0, kind: str = "train", size: int = FEATURES, dtype: str = "f4") -> bytes:
    sent = {"['b']": np.zeros((), dtype), "['w']": np.zeros(size, dtype)}
    return encode(kind, sent, {"round": round_})


def test_a_client_pays_before_it_answers(ledger: Ledger) -> None:
    client = make_client(holdings=Holdings(ledger))
    reply = decode(client.answer(request(0)))
    assert (reply.kind, dict(reply.meta)) == ("train", {"round": 0})
    assert set(reply.fields) == {W, B}
    charges = list(ledger.charges)
    assert [c.label for c in charges] == [{"run": "run", "round": 0, "phase": "train"}]
    assert charges[0].done
    assert charges[0].event.noise_multiplier == 2.0  # 4.0 over replace-one's 2


def test_a_used_up_budget_refuses_and_charges_nothing(ledger: Ledger) -> None:
    one_round = LOCAL.release.event(0, relation="replace-one", cohort=None, records=4)
    probe = ledger._bounded(one_round, 1e-5).epsilon
    client = make_client(holdings=Holdings(ledger, Budget(probe * 1.2, 1e-5)))
    assert decode(client.answer(request(0))).kind == "train"
    for round_ in (1, 2):
        reply = decode(client.answer(request(round_)))
        assert (reply.kind, dict(reply.fields)) == (REFUSED, {})
    assert len(list(ledger.charges)) == 1
    assert ledger.guarantee(1e-5).epsilon <= probe * 1.2


def test_a_budget_without_a_ledger_is_no_budget() -> None:
    client = make_client(holdings=Holdings(budget=Budget(1.0, 1e-5)))
    assert decode(client.answer(request())).kind == FAILED
    assert "needs a ledger" in str(client.last_error)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"garbage" * 20,
        request(kind="steal"),
        request(size=4),
        request(dtype="f8"),
        request(round_=-1),
        request(round_=True),
        request(round_=1.0),
        request(round_=2**31),
        request(round_=2**63),
        encode("train", {}, {"round": 0}),
        encode("train", {"['b']": np.zeros((), "f4")}, {}),
    ],
)
def test_a_bad_request_costs_nothing_and_says_nothing(bad: bytes, ledger: Ledger) -> None:
    replies = set()
    for seed in (0, 1):
        client = make_client(seed, holdings=Holdings(ledger))
        reply = client.answer(bad)
        assert decode(reply).kind == FAILED
        assert set(decode(reply).meta) == {"round"}
        assert client.last_error is not None
        replies.add(reply)
    assert len(replies) == 1, "the reply does not depend on the records"
    assert list(ledger.charges) == []


def test_an_error_inside_stays_inside_and_stays_charged(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*program: Any) -> Callable[..., Any]:
        def work(state: Any, data: Any, *rest: Any) -> Any:
            raise ValueError(f"the records are {np.asarray(data.records['x'])}")

        return work

    monkeypatch.setattr(wire_client, "_worker", broken)
    replies = set()
    for seed in (0, 1):
        client = make_client(seed, holdings=Holdings(ledger))
        replies.add(client.answer(request(3)))
        assert "records are" in str(client.last_error)
    assert replies == {encode(FAILED, {}, {"round": 3})}
    assert [c.done for c in ledger.charges] == [False, False], "charged first, and kept"


def test_a_second_answer_has_new_noise_and_a_new_charge(ledger: Ledger) -> None:
    """Otherwise two questions about one round would cancel the noise."""
    for stream in (None, Stream.seeded(0)):
        client = make_client(holdings=Holdings(ledger), stream=stream)
        before = len(list(ledger.charges))
        first, second = (decode(client.answer(request(0))).fields[W] for _ in range(2))
        assert np.abs(first - second).min() > 1e-4
        assert len(list(ledger.charges)) == before + 2


def test_a_round_that_is_tried_again_has_new_noise(wire: LocalFederation) -> None:
    """The server's noise too: nobody answers, so all that moves the model is noise."""
    moves = []
    for _ in range(2):
        before = params_of(wire)["['w']"]
        wire.server.round(0, lambda requests: {})
        moves.append(params_of(wire)["['w']"] - before)
    assert np.abs(moves[0] - moves[1]).min() > 1e-6


def test_clients_without_a_seed_share_no_randomness() -> None:
    same = [make_client() for _ in range(2)]
    replies = [decode(client.answer(request())).fields[W] for client in same]
    assert np.abs(replies[0] - replies[1]).min() > 1e-4


def test_a_message_of_a_wild_server_does_not_hurt(ledger: Ledger) -> None:
    client = make_client(holdings=Holdings(ledger))
    for value, kind in ((np.nan, "failed"), (np.inf, "failed"), (1e38, "failed"), (1e12, "train")):
        sent = {"['b']": np.float32(0), "['w']": np.full(FEATURES, value, np.float32)}
        reply = decode(client.answer(encode("train", sent, {"round": 0})))
        assert reply.kind == kind
        assert all(np.isfinite(v).all() for v in reply.fields.values())
    assert sum(1 for _ in ledger.charges) == 1, "what is out of range is refused uncharged"
    assert jax.config.jax_enable_x64 is False
