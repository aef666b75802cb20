"""Hold out records for testing.

A dataset may have a public test set. If it has none, a share of every client's records, or some
whole clients (other writers, another hospital), can be held out. These are private records, so
metrics on them are oracle metrics, and the federation marks them as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tacit.data.federation import Federation
from tacit.errors import DataError


def hold_out(
    federation: Federation, share: float, *, seed: int = 0
) -> tuple[Federation, Federation]:
    """Hold out a share of each client's records: a training and a test federation.

    A client keeps at least one training record, so a client with few records may have no test
    records. The test federation has only the clients with test records.
    """
    if not 0 < share < 1:
        raise DataError(f"the held-out share is {share}: give a number between 0 and 1.")
    rng = np.random.default_rng(seed)
    kept: list[NDArray[np.int64]] = []
    held: list[NDArray[np.int64]] = []
    for start, size in zip(federation.offsets, federation.sizes, strict=True):
        order = start + rng.permutation(size)
        back = min(round(share * int(size)), int(size) - 1)
        held.append(np.sort(order[:back]))
        kept.append(np.sort(order[back:]))
    if not any(len(part) for part in held):
        raise DataError(
            f"no client has enough records to hold out a share of {share:g}: use a larger share or "
            "a public test set."
        )
    testing = [i for i, part in enumerate(held) if len(part)]
    return (
        _chosen(federation, kept, federation.names),
        _chosen(federation, [held[i] for i in testing], [federation.names[i] for i in testing]),
    )


def leave_out(federation: Federation, names: Sequence[str]) -> tuple[Federation, Federation]:
    """Hold out whole clients by name: these test, the others train."""
    unknown = [name for name in names if name not in federation.names]
    if unknown:
        raise DataError(f"there is no client {unknown[0]!r} to hold out.")
    out = set(names)
    if not 0 < len(out) < federation.clients:
        raise DataError(
            f"{len(out)} of {federation.clients} clients cannot be held out: keep at least one for "
            "training and one for testing."
        )
    parts = [
        np.arange(start, start + size)
        for start, size in zip(federation.offsets, federation.sizes, strict=True)
    ]
    sides = []
    for chosen in (False, True):
        clients = [i for i, name in enumerate(federation.names) if (name in out) == chosen]
        sides.append(
            _chosen(federation, [parts[i] for i in clients], [federation.names[i] for i in clients])
        )
    return sides[0], sides[1]


def leave_out_share(
    federation: Federation, share: float, *, seed: int = 0
) -> tuple[Federation, Federation]:
    """Hold out a random share of the clients, at least one."""
    if not 0 < share < 1:
        raise DataError(f"the share of clients to hold out is {share}: give 0 < share < 1.")
    count = max(1, round(share * federation.clients))
    order = np.random.default_rng(seed).permutation(federation.clients)
    return leave_out(federation, [federation.names[i] for i in sorted(order[:count])])


def with_held_out(train: Federation, held: Federation) -> Federation:
    """The training clients, tested on held-out private records (marked as such)."""
    return replace(train, test=held.records, test_from="clients")


def _chosen(
    federation: Federation, parts: Sequence[NDArray[np.int64]], names: Sequence[str]
) -> Federation:
    return Federation.from_parts(
        federation.records,
        parts,
        names=names,
        test=federation.test,
        classes=federation.classes,
        title=federation.title,
    )
