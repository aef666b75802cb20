"""Shamir's shares: enough give the secret, fewer say nothing."""

from __future__ import annotations

import random
import secrets
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.secure_aggregation import shamir


@given(st.integers(1, 8), st.integers(0, 4), st.binary(min_size=32, max_size=32))
def test_any_threshold_shares_give_the_secret(threshold: int, more: int, secret: bytes) -> None:
    points = random.Random(0).sample(range(1, 100), threshold + more)
    shares = shamir.split(secret, points, threshold)
    for group in list(combinations(points, threshold))[:20]:
        assert shamir.combine({point: shares[point] for point in group}) == secret


def test_the_field_is_a_prime_field() -> None:
    assert all(pow(base, shamir.PRIME - 1, shamir.PRIME) == 1 for base in (2, 3, 5, 7, 11, 13))
    assert shamir.PRIME > 2 ** (8 * shamir.SECRET)


def test_fewer_shares_are_uniform_whatever_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a small field all polynomials can be tried: two of three shares have one law."""
    monkeypatch.setattr(shamir, "PRIME", 5)
    laws = []
    for secret in (0, 3):
        seen: Counter[tuple[int, int]] = Counter()
        for a in range(5):
            for b in range(5):
                polynomial = [secret, a, b]
                seen[shamir._value(polynomial, 1), shamir._value(polynomial, 2)] += 1
        laws.append(seen)
    assert laws[0] == laws[1]
    assert set(laws[0].values()) == {1}


def test_a_wrong_share_gives_another_secret() -> None:
    secret = secrets.token_bytes(32)
    shares = shamir.split(secret, [1, 2, 3], 2)
    shares[1] = bytes(33)
    try:
        assert shamir.combine({1: shares[1], 2: shares[2]}) != secret
    except TacitError as error:
        assert "do not fit together" in str(error)


@pytest.mark.parametrize(("points", "threshold"), [([1, 1], 2), ([0, 1], 2), ([1, 2], 3)])
def test_impossible_shares_are_refused(points: list[int], threshold: int) -> None:
    with pytest.raises(TacitError, match="not possible"):
        shamir.split(bytes(32), points, threshold)
    with pytest.raises(TacitError, match="32 bytes"):
        shamir.split(b"short", [1, 2], 2)
