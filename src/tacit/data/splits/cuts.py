"""Splits of one set of records over clients.

Each split returns one array of record indices per client. Every record is used exactly once, no
client is empty, and the same seed gives the same clients:

=================  ==================================================================
``iid``            a uniformly random share each
``dirichlet``      label shares drawn from Dirichlet(alpha): small alpha, few labels each
``shards``         label-sorted shards, ``labels_per_client`` of them each
``mixed``          a uniform part, and the rest by label (as in dynamic LDP, arXiv:2308.01139)
``by_column``      one client per value of a column, or equal slices along it
``natural``        the real owner of the records: a writer, a hospital, a role
=================  ==================================================================
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import DataError

Parts = list[NDArray[np.int64]]
Seed = int | np.random.Generator


def iid(records: int, clients: int, *, seed: Seed = 0) -> Parts:
    """Shuffle the records and give equal shares (sizes differ by at most one)."""
    _check_counts(records, clients)
    order = np.random.default_rng(seed).permutation(records)
    return [part.astype(np.int64) for part in np.array_split(order, clients)]


def dirichlet(
    labels: ArrayLike, clients: int, *, alpha: float, equal_sizes: bool = False, seed: Seed = 0
) -> Parts:
    """Uneven label shares from Dirichlet(alpha).

    By default each label is divided over the clients in Dirichlet proportions, so client sizes
    differ too. ``equal_sizes`` draws a label mixture for each client instead (Hsu, Qi and Brown,
    2019) and fills clients of equal size from it; if a label runs out, other labels are used.
    """
    values = _labels(labels)
    _check_counts(len(values), clients)
    if not (np.isfinite(alpha) and alpha > 0):
        raise DataError(f"alpha is {alpha}: a Dirichlet split needs a positive number.")
    rng = np.random.default_rng(seed)
    groups = _by_value(values, rng)
    if equal_sizes:
        return _fill_from_mixtures(groups, clients, alpha, rng)
    owner = np.empty(len(values), dtype=np.int64)
    for group in groups:
        shares = rng.dirichlet(np.full(clients, alpha))
        cuts = np.round(np.cumsum(shares)[:-1] * len(group)).astype(np.int64)
        owner[group] = np.searchsorted(cuts, np.arange(len(group)), side="right")
    return _without_empty(_parts_of(owner, clients), rng)


def shards(labels: ArrayLike, clients: int, *, labels_per_client: int, seed: Seed = 0) -> Parts:
    """Sort by label, make ``labels_per_client * clients`` shards, and give each client its share.

    A shard has one label only, so a client holds at most ``labels_per_client`` labels. Shards are
    equal in size if the label counts allow it.
    """
    values = _labels(labels)
    _check_counts(len(values), clients)
    wanted = labels_per_client * clients
    if labels_per_client < 1:
        raise DataError(f"labels_per_client is {labels_per_client}: give at least 1.")
    if wanted > len(values):
        raise DataError(
            f"{clients} clients with {labels_per_client} shards each need {wanted} records, but "
            f"there are {len(values)}: use fewer clients or fewer labels per client."
        )
    rng = np.random.default_rng(seed)
    groups = _by_value(values, rng)
    if wanted < len(groups):
        raise DataError(
            f"{clients} clients with at most {labels_per_client} labels each cannot hold "
            f"{len(groups)} labels: use more clients or more labels per client."
        )
    pieces: Parts = []
    for group, count in zip(groups, _shards_per_label(groups, wanted), strict=True):
        pieces.extend(np.array_split(group, count))
    deal = rng.permutation(wanted).reshape(clients, labels_per_client)
    return [np.concatenate([pieces[s] for s in hand]) for hand in deal]


def mixed(labels: ArrayLike, clients: int, *, iid_share: float, seed: Seed = 0) -> Parts:
    """Split a share of the records uniformly over all clients, and the rest by label.

    The network experiment of dynamic LDP (arXiv:2308.01139, A.4) gives 10,000 of 38,500 digits
    uniformly to 10 nodes, and all other records of label j to node j: ``clients=10, iid_share=
    10_000 / 38_500``. With more clients than labels, the clients congruent to a label (modulo the
    number of labels) share it; with fewer, a client gets several labels.
    """
    values = _labels(labels)
    _check_counts(len(values), clients)
    if not 0 <= iid_share <= 1:
        raise DataError(f"iid_share is {iid_share}: give a number from 0 to 1.")
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(values))
    uniform = round(iid_share * len(values))
    owner = np.empty(len(values), dtype=np.int64)
    owner[order[:uniform]] = np.arange(uniform) % clients
    rest = np.sort(order[uniform:])
    kinds = np.unique(values)
    for j, kind in enumerate(kinds):
        group = rng.permutation(rest[values[rest] == kind])
        takers = np.arange(j % clients, clients, len(kinds))
        owner[group] = takers[np.arange(len(group)) % len(takers)]
    return _without_empty(_parts_of(owner, clients), rng)


def by_column(values: ArrayLike, clients: int | None = None, *, seed: Seed = 0) -> Parts:
    """One client per value of a column; with ``clients``, equal slices of the sorted column."""
    column = np.asarray(values)
    if column.ndim != 1:
        raise DataError(f"a column to split by needs one value per record, not {column.shape}.")
    if clients is None:
        return natural(column)
    _check_counts(len(column), clients)
    ties = np.random.default_rng(seed).permutation(len(column))
    order = np.lexsort((ties, column))
    return [part.astype(np.int64) for part in np.array_split(order, clients)]


def natural(owners: ArrayLike) -> Parts:
    """One client per distinct owner, in the order of ``owner_names``."""
    column = np.asarray(owners)
    _check_counts(len(column), 1)
    _, owner = np.unique(column, return_inverse=True)
    return _parts_of(owner.reshape(-1).astype(np.int64), int(owner.max()) + 1)


def owner_names(owners: ArrayLike) -> tuple[str, ...]:
    """The names of the clients that ``natural`` makes, in the same order."""
    return tuple(str(name) for name in np.unique(np.asarray(owners)))


def _check_counts(records: int, clients: int) -> None:
    if records < 1:
        raise DataError("there are no records to split.")
    if clients < 1:
        raise DataError(f"the number of clients is {clients}: give at least 1.")
    if clients > records:
        raise DataError(
            f"{records} records cannot be split over {clients} clients without leaving some "
            f"empty: use at most {records} clients."
        )


def _labels(labels: ArrayLike) -> NDArray[np.generic]:
    values: NDArray[np.generic] = np.asarray(labels)
    if values.ndim != 1:
        raise DataError(
            f"a split by label needs one label per record, but the labels have shape "
            f"{values.shape}: use an iid or a natural split."
        )
    return values


def _by_value(values: NDArray[np.generic], rng: np.random.Generator) -> Parts:
    """The shuffled record indices of each distinct value."""
    _, inverse = np.unique(values, return_inverse=True)
    return [rng.permutation(g) for g in _parts_of(inverse.astype(np.int64), int(inverse.max()) + 1)]


def _parts_of(owner: NDArray[np.int64], clients: int) -> Parts:
    order = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner, minlength=clients)
    return np.split(order, np.cumsum(sizes)[:-1])


def _without_empty(parts: Parts, rng: np.random.Generator) -> Parts:
    """Move one random record from the largest client to each empty one."""
    empty = [i for i, part in enumerate(parts) if not len(part)]
    if not empty:
        return parts
    largest = [(-len(part), i) for i, part in enumerate(parts)]
    heapq.heapify(largest)
    given: dict[int, list[int]] = {}
    hands: dict[int, list[int]] = {}
    for taker in empty:
        size, donor = heapq.heappop(largest)
        if donor not in hands:
            hands[donor] = rng.permutation(parts[donor]).tolist()
        given[taker] = [hands[donor].pop()]
        heapq.heappush(largest, (size + 1, donor))
    for client, hand in (*hands.items(), *given.items()):
        parts[client] = np.sort(np.array(hand, dtype=np.int64))
    return parts


def _fill_from_mixtures(
    groups: Sequence[NDArray[np.int64]], clients: int, alpha: float, rng: np.random.Generator
) -> Parts:
    counts = np.array([len(g) for g in groups])
    prior = counts / counts.sum()
    mixtures = rng.dirichlet(alpha * len(groups) * prior, size=clients)
    sizes = np.full(clients, counts.sum() // clients)
    sizes[: counts.sum() % clients] += 1
    left = counts.copy()
    parts: Parts = []
    for mixture, size in zip(mixtures, sizes, strict=True):
        taken = np.zeros(len(groups), dtype=np.int64)
        while (missing := int(size - taken.sum())) > 0:
            weights = np.where(left > taken, mixture, 0.0)
            if weights.sum() <= 0:
                weights = np.maximum(left - taken, 0).astype(float)
            drawn = rng.multinomial(missing, weights / weights.sum())
            taken = np.minimum(taken + drawn, left)
        start = counts - left
        parts.append(
            np.concatenate([g[s : s + t] for g, s, t in zip(groups, start, taken, strict=True)])
        )
        left -= taken
    return parts


def _shards_per_label(groups: Sequence[NDArray[np.int64]], wanted: int) -> list[int]:
    """Divide ``wanted`` shards over the labels by size: at least one each, no shard empty."""
    counts = np.array([len(g) for g in groups])
    exact = wanted * counts / counts.sum()
    given = np.maximum(1, np.floor(exact)).astype(np.int64)
    while given.sum() < wanted:
        given[np.argmax(np.where(given < counts, exact - given, -np.inf))] += 1
    while given.sum() > wanted:
        given[np.argmax(np.where(given > 1, given - exact, -np.inf))] -= 1
    return [int(g) for g in given]
