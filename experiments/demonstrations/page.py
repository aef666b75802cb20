"""Write the stored numbers into ``docs/explanation/attacks.md``, between its markers.

The text around the numbers is written by hand and is not changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.demonstrations import (
    message_membership,
    model_membership,
    printed_images,
    printed_settings,
    reconstruction,
)

PAGE = Path("docs/explanation/attacks.md")
RESULTS = Path("results/demonstrations")
TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    each.NAME: each.table
    for each in (
        model_membership,
        message_membership,
        reconstruction,
        printed_settings,
        printed_images,
    )
}
_MARK = re.compile(r"(<!-- (?P<name>[a-z-]+): begin -->\n).*?(<!-- (?P=name): end -->)", re.DOTALL)


def stored(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """The results of one demonstration, with the command that made them."""
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return found


def written(text: str, folder: Path = RESULTS) -> str:
    """The page with the tables of the stored results."""
    return _MARK.sub(
        lambda m: f"{m[1]}{TABLES[m['name']](stored(m['name'], folder))}\n{m[3]}", text
    )


def write() -> Path:
    """Write the page."""
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return PAGE
