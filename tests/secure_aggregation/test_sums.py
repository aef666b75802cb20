"""Honest secure sums: the sum of those who are there, whoever is missing and when."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sessions import Session, context, some_values

from tacit.secure_aggregation.masks import mask, signed, whole
from tacit.secure_aggregation.statements import SessionError


@pytest.mark.parametrize("modulus", [32, 64])
@pytest.mark.parametrize("missing", [None, "keys", "shares", "values", "opening"])
def test_the_sum_of_those_who_are_there(modulus: int, missing: str | None) -> None:
    about = context(modulus=modulus)
    values = some_values(about)
    session = Session(about)
    lost = {2} if missing in ("keys", "shares", "values") else set()
    named = {"keys": "without_keys", "shares": "without_shares", "values": "without_values"}
    session.until_masked(values, **({named[missing]: lost} if lost else {}))
    found = session.opened(silent={2} if missing == "opening" else ())
    there = [i for i in range(about.clients) if i not in lost]
    np.testing.assert_array_equal(found, values[there].sum(axis=0))


def test_different_clients_at_different_steps() -> None:
    about = context(clients=7, present=4)
    session = Session(about)
    values = some_values(about)
    session.until_masked(values, without_shares={0}, without_values={3})
    found = session.opened(silent={5})
    np.testing.assert_array_equal(found, values[[1, 2, 4, 5, 6]].sum(axis=0))


@pytest.mark.parametrize("step", ["without_keys", "without_shares", "without_values"])
def test_too_few_give_nothing(step: str) -> None:
    about = context()
    session = Session(about)
    with pytest.raises(SessionError, match="needs 4"):
        session.until_masked(some_values(about), **{step: {0, 1}})
        session.opened()


def test_too_few_openers_give_nothing() -> None:
    session = Session(context())
    session.until_masked(some_values(session.about))
    with pytest.raises(SessionError, match="needs 4"):
        session.opened(silent={0, 1})


def test_signed_numbers_wrap_around() -> None:
    values = np.array([-5, 0, 7, 2**31 - 1, -(2**31)])
    np.testing.assert_array_equal(signed(whole(values, 32)), values)


def test_masks_are_uniform_and_differ_by_key() -> None:
    one, other = (mask(bytes([i]) * 32, 20_000, 32) for i in (1, 2))
    for bits in (one, other, one ^ other):
        counts = np.bincount(bits >> np.uint32(26), minlength=64)
        assert stats.chisquare(counts).pvalue > 1e-4
    np.testing.assert_array_equal(one, mask(b"\1" * 32, 20_000, 32))
