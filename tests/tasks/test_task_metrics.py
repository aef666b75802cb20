import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.tasks import metrics


def test_accuracy_by_hand():
    scores = np.array([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]])
    assert metrics.accuracy(scores, np.array([1, 0, 0])) == pytest.approx(2 / 3)


def test_scores_that_are_not_numbers_are_wrong_answers():
    scores = np.array([[np.nan, 2.0], [np.inf, 0.0], [0.0, 1.0]])
    assert metrics.accuracy(scores, np.array([0, 0, 1])) == pytest.approx(1 / 3)
    assert metrics.auc(scores[:, 0], np.array([0, 1, 1])) is None


def test_auc_by_hand():
    labels = np.array([0, 0, 1, 1])
    assert metrics.auc(np.array([0.1, 0.4, 0.35, 0.8]), labels) == pytest.approx(0.75)
    assert metrics.auc(np.array([1.0, 1.0, 1.0, 1.0]), labels) == 0.5
    assert metrics.auc(np.array([4.0, 3.0, 2.0, 1.0]), labels) == 0.0


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30))
def test_auc_counts_pairs(rows):
    scores = np.array([float(s) for s, _ in rows])
    labels = np.array([int(y) for _, y in rows])
    pairs = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for a in scores[labels == 1]
        for b in scores[labels == 0]
    ]
    found = metrics.auc(scores, labels)
    assert found is None if not pairs else found == pytest.approx(np.mean(pairs))


def test_one_class_has_no_auc():
    assert metrics.auc(np.array([0.1, 0.2]), np.array([1, 1])) is None


def test_concordance_by_hand():
    times = np.array([1.0, 2.0, 3.0, 4.0])
    events = np.array([1, 0, 1, 0])
    # Comparable: (0,1) (0,2) (0,3) (2,3).
    assert metrics.concordance(np.array([4.0, 3.0, 2.0, 1.0]), events, times) == 1.0
    assert metrics.concordance(np.array([1.0, 2.0, 3.0, 4.0]), events, times) == 0.0
    assert metrics.concordance(np.array([2.0, 2.0, 1.0, 3.0]), events, times) == (0.5 + 1) / 4


def test_concordance_of_equal_times():
    times = np.array([2.0, 2.0])
    assert metrics.concordance(np.array([2.0, 1.0]), np.array([1, 0]), times) == 1.0
    assert metrics.concordance(np.array([2.0, 1.0]), np.array([1, 1]), times) is None
    assert metrics.concordance(np.array([2.0, 1.0]), np.array([0, 0]), times) is None


def test_regression_by_hand():
    y = np.array([1.0, 2.0, 3.0])
    assert metrics.mean_squared_error(np.array([1.0, 2.0, 5.0]), y) == pytest.approx(4 / 3)
    assert metrics.r_squared(np.array([1.0, 2.0, 5.0]), y) == pytest.approx(1 - 2.0)
    assert metrics.r_squared(y, np.ones(3)) is None


def test_poisson_deviance_by_hand():
    counts = np.array([0, 2])
    assert metrics.poisson_deviance(np.array([1.0, 2.0]), counts) == pytest.approx(1.0)
    expected = 2 * (2 * np.log(2) - 1)
    assert metrics.poisson_deviance(np.array([1.0]), counts[1:]) == pytest.approx(expected)


def test_no_records_no_metrics():
    none = np.zeros((0, 2))
    empty = np.zeros(0)
    assert metrics.accuracy(none, empty) is None
    assert metrics.mean_squared_error(empty, empty) is None
    assert metrics.r_squared(empty, empty) is None
    assert metrics.poisson_deviance(empty, empty) is None
