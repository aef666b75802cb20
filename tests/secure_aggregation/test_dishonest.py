"""Dishonest servers and clients against a party: what each tries, and what stops it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy import stats
from sessions import Session, context, some_values

from tacit.errors import TacitError
from tacit.mechanisms.shares import Grid
from tacit.secure_aggregation import masks, shamir
from tacit.secure_aggregation.party import Party
from tacit.secure_aggregation.statements import (
    Keys,
    SessionError,
    agreement,
    public_keys,
    session_of,
    sign,
)
from tacit.secure_sum import SecureSum

EVERYONE = frozenset(range(5))


@pytest.fixture
def ready() -> Session:
    """Five clients whose masked numbers have come; four must stay."""
    session = Session(context())
    session.until_masked(some_values(session.about))
    return session


# The server.


def test_no_client_is_opened_as_present_and_as_missing(ready: Session) -> None:
    """Flower's SecAgg+ gives both shares of a client that is named in both sets."""
    shown = ready.server.present()
    for i in EVERYONE:
        ready.server.add_signature(i, ready.parties[i].agree(shown))
    held = {i: dict(party._held) for i, party in ready.parties.items()}
    for i, party in ready.parties.items():
        opened = party.open(ready.server.signatures())
        for client, share in opened.items():
            seed, pairs = held[i][client]
            assert share == seed != pairs
        with pytest.raises(SessionError, match="'closed'"):
            party.agree(shown - {0})
        with pytest.raises(SessionError, match="'closed'"):
            party.open(ready.server.signatures())


def test_two_sets_of_survivors_cannot_both_be_opened(ready: Session) -> None:
    """Halves are told different sets; colluders sign both. No half has enough signatures."""
    session = session_of(ready.about, ready.server._roster)
    sets = {True: EVERYONE, False: EVERYONE - {4}}
    told = {0: sets[True], 1: sets[True], 2: sets[False], 3: sets[False]}  # client 4 colludes
    signed = {i: ready.parties[i].agree(told[i]) for i in told}
    for i in told:
        forged = sign(ready.identities[4], agreement(session, EVERYONE, told[i]))
        with pytest.raises(SessionError, match="have signed who is in the sum"):
            ready.parties[i].open({**signed, 4: forged})


@pytest.mark.parametrize("honest", range(1, 13))
def test_thresholds_leave_no_room_for_two_sums(honest: int) -> None:
    """Honest clients sign once, the others for both: two sums never have enough signatures."""
    for clients in range(max(honest, 2), 13):
        for dropouts in range(clients):
            trust, dishonest = SecureSum(honest, dropouts), clients - honest
            need = trust.present(clients)
            possible = honest >= 2 * max(0, need - dishonest) and need <= clients
            try:
                trust.check(clients)
            except TacitError:
                assert possible or need <= dishonest or dropouts >= honest
            else:
                assert not possible
                # The least honest noise in any sum that can be opened.
                assert need - dishonest == trust.carriers(clients) >= 1


def test_a_sum_of_fewer_is_not_agreed_to(ready: Session) -> None:
    with pytest.raises(SessionError, match="fewer than 4"):
        ready.parties[0].agree(frozenset({0, 1, 2}))


def test_masked_numbers_come_once(ready: Session) -> None:
    """Two answers under the same masks differ by the numbers themselves."""
    with pytest.raises(SessionError, match="at 'agree', not at 'mask'"):
        ready.parties[0].mask(np.zeros(6, np.int64))
    with pytest.raises(SessionError, match="not at 'receive'"):
        ready.parties[0].receive(ready.server.shares_for(0))


def test_nothing_is_opened_without_signatures(ready: Session) -> None:
    for party in ready.parties.values():
        party.agree(EVERYONE)
    stranger = Ed25519PrivateKey.generate()
    statement = agreement(session_of(ready.about, ready.server._roster), EVERYONE, EVERYONE)
    lies = [{}, {i: bytes(64) for i in EVERYONE}, {i: sign(stranger, statement) for i in EVERYONE}]
    lies.append({i: sign(ready.identities[0], statement) for i in EVERYONE})  # one for all
    lies.append(dict.fromkeys((99, -1, 7, 8), sign(ready.identities[0], statement)))
    for party, lie in zip(ready.parties.values(), lies, strict=True):
        with pytest.raises(SessionError, match="have signed"):
            party.open(lie)


def keys_of(session: Session) -> dict[int, Keys]:
    return {i: party.keys() for i, party in session.parties.items()}


def test_keys_of_the_server_are_not_taken_for_a_clients() -> None:
    """Flower's keys are unsigned: its server can put its own in their place."""
    session = Session(context())
    roster = keys_of(session)
    own = X25519PrivateKey.generate().public_key().public_bytes_raw()
    for forged in (
        replace(roster[1], pairs=own),
        replace(roster[1], channel=own),
        replace(roster[1], seed=bytes(32)),
        replace(roster[1], signature=bytes(64)),
        roster[2],
    ):
        party = Party(session.about, 0, session.identities[0], session.signers)
        mine = party.keys()
        with pytest.raises(SessionError, match="not signed"):
            party.share({**roster, 0: mine, 1: forged})


def test_keys_of_another_session_do_not_fit() -> None:
    """Other run, round, phase, threshold, modulus, grid or settings: other signatures."""
    session = Session(context())
    roster = keys_of(session)
    changes = [
        {"federation": "other"},
        {"run": "other"},
        {"round": 4},
        {"phase": "accuracy"},
        {"present": 3},
        {"modulus": 64},
        {"widths": ((6, 21),)},
    ]
    for change in changes:
        other = replace(session.about, **change)
        party = Party(other, 0, session.identities[0], session.signers)
        with pytest.raises(SessionError, match="not signed"):
            party.share({**roster, 0: party.keys()})


def test_old_keys_of_the_same_round_are_of_no_use() -> None:
    """A round that failed has opened client 4's key. Its old keys in the new session lead nowhere.

    Client 4 itself does not find its new keys in the roster, and without it the others' sum is as
    if it were missing.
    """
    first = Session(context())
    old = keys_of(first)[4]
    again = Session(context(), first.identities)
    roster = {**keys_of(again), 4: old}
    for i in range(4):
        again.parties[i].share(roster)
    with pytest.raises(SessionError, match="this client's own keys"):
        again.parties[4].share(roster)


def test_rosters_are_those_of_the_federation() -> None:
    for change, said in (
        (lambda r: {i: r[i] for i in (0, 1, 2)}, "fewer than 4"),
        (lambda r: {**r, 7: r[1]}, "not those of this session"),
        (lambda r: {**r, -1: r[1]}, "not those of this session"),
        (lambda r: {i: r[i] for i in (1, 2, 3, 4)}, "own keys"),
    ):
        session = Session(context())
        with pytest.raises(SessionError, match=said):
            session.parties[0].share(change(keys_of(session)))


def test_shares_for_others_cannot_be_read() -> None:
    session = Session(context())
    roster = keys_of(session)
    sealed = {i: party.share(roster) for i, party in session.parties.items()}
    for lie in (
        {1: sealed[1][2], 2: sealed[2][0], 3: sealed[3][0]},  # meant for another
        {1: sealed[2][0], 2: sealed[2][0], 3: sealed[3][0]},  # from another
        {1: bytes(82), 2: sealed[2][0], 3: sealed[3][0]},
        {1: b"", 2: sealed[2][0], 3: sealed[3][0]},
    ):
        party = Party(session.about, 0, session.identities[0], session.signers)
        mine = party.keys()
        party.share({**roster, 0: mine})
        with pytest.raises(SessionError, match="cannot be read"):
            party.receive(lie)
        with pytest.raises(SessionError, match="closed"):
            party.mask(np.zeros(6, np.int64))


def test_a_session_of_another_client_is_refused() -> None:
    session = Session(context())
    with pytest.raises(SessionError, match="not the one that the settings name"):
        Party(session.about, 1, session.identities[0], session.signers)


def test_an_invalid_point_is_found_before_anything_is_masked() -> None:
    """A small-order key of a dishonest client would make the mask with it known to all."""
    session = Session(context())
    party = session.parties[4]
    party._own = replace(party._own, pairs=bytes(32), signature=b"")
    signature = sign(session.identities[4], party._own.statement(session.about, 4))
    party._own = replace(party._own, signature=signature)
    roster = keys_of(session)
    with pytest.raises(TacitError, match="not valid"):
        session.server.add_keys(4, roster[4])  # an honest server leaves it out
    sealed = {i: p.share(roster) for i, p in session.parties.items()}
    with pytest.raises(TacitError, match="not valid"):
        session.parties[0].receive({i: sealed[i][0] for i in range(1, 5)})
    assert session.parties[0]._step == "closed"


def test_masks_have_keys_of_256_bits_and_are_of_a_cipher() -> None:
    """Flower expands a seed of 32 bits with the Mersenne Twister: all seeds can be tried."""
    key = bytes(range(32))
    first = masks.mask(key, 64, 32)
    for bit in (0, 31, 32, 100, 255):
        other = bytearray(key)
        other[bit // 8] ^= 1 << bit % 8
        assert np.mean(masks.mask(bytes(other), 64, 32) == first) < 0.1
    names = ("seed", "pair", "channel")
    assert len({masks.derived(key, name, b"s", 0, 1) for name in names}) == 3
    assert masks.derived(key, "pair", b"s", 1, 11) != masks.derived(key, "pair", b"s", 11, 1)


def test_one_client_alone_sees_uniform_numbers(ready: Session) -> None:
    """The masked numbers of the same value are uniform, and independent between clients."""
    rows = []
    for _ in range(300):
        session = Session(context(numbers=8))
        values = np.full((5, 8), 12345)
        masked = session.until_masked(values)
        rows.append(np.stack([masked[i] for i in range(5)]))
    seen = np.stack(rows).astype(np.float64) / 2**32  # sessions x clients x numbers
    for i in range(5):
        assert stats.kstest(seen[:, i].ravel(), "uniform").pvalue > 1e-6
        for j in range(i):
            total = (seen[:, i] + seen[:, j]).ravel() % 1
            assert stats.kstest(total, "uniform").pvalue > 1e-6


# Dishonest clients.


def test_all_that_colluders_know_leaves_the_noise_of_the_honest() -> None:
    """Server and n - t clients take their own shares off, and make D honest ones drop out."""
    trust = SecureSum(honest=4, dropouts=1)
    grid = Grid(step=1.0, bits=6, modulus=32, largest=10**6)
    about = replace(context(5, trust.present(5)), widths=((40_000, 6),))
    noise = np.stack([grid.share(np.zeros(40_000)) for _ in range(5)])
    session = Session(about)
    session.until_masked(noise, without_values={1})  # honest, but the server loses it
    left = session.opened() - noise[4]  # client 4 colludes
    width = 64 * np.sqrt(trust.carriers(5))
    assert stats.kstest(left / width, "norm").pvalue > 1e-6
    assert stats.kstest(left / (64 * np.sqrt(4)), "norm").pvalue < 1e-9


def test_lies_of_one_opener_are_found_out() -> None:
    session = Session(context(clients=6, present=4))
    values = some_values(session.about)
    session.until_masked(values, without_values={5})
    present = session.server.present()
    for i in present:
        session.server.add_signature(i, session.parties[i].agree(present))
    for i in present:
        opened = session.parties[i].open(session.server.signatures())
        if i == 2:
            opened = dict.fromkeys(opened, bytes(33))
        session.server.add_opened(i, opened)
    np.testing.assert_array_equal(session.server.total(), values[:5].sum(axis=0))


def test_lies_that_cannot_be_left_out_give_no_sum() -> None:
    session = Session(context())
    session.until_masked(some_values(session.about), without_values={4})
    present = session.server.present()
    for i in present:
        session.server.add_signature(i, session.parties[i].agree(present))
    for i in present:
        opened = session.parties[i].open(session.server.signatures())
        session.server.add_opened(i, dict.fromkeys(opened, bytes(33)) if i == 2 else opened)
    with pytest.raises(SessionError, match="not those of its secret"):
        session.server.total()


def test_the_server_takes_nothing_of_a_wrong_form() -> None:
    session = Session(context())
    server, parties = session.server, session.parties
    with pytest.raises(SessionError, match="not signed"):
        server.add_keys(1, parties[0].keys())
    for i in range(1, 5):
        server.add_keys(i, parties[i].keys())
    roster = server.roster()
    sealed = parties[1].share(roster)
    for lie in ({}, {**sealed, 9: sealed[2]}, {**sealed, 2: b"short"}):
        with pytest.raises(SessionError, match="its shares"):
            server.add_shares(1, lie)
    with pytest.raises(SessionError, match="not expected"):
        server.add_masked(1, np.zeros(6, "<u4"))
    server.add_shares(1, sealed)
    for lie in (np.zeros(5, "<u4"), np.zeros(6, "<u8"), np.zeros((6, 1), "<u4")):
        with pytest.raises(SessionError, match="another form"):
            server.add_masked(1, lie)


def test_one_key_in_two_spellings_is_one_key() -> None:
    key = Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    with pytest.raises(TacitError, match="same signing key"):
        public_keys([key, key.upper()])


def test_secrets_are_forgotten(ready: Session) -> None:
    party = ready.parties[0]
    before = party._pairs.private_bytes_raw()
    party.close()
    assert party._seed == b"" and not party._held and not party._secrets
    assert party._pairs.private_bytes_raw() != before
    assert len(shamir.split(before, [1, 2], 2)) == 2  # it was a secret of the right form
