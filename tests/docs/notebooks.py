"""Runs a notebook as Jupyter does, cell after cell, without Jupyter.

``python tests/docs/notebooks.py`` runs the notebooks of the docs and stores what they print now.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

from page_blocks import ROOT
from page_session import performed, printing
from write_pages import VARIES

FOLDER = ROOT / "docs" / "notebooks"


def notebooks() -> list[Path]:
    """The notebooks of the documentation."""
    return sorted(FOLDER.glob("*.ipynb"))


def source(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


def shown(cell: dict[str, Any]) -> tuple[str, bool]:
    """The text that a cell shows as its output, and whether there is a picture."""
    text, picture = "", False
    for output in cell["outputs"]:
        data = output.get("data", {})
        text += "".join(output.get("text", data.get("text/plain", "")))
        picture |= "image/png" in data
    return text, picture


def ran(cells: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The outputs of the code cells, in the current folder."""
    module = types.ModuleType("notebook")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    return [_ran(source(cell), module) for cell in cells if cell["cell_type"] == "code"]


def _ran(text: str, module: types.ModuleType) -> list[dict[str, Any]]:
    if text.startswith("%%writefile "):
        first, _, rest = text.partition("\n")
        Path(first.split()[1]).write_text(rest + "\n", encoding="utf-8")
        return _printed(f"Writing {first.split()[1]}\n")
    if text.startswith("!"):
        code, said = performed(text.removeprefix("!"))
        assert code == 0, said
        return _printed(said)
    body = ast.parse(text).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    with printing() as said:
        exec(compile(ast.Module(body, []), "cell", "exec"), module.__dict__)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), module.__dict__)
    return _printed(said.getvalue()) + ([] if value is None else [_value(value)])


def _printed(text: str) -> list[dict[str, Any]]:
    for pattern, dots in VARIES:
        text = pattern.sub(dots, text)
    lines = text.splitlines(keepends=True)
    return [{"output_type": "stream", "name": "stdout", "text": lines}] if text else []


def _value(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"text/plain": [repr(value)]}
    if hasattr(value, "savefig"):
        drawn = io.BytesIO()
        value.savefig(drawn, format="png", dpi=80, metadata={"Software": None})
        data["image/png"] = base64.b64encode(drawn.getvalue()).decode()
    return {"output_type": "display_data", "metadata": {}, "data": data}


def write(path: Path) -> None:
    """Run a notebook in a new folder, and store its outputs."""
    book = json.loads(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        outputs = ran(book["cells"])
        os.chdir("/")
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = outputs.pop(0)
    path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for given in notebooks():
        write(given)
