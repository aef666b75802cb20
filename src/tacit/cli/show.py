"""Output of results: JSON for programs, tables and wrapped sentences for people."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from tacit.accounting import Guarantee


def as_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object; an infinite number becomes the string "inf"."""
    typer.echo(json.dumps(_finite(value), indent=2, allow_nan=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Print a table that fits the terminal; all columns except the first are right-aligned."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    shown = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        shown.add_column(column, justify="right" if index else "left")
    for row in rows:
        shown.add_row(*row)
    Console().print(shown)


def guarantee(sure: Guarantee) -> None:
    """Print a guarantee and what it means."""
    told(sure.as_dict())


def told(found: Mapping[str, Any], before: str = "") -> None:
    """Print the sentence of a guarantee that was kept as JSON, and what it means."""
    sentence(f"{before}{found['sentence']}")
    if found.get("meaning"):
        sentence(found["meaning"])


def sentence(text: str) -> None:
    """Print a sentence wrapped to the terminal."""
    from rich.console import Console

    Console(highlight=False).print(text, markup=False, soft_wrap=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
