"""Maps of each record on its own: they need no knowledge of any other record, so they are free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tacit.tasks.base import HostRecords

Rows = NDArray[np.floating]


def unit_rows(x: NDArray[np.generic]) -> Rows:
    """Every record scaled to norm 1 over all its numbers; a record of zeros stays as it is."""
    values = np.asarray(x, x.dtype if x.dtype.kind == "f" else np.float32)
    flat = values.reshape(len(values), -1)
    # The largest entry first: squares of very large or small ones leave the range of floats.
    largest = np.abs(flat).max(axis=1, initial=0.0, keepdims=True)
    flat = flat / np.where(largest > 0, largest, 1)
    norms = np.linalg.norm(flat, axis=1, keepdims=True)
    unit: Rows = (flat / np.where(norms > 0, norms, 1)).reshape(values.shape)
    return unit


def centred_rows(x: NDArray[np.generic], centre: NDArray[np.floating]) -> Rows:
    """Every record of norm 1, minus the centre, scaled to norm 1 again."""
    unit = unit_rows(x)
    return unit_rows(unit - np.asarray(centre, unit.dtype).reshape(unit.shape[1:]))


def with_x(records: HostRecords, x: NDArray[np.generic]) -> dict[str, NDArray[np.generic]]:
    """The records with other features."""
    return {**records, "x": x}
