"""The papers' synthetic problems, made from a seed.

Nothing here was ever anybody's record, so optima and constants may be computed freely. A
:class:`Problem` is a federation with the point that training should reach.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.data.federation import Federation
from tacit.errors import DataError


class Problem(NamedTuple):
    """A generated federation and the minimiser of its mean loss."""

    federation: Federation
    optimum: NDArray[np.float64]


def quadratic(
    *,
    clients: int = 2,
    records: int = 1500,
    dimension: int = 20,
    scale: float | None = None,
    seed: int = 0,
) -> Problem:
    """The artificial task T1 of the AdaptDP-FedAvg paper: interpolating least squares.

    A record z has the loss ``(z.(x - b))**2 / 2``, stored as the regression record ``x = z``,
    ``y = z.b`` so that least squares fits it exactly at ``b``. The paper leaves the law of z open:
    here its entries are N(0, scale^2) with scale ``1/sqrt(dimension)``, so that ``|z|`` is near 1.
    """
    _check_positive(clients=clients, records=records, dimension=dimension)
    rng = np.random.default_rng(seed)
    width = dimension**-0.5 if scale is None else scale
    b = rng.standard_normal(dimension)
    z = width * rng.standard_normal((clients * records, dimension))
    federation = _equal_clients({"x": z, "y": z @ b}, clients, "quadratic (AdaptDP-FedAvg, T1)")
    return _problem(federation, b)


def client_quadratics(
    *,
    clients: int = 100,
    dimension: int = 200,
    rank: int = 20,
    start: float | None = None,
    seed: int = 0,
) -> Problem:
    """The quadratic of the DP-NormFedAvg paper: each client holds one low-rank quadratic.

    Client i's single record is ``a`` (dimension x rank, entries N(0, 1/20^2)) and ``center``
    (N(0, I)), with ``f_i(w) = |a.T (w - center)|**2 / 2``, that is ``Q_i = a a.T``. Training
    starts at the origin; with ``start`` the problem is moved so that the origin lies at
    ``optimum + start * z``, z uniform on (0, 1): 1 is the paper's start I1, 0.2 its I2.
    """
    _check_positive(clients=clients, dimension=dimension, rank=rank)
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((clients, dimension, rank)) / 20
    center = rng.standard_normal((clients, dimension))
    curvature = np.einsum("ndr,ner->de", a, a)
    pull = np.einsum("ndr,ner,ne->d", a, a, center, optimize=True)
    optimum = np.linalg.lstsq(curvature, pull, rcond=None)[0]
    if start is not None:
        origin = optimum + start * rng.random(dimension)
        center, optimum = center - origin, optimum - origin
    federation = _equal_clients(
        {"a": a, "center": center}, clients, "client quadratics (DP-NormFedAvg)"
    )
    return _problem(federation, optimum)


def ijcnn_like(
    *, clients: int = 20, records: int = 100, dimension: int = 22, shift: float = 0.5, seed: int = 0
) -> Federation:
    """Like the ijcnn experiment of the dynamic LDP paper: binary labels, rows of norm one.

    Clients' features have means of their own (``shift``), so that the clients disagree; labels
    follow one logistic model. Rows are normalised, which makes every logistic gradient at most 1.
    """
    _check_positive(clients=clients, records=records, dimension=dimension)
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(dimension)
    means = shift * rng.standard_normal((clients, 1, dimension))
    x = means + rng.standard_normal((clients, records, dimension))
    x = (x / np.linalg.norm(x, axis=-1, keepdims=True)).reshape(-1, dimension)
    odds = 1 / (1 + np.exp(-5 * (x @ truth)))
    y = (rng.random(len(x)) < odds).astype(np.int32)
    return _equal_clients({"x": x, "y": y}, clients, "ijcnn-like (dynamic LDP)", classes=2)


def fedexp_regression(*, clients: int = 1000, dimension: int = 500, seed: int = 0) -> Problem:
    """The synthetic regression of the DP-FedEXP paper: one record per client, a shared optimum.

    ``x_i ~ N(m_i, I)``, ``m_i ~ N(u_i, I)`` coordinate by coordinate, ``u_i ~ N(0, 0.1)`` (a
    variance), ``y_i = x_i.w``. ``|x|**2`` is near 2.1 x dimension, so a local step of
    ``(x.w - y)**2`` is stable only below about ``1 / (2.1 * dimension)``.
    """
    _check_positive(clients=clients, dimension=dimension)
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(dimension)
    u = np.sqrt(0.1) * rng.standard_normal((clients, 1))
    m = u + rng.standard_normal((clients, dimension))
    x = m + rng.standard_normal((clients, dimension))
    federation = _equal_clients({"x": x, "y": x @ w}, clients, "regression (DP-FedEXP)")
    return _problem(federation, w)


def breast_cancer_clients(*, clients: int = 5) -> Federation:
    """Scikit-learn's breast cancer records over unlike clients, to check the DP-ScaffNew paper.

    The 569 tumours are sorted by mean radius and cut into equal slices, rows scaled to norm one
    (the logistic loss is then 1/4-smooth on every client). All records train; there is no test set.
    """
    from tacit.data.datasets.embedded import breast_cancer
    from tacit.data.splits.cuts import by_column

    dataset = breast_cancer(test_share=0.0)
    x = np.asarray(dataset.records["x"], dtype=np.float64)
    parts = by_column(x[:, 0], clients)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    return Federation.from_parts(
        {"x": x, "y": dataset.records["y"]},
        parts,
        names=[f"radius-slice-{i + 1}" for i in range(clients)],
        classes=2,
        title="breast cancer by radius (DP-ScaffNew)",
    )


def _problem(federation: Federation, optimum: NDArray[np.float64]) -> Problem:
    return Problem(replace(federation, optimum=optimum), optimum)


def _equal_clients(
    records: dict[str, NDArray[np.generic]], clients: int, title: str, classes: int = 0
) -> Federation:
    count = len(next(iter(records.values())))
    return Federation(
        records=records,
        sizes=np.full(clients, count // clients),
        names=tuple(f"client-{i}" for i in range(clients)),
        classes=classes,
        title=title,
    )


def _check_positive(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise DataError(f"{name} is {value}: give at least 1.")
