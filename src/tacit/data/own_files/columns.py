"""The public meaning of one column of a table: a number in a range, or one value of a list.

The range, the list and the fill value for a missing cell are public. They come from the
configuration or from public data. They are never computed from private records, because that would
be a release without a charge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.own_files.tables import Table
from tacit.errors import DataError

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
Where = Callable[[int], str]


@dataclass(frozen=True, kw_only=True)
class Numeric:
    """A number: clipped to [low, high], then ``(value - center) / scale``.

    Without ``center`` and ``scale`` the range becomes [-1, 1]. A mean and a scale from a charged
    release are stored in these two fields; ``release`` marks a column that still needs them.
    """

    low: float
    high: float
    fill: float | None = None
    indicator: bool = False
    center: float | None = None
    scale: float | None = None
    release: bool = False

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise DataError(f"the range [{self.low}, {self.high}] must have low below high.")
        if self.scale is not None and not (np.isfinite(self.scale) and self.scale > 0):
            raise DataError(f"the scale {self.scale} is not positive.")

    def as_config(self) -> dict[str, Any]:
        """The section of a configuration that describes it."""
        found: dict[str, Any] = {"range": [self.low, self.high], "indicator": self.indicator}
        if self.fill is not None:
            found["fill"] = self.fill
        return found | ({"scaling": "release"} if self.release else {})

    def as_target(self) -> dict[str, Any]:
        """The same, of a column to predict."""
        return {"range": [self.low, self.high], "scaled": self.scale is None}

    def features(self, name: str) -> list[str]:
        """The names of the features made from the column."""
        return [name, f"{name} is missing"] if self.indicator else [name]

    def encode(self, name: str, cells: NDArray[np.generic], where: Where) -> NDArray[np.float32]:
        """The column as features, one row per record."""
        values, missing = numbers(name, cells, where)
        if missing.any():
            if self.fill is None:
                raise DataError(
                    f"column {name!r} has a missing value in {where(int(np.argmax(missing)))}: "
                    f"write fill = ..., a public value that replaces missing ones."
                )
            values = np.where(missing, self.fill, values)
        center = (self.low + self.high) / 2 if self.center is None else self.center
        scale = (self.high - self.low) / 2 if self.scale is None else self.scale
        scaled = (np.clip(values, self.low, self.high) - center) / scale
        parts = [scaled, missing] if self.indicator else [scaled]
        return np.stack(parts, axis=1).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Categorical:
    """One value of a public list, encoded as one 0/1 feature per value (one-hot).

    A missing cell counts as ``fill``. ``other`` adds a feature for all values that are not in the
    list; without it such a cell is an error.
    """

    values: tuple[str, ...]
    fill: str | None = None
    other: bool = False
    drop_first: bool = False

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) != len(self.values):
            raise DataError(f"the categories {list(self.values)} must be distinct, at least one.")
        if self.fill is not None and self.fill not in self.values:
            raise DataError(f"fill = {self.fill!r} is not among the categories.")

    def as_config(self) -> dict[str, Any]:
        """The section of a configuration that describes it."""
        found: dict[str, Any] = {"categories": list(self.values), "other": self.other}
        return found if self.fill is None else found | {"fill": self.fill}

    def features(self, name: str) -> list[str]:
        """The names of the features made from the column."""
        named = [f"{name}={value}" for value in self.values]
        return (named[1:] if self.drop_first else named) + ([f"{name}=other"] if self.other else [])

    def encode(self, name: str, cells: NDArray[np.generic], where: Where) -> NDArray[np.float32]:
        """The column as features, one row per record."""
        codes = self.codes(name, cells, where)
        eye = np.eye(len(self.values) + self.other, dtype=np.float32)
        return eye[codes][:, int(self.drop_first) :]

    def codes(self, name: str, cells: NDArray[np.generic], where: Where) -> NDArray[np.int32]:
        """The index of each cell in the list (the length of the list for ``other``)."""
        known = np.array([_word(v) for v in self.values])
        text = _matched(words(cells), known)
        if self.fill is not None:
            text = np.where(np.isin(text, MISSING), self.fill, text)
        order = np.argsort(known)
        place = np.searchsorted(known, text, sorter=order).clip(max=len(known) - 1)
        codes = order[place].astype(np.int32)
        strange = known[codes] != text
        if strange.any() and not self.other:
            row = int(np.argmax(strange))
            shown = f"the value {str(text[row])!r}" if text[row] else "a missing value"
            raise DataError(
                f"column {name!r} has {shown} in {where(row)}, which is not in its public list "
                f"{list(self.values)}: add it to the list, or set other = true for such values."
            )
        return np.where(strange, np.int32(len(self.values)), codes)


@dataclass(frozen=True, kw_only=True)
class Classes:
    """A class label from a public list; ``y`` of a record is its index in the list."""

    values: tuple[str, ...]

    def as_target(self) -> dict[str, Any]:
        """The section of a configuration that describes it."""
        return {"classes": list(self.values)}

    def encode(self, name: str, cells: NDArray[np.generic], where: Where) -> NDArray[np.int32]:
        """The labels as integers from 0."""
        known = np.array([_word(v) for v in self.values])
        text = _matched(words(cells), known)
        strange = ~np.isin(text, known)
        if strange.any():
            row = int(np.argmax(strange))
            raise DataError(
                f"the label {str(text[row])!r} of column {name!r} in {where(row)} is not one of "
                f"the classes {list(self.values)}: list every class in the config."
            )
        return Categorical(values=self.values).codes(name, cells, where)


@dataclass(frozen=True, kw_only=True)
class Duration:
    """The time column of a survival target: 0 to a public ``longest``, in units of ``unit``."""

    event: str
    longest: float
    unit: float = 1.0

    def __post_init__(self) -> None:
        if not (self.longest > 0 and self.unit > 0):
            raise DataError("a survival target needs a positive longest time and unit.")

    def as_target(self) -> dict[str, Any]:
        """The section of a configuration that describes it."""
        return {"event": self.event, "longest": self.longest, "unit": self.unit}

    def encode(
        self, name: str, cells: NDArray[np.generic], events: NDArray[np.generic], where: Where
    ) -> NDArray[np.float32]:
        """Pairs (event, time); event is 1 if it happened at that time, 0 if censored."""
        time, gap = numbers(name, cells, where)
        happened, unknown = numbers(self.event, events, where)
        wrong = gap | unknown | ~np.isin(happened, (0, 1)) | ~(time >= 0)
        if wrong.any():
            raise DataError(
                f"{where(int(np.argmax(wrong)))} has no event 0 or 1 in {self.event!r} with a time "
                f"of 0 or more in {name!r}: correct or leave out the record."
            )
        pairs = np.stack([happened, np.minimum(time, self.longest) / self.unit], axis=1)
        return pairs.astype(np.float32)


def numbers(
    name: str, cells: NDArray[np.generic], where: Where
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The cells as floats with a mask of the missing ones."""
    if cells.dtype.kind in "biuf":
        values = cells.astype(np.float64)
        return values, np.isnan(values)
    text = words(cells)
    missing = np.isin(text, MISSING)
    try:
        values = np.where(missing, "nan", text).astype(np.float64)
    except ValueError:
        row = next(i for i, word in enumerate(text) if not (missing[i] or _is_number(word)))
        raise DataError(
            f"column {name!r} is numeric but has {str(text[row])!r} in {where(row)}: correct the "
            "cell, or declare the column with categories = [...]."
        ) from None
    infinite = np.isinf(values)
    if infinite.any():
        raise DataError(f"column {name!r} is infinite in {where(int(np.argmax(infinite)))}.")
    return values, missing | np.isnan(values)


def words(cells: NDArray[np.generic]) -> NDArray[np.str_]:
    """The cells as stripped text; 1.0 and 1 become the same text."""
    if cells.dtype.kind == "f":
        whole = np.isfinite(cells) & (cells == np.floor(cells))
        text = np.where(whole, np.where(whole, cells, 0).astype(np.int64).astype(str), "")
        return np.where(whole, text, np.where(np.isnan(cells), "", cells.astype(str)))
    return np.char.strip(cells.astype(str))


def _matched(text: NDArray[np.str_], known: NDArray[np.str_]) -> NDArray[np.str_]:
    """Replace unlisted texts by a listed text for the same whole number (1 for 1.0)."""
    distinct, inverse = np.unique(text, return_inverse=True)
    listed = set(known.tolist())
    plain = [w if w in listed or not _is_number(w) else _word(float(w)) for w in distinct.tolist()]
    matched = [p if p in listed else w for p, w in zip(plain, distinct.tolist(), strict=True)]
    return np.array(matched)[inverse.reshape(-1)]


def _word(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Target:
    """A column to predict and the meaning of its values."""

    column: str
    meaning: Numeric | Classes | Duration

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the target uses."""
        extra = (self.meaning.event,) if isinstance(self.meaning, Duration) else ()
        return (self.column, *extra)

    def as_config(self) -> dict[str, Any]:
        """The section of a configuration that describes it."""
        return {"column": self.column, **self.meaning.as_target()}

    def encode(self, table: Table) -> NDArray[np.generic]:
        """The target of each record."""
        cells = table.column(self.column)
        if isinstance(self.meaning, Duration):
            events = table.column(self.meaning.event)
            return self.meaning.encode(self.column, cells, events, table.where)
        encoded: NDArray[np.generic] = self.meaning.encode(self.column, cells, table.where)
        return encoded if encoded.ndim == 1 else encoded[:, 0]
