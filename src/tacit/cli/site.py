"""``tacit site``: the spent and remaining budget of a site, and the cost of the announced run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import show

app = typer.Typer(no_args_is_help=True, help="Check a site and its budget.")

Folder = Annotated[Path, typer.Argument(help="The folder of the site.", metavar="DIR")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def budget(folder: Folder, json: Json = False) -> None:
    """Show what this site has spent over all runs, and its remaining budget."""
    from tacit.deployment.setup.overview import budget_of

    found = budget_of(folder)
    if json:
        show.as_json(found)
        return
    show.sentence(
        f"{found['name']}: epsilon = {found['spent']} of {found['budget']:g} at delta ="
        f" {found['delta']:g} is spent, in {found['charges']} charges."
    )
    show.sentence(found["sentence"])


@app.command()
def check(folder: Folder, json: Json = False) -> None:
    """Check the records, policy and ledger of the site, and tell whether it would join the run."""
    from tacit.deployment.setup.overview import verdict

    found = verdict(folder)
    if json:
        show.as_json(found)
        return
    show.sentence(found["sentence"])
