"""``tacit site``: the keys of a site, its budget, and the cost of the announced run."""

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
    show.told(found)


@app.command()
def keys(
    folder: Annotated[Path, typer.Argument(help="A new folder for the keys.", metavar="DIR")],
    name: Annotated[str, typer.Option(help="The name of the site in the federation.")],
    json: Json = False,
) -> None:
    """Make the keys of a site where they stay; only their public halves are sent."""
    from tacit.deployment.setup.keys import PUBLIC, SIGNING, make_site
    from tacit.deployment.setup.private_files import own_files_only, private_folder
    from tacit.errors import ConfigError

    own_files_only()
    if (folder / SIGNING).exists():
        raise ConfigError(f"{folder} has keys already: choose a new folder.")
    public = make_site(private_folder(folder), name)
    if json:
        show.as_json({"name": name, "signing": public.signing, "file": str(folder / PUBLIC)})
        return
    show.sentence(f"Send {folder / PUBLIC} to the coordinator, as {name}.toml; keep the rest.")
    show.sentence(f"Signing key, to compare by telephone: {public.signing}")


@app.command()
def check(folder: Folder, json: Json = False) -> None:
    """Check the records, policy and ledger of the site, and tell whether it would join the run."""
    from tacit.deployment.setup.overview import verdict

    found = verdict(folder)
    if json:
        show.as_json(found)
        return
    show.sentence(found["sentence"])
    show.sentence(found["trust"])
    if "keys" in found:
        show.sentence("Signing keys, to compare with each site over another channel:")
        for name, key in found["keys"].items():
            typer.echo(f"  {name}: {key}")
