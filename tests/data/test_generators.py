from __future__ import annotations

import numpy as np
import pytest

from tacit.data.datasets import generators
from tacit.errors import DataError


def test_quadratic_is_solved_exactly_at_its_optimum() -> None:
    federation, optimum = generators.quadratic(clients=3, records=50, dimension=7, seed=1)
    assert federation.clients == 3
    assert federation.records["x"].shape == (150, 7)
    np.testing.assert_allclose(federation.records["x"] @ optimum, federation.records["y"])
    assert np.linalg.norm(federation.records["x"], axis=1).mean() == pytest.approx(1, abs=0.1)


def test_client_quadratics_gradient_vanishes_at_the_optimum() -> None:
    federation, optimum = generators.client_quadratics(clients=100, seed=0)
    a, center = federation.records["a"], federation.records["center"]
    assert a.shape == (100, 200, 20)
    assert federation.sizes.tolist() == [1] * 100
    gradient = np.einsum("ndr,ner,ne->d", a, a, optimum - center, optimize=True) / 100
    assert np.abs(gradient).max() < 1e-8
    assert a.std() == pytest.approx(1 / 20, rel=0.01)


def test_client_quadratics_start_gap_of_the_specification() -> None:
    # Starting at optimum + z, z uniform on (0, 1), the gap is z.Qz / 2 with E zz' = I/12 + 11'/4:
    # in expectation 5/3. The specification measured 1.675 over three problems.
    gaps = []
    for seed in range(10):
        a = generators.client_quadratics(seed=seed).federation.records["a"]
        curvature = np.einsum("ndr,ner->de", a, a) / len(a)
        gaps.append((np.trace(curvature) / 12 + curvature.sum() / 4) / 2)
    assert np.mean(gaps) == pytest.approx(5 / 3, rel=0.03)


def test_client_quadratics_are_moved_to_their_start() -> None:
    plain = generators.client_quadratics(clients=30, dimension=12, seed=1)
    moved = generators.client_quadratics(clients=30, dimension=12, start=0.2, seed=1)
    # The origin lies at optimum + 0.2 z, with z between 0 and 1 in every coordinate.
    assert (moved.optimum < 0).all()
    assert (moved.optimum > -0.2).all()
    shift = moved.optimum - plain.optimum
    np.testing.assert_allclose(
        moved.federation.records["center"] - plain.federation.records["center"],
        np.broadcast_to(shift, (30, 12)),
        atol=1e-12,
    )
    assert np.array_equal(moved.federation.records["a"], plain.federation.records["a"])


def test_fedexp_regression_has_the_stated_size() -> None:
    federation, optimum = generators.fedexp_regression(clients=400, dimension=100)
    x = federation.records["x"]
    np.testing.assert_allclose(x @ optimum, federation.records["y"])
    assert (x**2).sum(axis=1).mean() == pytest.approx(2.1 * 100, rel=0.05)


def test_ijcnn_like_rows_have_norm_one_and_both_labels() -> None:
    federation = generators.ijcnn_like()
    np.testing.assert_allclose(np.linalg.norm(federation.records["x"], axis=1), 1)
    assert (federation.clients, federation.classes) == (20, 2)
    assert 0.3 < federation.records["y"].mean() < 0.7


def test_breast_cancer_clients_differ() -> None:
    federation = generators.breast_cancer_clients()
    shares = [federation.client(i)["y"].mean() for i in range(5)]
    assert int(federation.sizes.sum()) == 569
    assert shares[0] < 0.1
    assert shares[-1] > 0.9
    assert np.linalg.norm(federation.records["x"], axis=1) == pytest.approx(1.0)


def test_seeds_and_bad_numbers() -> None:
    one, two = (generators.quadratic(seed=s).optimum for s in (0, 1))
    assert not np.allclose(one, two)
    np.testing.assert_array_equal(one, generators.quadratic(seed=0).optimum)
    with pytest.raises(DataError, match="clients is 0"):
        generators.quadratic(clients=0)
