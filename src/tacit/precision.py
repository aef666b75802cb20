"""The precision that a run computes in, and records in that precision."""

from __future__ import annotations

import contextlib
from typing import Any, Literal

import jax
import numpy as np

from tacit.errors import TacitError

Precision = Literal["float32", "float64"]


def precision(name: Precision) -> contextlib.AbstractContextManager[object]:
    """A context in which JAX computes with this precision."""
    if name not in ("float32", "float64"):
        raise TacitError(f"the precision is 'float32' or 'float64', not {name!r}.")
    return jax.enable_x64(name == "float64")


def cast(column: np.ndarray[Any, Any], dtype: Precision) -> np.ndarray[Any, Any]:
    """A column of records: floating numbers in this precision, long integers in 32 bits."""
    if column.dtype.kind == "f":
        with np.errstate(over="ignore"):  # infinite numbers are bounded like others
            return column.astype(dtype, copy=False)
    return column.astype(np.int32) if column.dtype.itemsize > 4 else column
