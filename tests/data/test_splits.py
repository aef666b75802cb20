from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.data.splits import cuts as splits
from tacit.errors import DataError

SPLITS: dict[str, Callable[[np.ndarray, int, int], splits.Parts]] = {
    "iid": lambda y, n, seed: splits.iid(len(y), n, seed=seed),
    "dirichlet": lambda y, n, seed: splits.dirichlet(y, n, alpha=0.05, seed=seed),
    "dirichlet-equal": lambda y, n, seed: splits.dirichlet(
        y, n, alpha=0.05, equal_sizes=True, seed=seed
    ),
    "shards": lambda y, n, seed: splits.shards(
        y, n, labels_per_client=-(-len(np.unique(y)) // n), seed=seed
    ),
    "mixed": lambda y, n, seed: splits.mixed(y, n, iid_share=0.3, seed=seed),
    "by-column": lambda y, n, seed: splits.by_column(y, n, seed=seed),
}


@pytest.mark.parametrize("name", SPLITS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_record_once_and_nobody_empty(name: str, data: st.DataObject) -> None:
    y = np.array(data.draw(st.lists(st.integers(0, 5), min_size=12, max_size=120)))
    clients = data.draw(st.integers(1, 6))
    seed = data.draw(st.integers(0, 2**32))
    parts = SPLITS[name](y, clients, seed)
    assert len(parts) == clients
    assert all(len(part) for part in parts)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(y)))
    again = SPLITS[name](y, clients, seed)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize("name", sorted(set(SPLITS) - {"by-column"}))
def test_another_seed_gives_other_clients(name: str) -> None:
    y = np.arange(400) % 10
    one, two = SPLITS[name](y, 10, 1), SPLITS[name](y, 10, 2)
    assert any(not np.array_equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("name", SPLITS)
def test_as_many_clients_as_records(name: str) -> None:
    y = np.arange(10)
    assert [len(part) for part in SPLITS[name](y, 10, 0)] == [1] * 10


@pytest.mark.parametrize("name", SPLITS)
def test_more_clients_than_records_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=r"at most 5 clients|need"):
        SPLITS[name](np.arange(5), 6, 0)


def test_iid_sizes_differ_by_at_most_one() -> None:
    sizes = [len(p) for p in splits.iid(103, 10)]
    assert set(sizes) == {10, 11}


def test_small_alpha_concentrates_labels() -> None:
    y = np.arange(5000) % 10
    few = [len(np.unique(y[p])) for p in splits.dirichlet(y, 20, alpha=0.05)]
    many = [len(np.unique(y[p])) for p in splits.dirichlet(y, 20, alpha=100.0)]
    assert np.mean(few) < 6 < np.mean(many)


def test_dirichlet_shares_have_the_right_spread() -> None:
    y = np.zeros(200_000, dtype=int)
    shares = np.array([len(p) for p in splits.dirichlet(y, 50, alpha=2.0, seed=3)]) / len(y)
    # a share is Beta(alpha, 49 alpha): variance p (1 - p) / (50 alpha + 1)
    expected = (1 / 50) * (49 / 50) / 101
    assert 0.5 * expected < shares.var() < 2 * expected


def test_equal_sizes_are_equal_and_still_uneven_in_labels() -> None:
    y = np.arange(6000) % 10
    parts = splits.dirichlet(y, 60, alpha=0.1, equal_sizes=True)
    assert {len(p) for p in parts} == {100}
    leading = [np.bincount(y[p]).max() for p in parts]
    assert np.median(leading) > 40


@pytest.mark.parametrize("k", [1, 2, 5])
def test_shards_hold_at_most_k_labels(k: int) -> None:
    y = np.repeat(np.arange(10), np.arange(50, 550, 50))
    for part in splits.shards(y, 30, labels_per_client=k):
        assert len(np.unique(y[part])) <= k


def test_shards_of_paper_001_are_equal() -> None:
    y = np.repeat(np.arange(10), 6000)
    parts = splits.shards(y, 3000, labels_per_client=5)
    assert {len(p) for p in parts} == {20}


def test_shards_that_cannot_hold_all_labels_are_refused() -> None:
    with pytest.raises(DataError, match="10 labels"):
        splits.shards(np.arange(100) % 10, 3, labels_per_client=3)


def test_mixed_is_the_network_experiment_of_paper_002() -> None:
    y = np.repeat(np.arange(10), 3850)
    parts = splits.mixed(y, 10, iid_share=10_000 / 38_500, seed=0)
    for label, part in enumerate(parts):
        counts = np.bincount(y[part], minlength=10)
        assert counts.argmax() == label
        others = np.delete(counts, label)
        assert 700 <= others.sum() <= 1100  # its own uniform thousand, less the digit itself
        assert 2700 <= counts[label] - others.mean() <= 3000


def test_mixed_with_more_clients_than_labels_shares_a_label() -> None:
    y = np.arange(1000) % 4
    parts = splits.mixed(y, 8, iid_share=0.0)
    assert [set(y[p]) for p in parts] == [{i % 4} for i in range(8)]


def test_by_column_follows_values_or_slices() -> None:
    jobs = np.array(["b", "a", "b", "c"])
    assert [p.tolist() for p in splits.by_column(jobs)] == [[1], [0, 2], [3]]
    assert splits.owner_names(jobs) == ("a", "b", "c")
    ages = np.array([50, 20, 40, 30])
    assert [sorted(p.tolist()) for p in splits.by_column(ages, 2)] == [[1, 3], [0, 2]]


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_alpha(alpha: float) -> None:
    with pytest.raises(DataError, match="positive"):
        splits.dirichlet(np.arange(10), 2, alpha=alpha)


def test_impossible_numbers() -> None:
    with pytest.raises(DataError, match="at least 1"):
        splits.iid(10, 0)
    with pytest.raises(DataError, match="no records"):
        splits.iid(0, 1)
    with pytest.raises(DataError, match="0 to 1"):
        splits.mixed(np.arange(10), 2, iid_share=1.5)
    with pytest.raises(DataError, match="at least 1"):
        splits.shards(np.arange(10), 2, labels_per_client=0)
    with pytest.raises(DataError, match="one label per record"):
        splits.dirichlet(np.zeros((4, 3)), 2, alpha=1.0)
