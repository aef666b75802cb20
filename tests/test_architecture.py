"""The house keeps its shape: imports point one way, and every room is on the architecture page."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TACIT = ROOT / "src" / "tacit"
PAGE = ROOT / "docs" / "explanation" / "architecture.md"

NOUNS = {
    *("bounds", "mechanisms", "sampling", "release", "population", "phase", "algorithm"),
    *("boundary", "local", "gram_steps", "record_sums", "tasks", "record_maps"),
    *("released_scaling", "diagnostics", "secure_sum"),
}
BASICS = {
    *("errors", "validation", "tree", "precision", "random_numbers", "streams", "exact_sums"),
    "atomic_write",
}
MAY_IMPORT = {
    "errors": set(),
    "accounting": {"errors"},
    "secure_aggregation": {"errors"},
    "run_status": {"errors"},
    "live": {"errors", "accounting", "run_status", "deployment"},
    "schedules": {"errors", "accounting"},
    "preludes": {"errors", "accounting", *NOUNS, *BASICS},
    "algorithms": {"errors", "accounting", "schedules", "preludes", *NOUNS, *BASICS},
    "planning": {"errors", "accounting", "schedules", "preludes", "algorithms", *NOUNS, *BASICS},
    "data": {"errors", "validation", "released_scaling", "cache_folder"},
    **{noun: {"errors", "accounting", *NOUNS, *BASICS} for noun in NOUNS},
    **dict.fromkeys(BASICS, BASICS),
}
IMPORTED_BY = {
    "audit": {"cli"},
    "live": {"cli"},
    "run_status": {"run", "deployment", "live"},
    "simulation": {"run", "audit", "cli", "__init__"},
    "wire": {"deployment"},
    "secure_aggregation": {"wire", "deployment"},
    "run": {"audit", "cli", "deployment", "__init__"},
    "deployment": {"cli", "live"},
    "cli": {"__main__"},
}


@cache
def graph() -> dict[str, set[str]]:
    """The rooms that each room imports, from every import statement, wherever it stands."""
    found: dict[str, set[str]] = {}
    for path in TACIT.rglob("*.py"):
        room = path.relative_to(TACIT).with_suffix("").parts[0]
        others = found.setdefault(room, set())
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                names = whole if node.module == "tacit" else [node.module]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            others |= {n.split(".")[1] for n in names if n.startswith("tacit.")}
        others.discard(room)
    return found


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_what_is_below_it(room: str) -> None:
    assert graph()[room] <= MAY_IMPORT[room], graph()[room] - MAY_IMPORT[room]


@pytest.mark.parametrize("room", sorted(IMPORTED_BY))
def test_a_room_is_imported_only_from_above(room: str) -> None:
    importers = {other for other, imported in graph().items() if room in imported}
    assert importers <= IMPORTED_BY[room]


def test_no_room_imports_itself_through_others() -> None:
    def below(room: str, seen: frozenset[str]) -> None:
        assert room not in seen, f"a cycle: {' -> '.join([*seen, room])}"
        for other in graph().get(room, ()):
            if other != "__init__":
                below(other, seen | {room})

    for room in graph():
        below(room, frozenset())


def test_research_is_not_in_the_wheel() -> None:
    for path in TACIT.rglob("*.py"):
        assert not re.search(r"^\s*(from|import) (experiments|benchmarks)", path.read_text(), re.M)


def listed() -> set[str]:
    """The modules and rooms of the layout block, by their paths in ``src/tacit``."""
    block = PAGE.read_text().split("## Layout", 1)[1].split("```text\n", 1)[1].split("```", 1)[0]
    found, room = set(), ""
    for line in block.splitlines():
        indent = len(line) - len(line.lstrip())
        name = line.split()[0]
        if line.startswith("src/tacit/"):
            continue
        if indent == 2:
            room = name.rstrip("/")
            found.add(room)
        elif indent == 4:
            found.add(f"{room}/{name.rstrip('/')}")
    return found


def test_the_layout_lists_every_room() -> None:
    there = {p.name for p in TACIT.iterdir() if p.suffix == ".py" and not p.name.startswith("__")}
    there |= {p.name for p in TACIT.iterdir() if p.is_dir() and p.name != "__pycache__"}
    for room in list(there):
        inner = (TACIT / room).iterdir() if (TACIT / room).is_dir() else ()
        there |= {f"{room}/{p.name}" for p in inner if p.is_dir() and p.name != "__pycache__"}
    assert listed() == there - {"py.typed"}


def test_files_stay_short() -> None:
    """About 300 lines."""
    allowed = {"sampling.py": 350}
    for path in TACIT.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= allowed.get(path.name, 300), path
