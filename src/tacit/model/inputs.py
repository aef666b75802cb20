"""How new records become what a model was trained on: the same public steps, in the same order.

cells        encoded by the public meaning of their columns, where there was a table
features     the public feature maps of the run
released     the mean record or the scales that the run has released, if it has
method       what the method does to each record by itself
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.federation import Records
from tacit.data.own_files.columns import Classes, Numeric
from tacit.data.own_files.frames import as_table
from tacit.data.own_files.preprocessing import Preprocessing
from tacit.errors import DataError
from tacit.features.maps import FeatureMap
from tacit.preludes.base import Released
from tacit.record_maps import centred_rows, with_x
from tacit.released_scaling import rescaled


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What is public about the records of a run, apart from its method and its task."""

    shape: tuple[int, ...]  # of one record's x, as the method takes it
    classes: int = 0
    columns: Preprocessing | None = None  # None: records are arrays
    maps: tuple[FeatureMap, ...] = ()
    released: Released = field(default_factory=dict)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The names of the classes, where the columns name them."""
        target = None if self.columns is None else self.columns.targets.get("y")
        meaning = None if target is None else target.meaning
        return meaning.values if isinstance(meaning, Classes) else None

    def records(self, data: Any, *, targets: bool) -> Records:
        """Records from a table or from arrays; with ``targets`` those have to be there too."""
        found = self.encoded(data, targets=targets)
        if "centre" in self.released:
            centre = np.asarray(self.released["centre"], np.float64)
            return with_x(found, centred_rows(found["x"], centre))
        return found

    def encoded(self, data: Any, *, targets: bool) -> Records:
        """The records after columns and feature maps, before a released centre."""
        given = self._given(data, targets=targets)
        x = given["x"]
        for step in self.maps:
            x = step.apply(x)
        found = self._rescaled(with_x(given, x))
        if found["x"].shape[1:] != self.shape:
            raise DataError(
                f"the records have {_size(found['x'].shape[1:])} each and the model takes"
                f" {_size(self.shape)}: give the same columns or arrays as in training."
            )
        return found

    def in_units(self, numbers: NDArray[Any]) -> NDArray[np.float64]:
        """Predictions of a numeric target in the units of its column."""
        target = None if self.columns is None else self.columns.targets.get("y")
        meaning = None if target is None else target.meaning
        if not isinstance(meaning, Numeric):
            return np.asarray(numbers, np.float64)
        middle = (meaning.low + meaning.high) / 2 if meaning.center is None else meaning.center
        half = (meaning.high - meaning.low) / 2 if meaning.scale is None else meaning.scale
        return np.asarray(numbers, np.float64) * half + middle

    def _given(self, data: Any, *, targets: bool) -> Records:
        if self.columns is not None:
            table = as_table(data)
            ready = self.columns.bounded()
            return ready.encode(table, unknown="ignore") if targets else ready.features_of(table)
        if isinstance(data, Mapping):
            found = {name: np.asarray(column) for name, column in data.items()}
        else:
            found = {"x": np.asarray(data)}
        wanted = ("x", "y") if targets else ("x",)
        missing = [name for name in wanted if name not in found]
        if missing:
            raise DataError(
                f"the model was trained on arrays and {missing[0]!r} is missing: give"
                f" {' and '.join(wanted)}, for instance {{'x': ..., 'y': ...}} or an NPZ file."
            )
        if found["x"].dtype.kind not in "buif":
            raise DataError(
                f"the records have type {found['x'].dtype}: the model was trained on arrays of"
                " numbers, give those."
            )
        if found["x"].ndim == 0 or len(found["x"]) == 0:
            raise DataError("there are no records to predict: give at least one.")
        if found["x"].dtype.kind == "f" and not np.isfinite(found["x"]).all():
            raise DataError("the records hold NaN or infinity: fill or drop them first.")
        return found

    def _rescaled(self, records: Records) -> Records:
        waiting = () if self.columns is None else self.columns.waiting
        given = {column.column: _of(self.released, column.column) for column in waiting}
        return rescaled(records, waiting, given) if waiting else records


def _of(released: Mapping[str, Any], column: str) -> tuple[float, float]:
    found = released[column]
    return float(found["mean"]), float(found["scale"])


def _size(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) + (" numbers" if len(shape) < 2 else "")
