"""Tables that people have in memory: pandas, polars, pyarrow, or a dict of columns.

None of the libraries is imported: a table is recognised by what it can do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.own_files.tables import Table
from tacit.errors import DataError


def is_frame(data: Any) -> bool:
    """Whether this is a table of one of the known kinds."""
    return isinstance(data, Table) or _names(data) is not None


def as_table(data: Any) -> Table:
    """The table with plain columns: numbers, or text with "" for what is missing."""
    if isinstance(data, Table):
        return data
    names = list(data) if isinstance(data, Mapping) else _names(data)
    if names is None:
        raise DataError(
            f"a {type(data).__name__} is no table: give a pandas, polars or pyarrow table, or a"
            " dict of columns."
        )
    for name in names:
        if not isinstance(name, str):
            raise DataError(f"a column is called {name!r}: names of columns are texts.")
    columns = {name: _plain(name, data[name]) for name in names}
    sizes = {len(column) for column in columns.values()}
    if len(sizes) > 1:
        raise DataError("the columns of the table have different lengths.")
    if not columns or sizes == {0}:
        raise DataError("the table has no records.")
    return Table(columns, ("the table",), (sizes.pop(),))


def _names(data: Any) -> list[Any] | None:
    """The names of the columns; None if it is no table."""
    if hasattr(data, "column_names") and hasattr(data, "column"):  # pyarrow
        return list(data.column_names)
    if hasattr(data, "columns") and hasattr(data, "shape") and hasattr(data, "__getitem__"):
        return list(data.columns)  # pandas, polars
    return None


def _plain(name: str, column: Any) -> NDArray[np.generic]:
    """One column: whole numbers, floats and booleans stay, everything else becomes text."""
    if hasattr(column, "to_numpy"):
        kind = str(getattr(column, "dtype", getattr(column, "type", "")))
        values = np.asarray(_numpy(column, kind))
    else:
        values = np.asarray(column)
    if values.ndim != 1:
        raise DataError(f"column {name!r} has shape {values.shape}: give one value per record.")
    if values.dtype.kind in "buif":
        return values
    if values.dtype.kind == "U":
        return values
    return np.array(["" if _is_missing(v) else str(v) for v in values.tolist()])


def _numpy(column: Any, kind: str) -> Any:
    if kind.lower() in _NULLABLE:  # pandas' own numbers with missing values
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    try:
        return column.to_numpy(zero_copy_only=False)  # pyarrow copies only if it may
    except TypeError:
        return column.to_numpy()


_NULLABLE = frozenset(
    {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {"float32", "float64"}
)


def _is_missing(value: Any) -> bool:
    # None, NaN, pandas.NA and NaT: what is missing is not equal to itself, or says so.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value
