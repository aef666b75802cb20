"""A federation: the records of each client, and a public test set.

Records are a mapping of named arrays with one leading axis (``x`` features, ``y`` targets). The
records of all clients are in one array, client after client. So clients of different sizes need no
padding, and a client is a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError

Records = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, kw_only=True)
class Federation:
    """The records and names of the clients, and test records.

    ``test`` is public unless ``test_from`` says that it was held out from the clients' own records.
    ``classes`` is public information about the task (0 for regression), never counted in records.
    """

    records: Records
    sizes: NDArray[np.int64]
    names: tuple[str, ...]
    test: Records | None = None
    classes: int = 0
    title: str = "federation"
    optimum: NDArray[np.float64] | None = None  # known for a generated problem only
    test_from: Literal["public", "clients"] = "public"
    source: Mapping[str, Any] | None = None  # the configuration sections that reproduce it
    maps: tuple[Any, ...] = ()  # the public feature maps that x has passed

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", np.asarray(self.sizes, dtype=np.int64))
        _check_clients(self.sizes, self.names)
        _check_records(self.records, int(self.sizes.sum()), self.title)
        if self.test is not None:
            _check_records(self.test, len(next(iter(self.test.values()))), f"{self.title} test set")
            _check_same_columns(self.records, self.test)
        if self.classes:
            for part in (self.records, self.test):
                if part is not None and "y" in part:
                    _check_labels(part["y"], self.classes, self.title)

    @classmethod
    def from_clients(
        cls,
        clients: Mapping[str, Records],
        *,
        test: Records | None = None,
        classes: int = 0,
        title: str = "federation",
    ) -> Federation:
        """Concatenate the records of named clients."""
        if not clients:
            raise DataError(f"{title} has no clients: give at least one.")
        parts = list(clients.values())
        columns = set(parts[0])
        for name, part in clients.items():
            if set(part) != columns:
                raise DataError(
                    f"client {name!r} has the columns {sorted(part)}, the others have"
                    f" {sorted(columns)}: give every client the same columns."
                )
        try:
            records = {c: np.concatenate([np.asarray(p[c]) for p in parts]) for c in parts[0]}
        except ValueError as error:
            raise DataError(
                f"the clients of {title} have records of different shapes ({error})."
            ) from None
        sizes = np.array([len(next(iter(p.values()))) for p in parts])
        return cls(
            records=records,
            sizes=sizes,
            names=tuple(clients),
            test=test,
            classes=classes,
            title=title,
        )

    @classmethod
    def from_parts(
        cls,
        records: Records,
        parts: Sequence[NDArray[np.integer]],
        *,
        names: Sequence[str] | None = None,
        test: Records | None = None,
        classes: int = 0,
        title: str = "federation",
    ) -> Federation:
        """Give record ``i`` to the client whose part contains ``i``; splits return such parts."""
        order = np.concatenate([np.asarray(p, dtype=np.int64) for p in parts])
        return cls(
            records={k: np.asarray(v)[order] for k, v in records.items()},
            sizes=np.array([len(p) for p in parts]),
            names=tuple(names)
            if names is not None
            else tuple(f"client-{i}" for i in range(len(parts))),
            test=test,
            classes=classes,
            title=title,
        )

    @property
    def clients(self) -> int:
        """The number of clients."""
        return len(self.sizes)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """The index of the first record of each client."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def client(self, index: int) -> Records:
        """The records of one client."""
        start = int(self.offsets[index])
        return {k: v[start : start + int(self.sizes[index])] for k, v in self.records.items()}

    def mapped(self, change: Callable[[Records], Records]) -> Federation:
        """The same clients, with a map applied to all records and to the test set."""
        test = None if self.test is None else change(self.test)
        return replace(self, records=change(self.records), test=test)

    def with_test(self, test: Records) -> Federation:
        """The same clients with another public test set."""
        return replace(self, test=test, test_from="public")


def _check_clients(sizes: NDArray[np.int64], names: tuple[str, ...]) -> None:
    if len(sizes) == 0:
        raise DataError("a federation needs at least one client.")
    if len(names) != len(sizes):
        raise DataError(f"there are {len(sizes)} clients but {len(names)} names.")
    if len(set(names)) != len(names):
        seen: set[str] = set()
        twice = next(n for n in names if n in seen or seen.add(n))  # type: ignore[func-returns-value]
        raise DataError(f"two clients are called {twice!r}: names must differ.")
    empty = np.flatnonzero(sizes <= 0)
    if len(empty):
        raise DataError(
            f"client {names[int(empty[0])]!r} has no records ({len(empty)} of {len(sizes)} clients"
            " are empty): leave empty clients out."
        )


def _check_records(records: Records, count: int, title: str) -> None:
    if not records:
        raise DataError(f"{title} has no columns.")
    for name, column in records.items():
        if len(column) != count:
            raise DataError(
                f"column {name!r} of {title} has {len(column)} rows, but {count} are expected."
            )
        if column.dtype.kind not in "buif":
            raise DataError(
                f"column {name!r} of {title} has type {column.dtype}: encode it as numbers first."
            )
        if column.dtype.kind == "f" and not np.isfinite(column).all():
            row = int(np.argwhere(~np.isfinite(column))[0][0])
            raise DataError(
                f"column {name!r} of {title} has NaN or infinity (first in row {row}): "
                "fill or drop such records before training."
            )


def _check_same_columns(records: Records, test: Records) -> None:
    for name, column in records.items():
        if name not in test:
            raise DataError(f"the test set has no column {name!r}.")
        if test[name].shape[1:] != column.shape[1:]:
            raise DataError(
                f"column {name!r} has shape {column.shape[1:]} in training and "
                f"{test[name].shape[1:]} in the test set."
            )


def _check_labels(labels: NDArray[np.generic], classes: int, title: str) -> None:
    if labels.dtype.kind not in "bui":
        raise DataError(f"the labels of {title} have type {labels.dtype}: give integers from 0.")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise DataError(
            f"a label of {title} is {low if low < 0 else high}, outside 0 to {classes - 1}."
        )
