"""The message-passing engine with clients that fail, lie, are late or stay silent."""

import jax
import numpy as np
import pytest

from local_federation import LocalFederation
from tacit.accounting import Budget, Ledger
from tacit.algorithms import DPFedAvg
from tacit.data.federation import Federation
from tacit.tasks.logistic import Logistic
from tacit.wire.codec import decode, encode
from tacit.wire.holdings import Holdings

TASK = Logistic(features=3)
CENTRAL = DPFedAvg(local_steps=2, local_lr=0.5, clip=0.3, noise=1.5)
LOCAL = DPFedAvg(noise_at="message", clip=0.3, noise=5.0)


def federation(seed=0):
    rng = np.random.default_rng(seed)
    return Federation(
        records={"x": rng.standard_normal((20, 3)), "y": rng.integers(0, 2, 20)},
        sizes=np.array([5, 5, 5, 5]),
        names=("a", "b", "c", "d"),
        classes=2,
    )


def federated(algorithm=CENTRAL, seed=1, **options):
    return LocalFederation(algorithm, TASK, federation(), seed=seed, **options)


def vector(params):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])


def one_round(change, number=0):
    """A round in which the reply of client 2 is changed."""
    group = federated()

    def ask(requests):
        replies = group.ask(requests)
        replies[2] = change(replies[2])
        return replies

    report = group.server.round(number, ask)
    return group, report


def altered(reply, **fields):
    message = decode(reply)
    return encode(message.kind, {**message.fields, **fields}, message.meta)


def with_value(value):
    def change(reply):
        message = decode(reply)
        name = next(iter(message.fields))
        return altered(reply, **{name: np.full_like(message.fields[name], value)})

    return change


def as_other_dtype(reply):
    message = decode(reply)
    name = next(iter(message.fields))
    return altered(reply, **{name: message.fields[name].astype(np.float64)})


def as_other_shape(reply):
    message = decode(reply)
    name = max(message.fields, key=lambda n: message.fields[n].size)
    return altered(reply, **{name: np.zeros(99, np.float32)})


def of_another_round(reply):
    message = decode(reply)
    return encode(message.kind, message.fields, {**message.meta, "round": 7})


FAULTS = {
    "silence": (lambda reply: None, "no reply"),
    "garbage": (lambda reply: b"\x00garbage", "message"),
    "a cut message": (lambda reply: reply[:-3], ""),
    "a flipped byte": (lambda reply: reply[:-9] + bytes([reply[-9] ^ 1]) + reply[-8:], ""),
    "NaN": (with_value(np.nan), "not finite"),
    "infinity": (with_value(np.inf), "not finite"),
    "another type": (as_other_dtype, "expected"),
    "another shape": (as_other_shape, "expected"),
    "a late reply": (of_another_round, "another request"),
    "another kind": (lambda reply: encode("hello", {}, {"round": 0}), "another request"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_reply_is_left_out_and_noise_and_divisor_stay(fault):
    change, reason = FAULTS[fault]
    group, report = one_round(change)
    assert [e.client for e in report.excluded] == [2]
    assert reason in report.excluded[0].reason
    # Exactly the lost contribution is missing: noise and divisor are those of the whole round.
    kept = {}
    whole, _ = one_round(lambda reply: kept.setdefault("reply", reply))
    lost = vector(decode(kept["reply"]).fields)
    difference = vector(whole.params) - vector(group.params)
    np.testing.assert_allclose(difference, lost / 4, atol=1e-6)


def test_an_empty_cohort_still_gets_its_noise():
    group = federated()
    before = vector(group.params)
    report = group.server.round(0, lambda requests: {})
    assert len(report.excluded) == 4
    assert np.abs(vector(group.params) - before).max() > 1e-3


def test_what_goes_wrong_in_a_client_stays_there():
    """The failure replies of two clients with different records are the same bytes."""
    replies = []
    for seed in (0, 1):
        client = LocalFederation(CENTRAL, TASK, federation(seed), seed=1).clients[0]
        replies.append(client.answer(encode("train", {"bad": np.zeros(3)}, {"round": 0})))
        assert client.last_error is not None
    assert replies[0] == replies[1]
    assert decode(replies[0]).kind == "failed"


@pytest.mark.parametrize(
    "request_", [b"", b"noise", encode("dance", {}, {"round": 0}), encode("train", {}, {})]
)
def test_a_client_survives_any_request(request_):
    client = federated().clients[0]
    assert decode(client.answer(request_)).kind == "failed"


def test_a_client_keeps_its_budget_and_charges_first(tmp_path):
    event = LOCAL.release.event(0, relation="replace-one", cohort=LOCAL.cohort.scheme(4), records=5)
    ledger = Ledger.create(
        tmp_path / "a.jsonl", unit="client", relation="replace-one", observer="the server"
    )
    two_rounds = Budget(4.0, 1e-5)
    group = federated(LOCAL, holdings={0: Holdings(ledger, two_rounds)})
    reports = group.run(40)
    refused = [r.round for r in reports if any(e.client == 0 for e in r.excluded)]
    assert refused, "the budget must run out"
    assert refused == list(range(refused[0], 40))
    assert "budget" in reports[-1].excluded[0].reason
    charges = list(ledger.charges)
    assert len(charges) == refused[0]
    assert all(charge.done and charge.event == event for charge in charges)
    assert ledger.guarantee(1e-5).epsilon <= 4.0
    assert ledger.would_exceed(event, two_rounds)
    ledger.close()


def test_a_client_never_takes_its_noise_from_a_message(tmp_path):
    """A request that claims another clip or noise changes nothing of the reply."""
    client = federated(LOCAL).clients[0]
    sent = {"['b']": np.zeros((), np.float32), "['w']": np.zeros(3, np.float32)}
    plain = client.answer(encode("train", sent, {"round": 0, "counted": -1}))
    again = (
        federated(LOCAL)
        .clients[0]
        .answer(
            encode("train", sent, {"round": 0, "counted": -1, "noise": 0.0, "clip": 1e9, "seed": 3})
        )
    )
    assert plain == again
    assert decode(plain).kind == "train"


def test_without_a_seed_no_two_runs_are_alike():
    runs = [LocalFederation(LOCAL, TASK, federation()) for _ in range(2)]
    for group in runs:
        group.run(1)
    assert not np.allclose(vector(runs[0].params), vector(runs[1].params))
