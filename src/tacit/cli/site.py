"""``tacit site``: what a site has spent, what is left, and what an announced run would cost it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import show

app = typer.Typer(no_args_is_help=True, help="A site's own budget and checks.")

Folder = Annotated[Path, typer.Argument(help="The site's folder.", metavar="DIR")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def budget(folder: Folder, json: Json = False) -> None:
    """What this site has spent over all runs, and what is left of its budget."""
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
    """Read the site's records, policy and ledger, and say whether it would join the run."""
    from tacit.deployment.setup.overview import verdict

    found = verdict(folder)
    if json:
        show.as_json(found)
        return
    show.sentence(found["sentence"])
