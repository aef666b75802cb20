"""Writes the tables of the threat model from threats.toml; run it after a change there."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BEGIN, END = "<!-- threats: begin -->\n", "<!-- threats: end -->\n"


def matrix() -> list[dict[str, Any]]:
    """The parties, each with what it may do."""
    found: list[dict[str, Any]] = tomllib.loads((HERE / "threats.toml").read_text())["party"]
    return found


def tests() -> Iterator[str]:
    """Every test that a cell names."""
    for party in matrix():
        for cell in party["may"]:
            yield from cell.get("held", ())


def tables() -> str:
    """A table for each party."""
    return "\n".join(_table(party) for party in matrix())


def written(page: str) -> str:
    """The page with the tables of now between its marks."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + "\n" + tables() + "\n" + END + rest.partition(END)[2]


def _table(party: dict[str, Any]) -> str:
    name = party["name"]
    lines = [f"### {name[0].upper()}{name[1:]}", "", f"{party['about']}.", ""]
    lines += ["| may try to | noise drawn at | what holds |", "|---|---|---|"]
    for cell in party["may"]:
        lines.append(f"| {cell['do']} | {cell.get('places', 'any place')} | {_answer(cell)} |")
    return "\n".join([*lines, ""])


def _answer(cell: dict[str, Any]) -> str:
    if "not_protected" in cell:
        return f"**Not protected.** {cell['not_protected']}"
    return "<br>".join(f"`{_short(name)}`" for name in cell["held"])


def _short(name: str) -> str:
    """The test without its folder."""
    file, _, test = name.partition("::")
    return test or file.removeprefix("tests/")


if __name__ == "__main__":
    place = HERE / "threat-model.md"
    place.write_text(written(place.read_text(encoding="utf-8")), encoding="utf-8")
