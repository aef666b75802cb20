"""Measured numbers of a run: one row for each metric at each look."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measured number."""

    round: int
    metric: str
    value: float
