"""``tacit report``: one page about one or several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import show


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file; in the first folder if not given.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a page about runs: guarantee, charts, configuration. It needs no network."""
    from tacit.run.page import write_report

    path = write_report(runs, out)
    if json:
        show.as_json({"report": str(path), "bytes": path.stat().st_size})
    else:
        show.sentence(f"The report is {path}.")
