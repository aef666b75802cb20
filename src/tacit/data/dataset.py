"""A dataset before it is split over clients: records, a public test set, and possible owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tacit.data.federation import Records
from tacit.errors import DataError

Groups = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Training records, public test records, and columns by which records can be grouped.

    ``groups`` are columns that identify an owner of each record (``writer``, ``hospital``,
    ``job``); ``natural`` is the one that corresponds to real clients. ``classes`` is public.
    """

    name: str
    title: str
    records: Records
    test: Records | None = None
    classes: int = 0
    groups: Groups = field(default_factory=dict)
    test_groups: Groups = field(default_factory=dict)
    natural: str | None = None

    def __post_init__(self) -> None:
        for name, values in self.groups.items():
            if len(values) != len(self):
                raise DataError(
                    f"the group column {name!r} of {self.name} has {len(values)} values for "
                    f"{len(self)} records."
                )
        if self.natural is not None and self.natural not in self.groups:
            raise DataError(f"{self.name} has no group column {self.natural!r}.")

    def __len__(self) -> int:
        return len(next(iter(self.records.values())))

    def take(self, indices: NDArray[np.integer]) -> Dataset:
        """The same dataset with only these training records."""
        return replace(
            self,
            records={k: v[indices] for k, v in self.records.items()},
            groups={k: v[indices] for k, v in self.groups.items()},
        )


Cut = tuple[Records, Records | None, Groups, Groups]


def fixed_split(
    records: Records, test_share: float, *, groups: Groups | None = None, seed: int = 20240229
) -> Cut:
    """Split off a test set for records that have none; the fixed seed is part of the dataset."""
    if not 0 <= test_share < 1:
        raise DataError(f"test_share is {test_share}: give a number from 0 to below 1.")
    count = len(next(iter(records.values())))
    testing = np.zeros(count, dtype=np.bool_)
    order = np.random.default_rng(seed).permutation(count)
    testing[order[: round(test_share * count)]] = True
    return parted(records, testing, groups or {})


def parted(records: Records, testing: NDArray[np.bool_], groups: Groups) -> Cut:
    """Training records, test records (None if there are none), and the groups of both."""
    train, own = ({k: v[~testing] for k, v in part.items()} for part in (records, groups))
    if not testing.any():
        return train, None, own, {}
    test, held = ({k: v[testing] for k, v in part.items()} for part in (records, groups))
    return train, test, own, held
