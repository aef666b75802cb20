"""The notebooks of the documentation run, and print what they show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from notebooks import notebooks, ran, shown
from page_output import agree


@pytest.mark.pictures
@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.name)
def test_a_notebook(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert any(shown(cell)[1] for cell in code), "a picture says more"
    for cell, outputs in zip(code, ran(cells), strict=True):
        ours, theirs = shown(cell), shown({"outputs": outputs})
        assert ours[1] == theirs[1]
        assert agree(ours[0], theirs[0]), f"{ours[0]}\nbut it prints\n{theirs[0]}"


def test_there_are_two() -> None:
    assert [path.stem for path in notebooks()] == ["first-steps", "from-csv-files-to-a-report"]
