"""The result of a search as a table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def table(content: Mapping[str, Any]) -> str:
    """One line a task: the worst over precisions and compilations, and the models tried."""
    lines = [
        "| task | largest contribution / bound | found by | in | models |",
        "|---|---|---|---|---|",
    ]
    rows: list[dict[str, Any]] = content["rows"]
    for task in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == task]
        top = max(own, key=lambda row: row["worst"])
        place = f"{top['dtype']}, compiled: {top['compiled']}"
        models = sum(row["models"] for row in own)
        lines.append(f"| {task} | {top['worst']:.9f} | {top['recipe']} | {place} | {models:,} |")
    total = sum(row["models"] for row in rows)
    worst = max(row["worst"] for row in rows)
    lines.append(f"| all | {worst:.9f} | | | {total:,} |")
    return "\n".join(lines)
