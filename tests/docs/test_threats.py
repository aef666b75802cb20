"""The threat matrix names tests that exist, and the page is made from it."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def generator() -> ModuleType:
    place = ROOT / "docs" / "explanation" / "threats.py"
    spec = importlib.util.spec_from_file_location("threats", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


THREATS = generator()


@pytest.mark.parametrize("name", sorted(set(THREATS.tests())))
def test_a_named_test_exists(name: str) -> None:
    file, _, test = name.partition("::")
    functions = {
        node.name
        for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert any(function.startswith("test_") for function in functions)
    assert not test or test in functions


def test_every_cell_is_held_or_says_that_it_is_not() -> None:
    parties = THREATS.matrix()
    assert {"the server", "one site", "colluding sites", "the network"} <= {
        p["name"] for p in parties
    }
    for party in parties:
        for cell in party["may"]:
            assert ("held" in cell) != ("not_protected" in cell), (party["name"], cell["do"])
            assert set(cell) <= {"do", "places", "held", "not_protected"}
            known = {"step", "message", "shares", "aggregate"}
            assert {p.strip() for p in cell.get("places", "step").split(",")} <= known


def test_the_page_is_made_from_the_matrix() -> None:
    page = (ROOT / "docs" / "explanation" / "threat-model.md").read_text(encoding="utf-8")
    assert page == THREATS.written(page), "run: python docs/explanation/threats.py"
