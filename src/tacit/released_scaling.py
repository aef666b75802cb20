"""Columns that wait for a released mean and scale, and what happens when they come.

Until then a waiting column lies in its public range, mapped to [-1, 1]. The mean and scale of a
charged release are in the column's own units, as ``Preprocessing.with_release`` takes them, and
applying them to the encoded records is the same as encoding again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tacit.tasks.base import HostRecords

Scaling = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Waiting:
    """A column by name, its place among the features, and its public range."""

    column: str
    feature: int
    low: float
    high: float

    @property
    def middle(self) -> float:
        """What lies at 0."""
        return (self.low + self.high) / 2

    @property
    def half(self) -> float:
        """Half of the range: what lies 1 away."""
        return (self.high - self.low) / 2

    def in_units(self, mean: float, scale: float) -> tuple[float, float]:
        """A mean and a scale on [-1, 1] in the units of the column."""
        return self.middle + self.half * mean, self.half * scale


def rescaled(records: HostRecords, waiting: Sequence[Waiting], given: Scaling) -> HostRecords:
    """The same records, each waiting column minus its mean and divided by its scale."""
    x = np.array(records["x"])
    for column in waiting:
        mean, scale = given[column.column]
        within = np.clip(x[:, column.feature].astype(np.float64), -1, 1)  # as the release saw it
        values = column.middle + column.half * within
        x[:, column.feature] = (values - mean) / scale
    return {**records, "x": x}
