"""Disjoint groups that take turns: nobody pays for another's turn, and the worst client counts."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from dp_accounting import dp_event
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import compose, epsilon_of, gaussian_event, pure_event, repeated
from tacit.accounting.event_json import decode_event, encode_event
from tacit.accounting.events import Everyone, GroupDpEvent, Turns, in_turn
from tacit.accounting.leaves import Leaf, leaves
from tacit.accounting.ledger import Ledger
from tacit.errors import LedgerError, TacitError
from tacit.sampling import TurnsCohort

NOISY = gaussian_event(radius=1.0, noise=2.0, relation="add-remove")


@given(st.integers(1, 40), st.integers(1, 12))
def test_a_run_costs_the_turns_of_the_client_that_is_asked_most(rounds: int, groups: int) -> None:
    scheme = Turns(groups=groups)
    run = compose(*(in_turn(NOISY, r, scheme) for r in range(rounds)))
    most = max(np.bincount(np.arange(rounds) % groups))
    (leaf,) = leaves(run, "add-remove")
    assert leaf.size == pytest.approx(math.sqrt(most) / 2)


def test_pure_messages_are_counted_by_client() -> None:
    scheme = Turns(groups=10)
    run = compose(*(in_turn(pure_event(1.5), r, scheme) for r in range(20)))
    assert leaves(run, "replace-one") == (Leaf("pure", 1.5, count=2),)
    assert epsilon_of(run, delta=0.0, relation="replace-one") == 3.0


def test_what_touches_everyone_is_added_to_the_worst_group() -> None:
    scheme = Turns(groups=2)
    levels = (1.0, 2.0, 4.0)  # group 0 pays for the first and the last
    events = [
        in_turn(gaussian_event(radius=1.0, noise=s, relation="add-remove"), r, scheme)
        for r, s in enumerate(levels)
    ]
    (leaf,) = leaves(compose(NOISY, *events), "add-remove")
    assert leaf.size == pytest.approx(math.sqrt(1 / 4 + 1 + 1 / 16))


def test_groups_that_differ_in_kind_are_covered_together() -> None:
    run = compose(
        GroupDpEvent(0, 2, 0, pure_event(1.0, count=3)),
        GroupDpEvent(1, 2, 0, compose(pure_event(1.0), pure_event(2.0))),
    )
    found = {(leaf.size, leaf.count) for leaf in leaves(run, "replace-one")}
    assert found == {(1.0, 3), (2.0, 1)}


def test_groups_of_two_partitions_may_overlap_and_add_up() -> None:
    one, other = Turns(groups=4, seed=1), Turns(groups=4, seed=2)
    run = compose(in_turn(pure_event(1.0), 0, one), in_turn(pure_event(1.0), 3, other))
    assert epsilon_of(run, delta=0.0, relation="replace-one") == 2.0


def test_a_group_inside_a_group_is_refused() -> None:
    inner = GroupDpEvent(0, 2, 0, pure_event(1.0))
    with pytest.raises(TacitError, match="another group event"):
        leaves(GroupDpEvent(1, 2, 0, inner), "replace-one")


def test_other_schemes_and_empty_events_stay_as_they_are() -> None:
    assert in_turn(NOISY, 3, Everyone()) is NOISY
    nothing = dp_event.NoOpDpEvent()
    assert in_turn(nothing, 3, Turns(groups=5)) is nothing


def test_a_ledger_holds_turns_and_adds_them_up_by_client(tmp_path: object) -> None:
    path = f"{tmp_path}/ledger.jsonl"
    scheme = Turns(groups=3)
    with Ledger.create(path, unit="client", relation="replace-one", observer="all") as ledger:
        for r in range(7):
            ledger.charge(in_turn(pure_event(0.5), r, scheme), round=r)
    assert Ledger.read(path).guarantee(0.0).epsilon == 1.5  # group 0 spoke three times


def test_json_keeps_the_partition() -> None:
    event = repeated(GroupDpEvent(2, 5, 7, NOISY), 3)
    assert decode_event(encode_event(event)) == event
    with pytest.raises(LedgerError, match="numbered"):
        encode_event(GroupDpEvent(5, 5, 0, NOISY))


@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 5))
def test_every_client_has_one_turn_in_a_cycle(clients: int, groups: int, seed: int) -> None:
    if groups > clients:
        return
    cohort = TurnsCohort(groups, seed)
    masks = [np.asarray(cohort.mask(jax.random.key(0), clients, r)) for r in range(2 * groups)]
    assert (np.sum(masks[:groups], axis=0) == 1).all()
    assert all((masks[r] == masks[r + groups]).all() for r in range(groups))
    sizes = [mask.sum() for mask in masks]
    assert max(sizes) - min(sizes) <= 1
    assert cohort.expected(clients) == pytest.approx(np.mean(sizes))
    assert cohort.scheme(clients) == Turns(groups=groups, seed=seed)


def test_impossible_turns_are_refused() -> None:
    with pytest.raises(TacitError, match="at least one group"):
        TurnsCohort(0)
    with pytest.raises(TacitError, match="cannot take turns"):
        TurnsCohort(5).expected(4)
