"""``tacit deploy``: a federation of real processes, from its folders to a trained model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import show

if TYPE_CHECKING:
    from collections.abc import Mapping

app = typer.Typer(no_args_is_help=True, help="Run a federation between real sites, on Flower.")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Folder = Annotated[Path, typer.Argument(help="The folder.", metavar="DIR")]


@app.command()
def init(
    folder: Folder,
    config: Annotated[
        Path | None, typer.Option(help="Configuration of the run; default: that of the demo.")
    ] = None,
    sites: Annotated[
        str | None, typer.Option(help="name=records,... if this machine has no data.")
    ] = None,
    address: Annotated[str, typer.Option(help="Address of the server.")] = "127.0.0.1:9443",
    minimum: Annotated[
        int | None, typer.Option(help="Minimum number of replies per round; default: all sites.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for replies.")] = 300.0,
    evaluation: Annotated[
        float | None,
        typer.Option(help="Release the accuracy at the end with this standard deviation."),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(help="Folder of NAME.toml, the public keys that the sites have made."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="No TLS and no authentication: for tests only.")
    ] = False,
    json: Json = False,
) -> None:
    """Create the folders of a federation: certificates, keys, and one folder for each party."""
    from tacit.deployment.setup.folders import make_federation
    from tacit.deployment.setup.from_config import wanted
    from tacit.deployment.setup.keys import read_public
    from tacit.deployment.setup.overview import trust_sentence
    from tacit.deployment.setup.private_files import own_files_only

    own_files_only()
    asked = wanted(
        config=config,
        sites=sites,
        address=address,
        minimum=minimum,
        timeout=timeout,
        evaluation=evaluation,
        insecure=insecure,
    )
    if keys is not None:
        asked = replace(asked, keys=read_public(keys, asked.sites))
    public = make_federation(folder, asked)
    delta = _delta(public)
    if json:
        show.as_json(
            {
                "folder": str(folder),
                "sites": dict(public.about.sites),
                "digest": public.digest,
                "trust": trust_sentence(public),
                **public.guarantee(delta).as_dict(),
            }
        )
        return
    show.sentence(f"The federation is in {folder}; its README.md lists the next steps.")
    show.told(public.guarantee(delta).as_dict(), "If no round is repeated: ")
    show.sentence(trust_sentence(public))
    if asked.secured:
        show.sentence(
            f"The configuration does not say where noise is drawn, so {asked.secured} was added."
        )
    if insecure:
        show.sentence("Warning: no encryption and no authentication. Use this for tests only.")


@app.command()
def server(folder: Folder, json: Json = False) -> None:
    """Run the server of a folder; after a restart it continues from its last round."""
    from tacit.cli.deploy_progress import Lines
    from tacit.deployment.server.processes import serve
    from tacit.deployment.setup.private_files import own_files_only
    from tacit.deployment.setup.settings import Public

    own_files_only()
    progress = Lines(quiet=json)
    if Public.load(folder).about.insecure:
        progress.note("no encryption and no authentication: this is for tests only")
    last = serve(folder, progress)
    _report_server(folder, last, json=json)


@app.command()
def site(folder: Folder, json: Json = False) -> None:
    """Run the site of a folder: it answers the server within its own policy and budget."""
    import logging

    from tacit.deployment.setup.private_files import own_files_only
    from tacit.deployment.site.process import work

    own_files_only()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    work(folder)
    if json:
        from tacit.deployment.setup.overview import budget_of

        show.as_json(budget_of(folder))


@app.command()
def status(folder: Folder, json: Json = False) -> None:
    """Show running processes, the progress of the run, and the spent budget of each site."""
    from tacit.deployment.setup.overview import overview

    found = overview(folder)
    if json:
        show.as_json(found)
        return
    if "server" in found:
        run = found["server"]
        state = "is running" if run["works"] else "is not running"
        show.sentence(
            f"Server: {state}; {run['stage']}, round {run['round']} of {run['rounds']}."
            f" {run['said']}"
        )
    for each in found["sites"]:
        state = "is running" if each["works"] else "is not running"
        spent = each.get("sentence", "Nothing is spent yet.")
        show.sentence(f"{each['name']}: {state}. {spent}")


@app.command()
def stop(folder: Folder, json: Json = False) -> None:
    """Stop the processes of a folder and everything that they started."""
    from tacit.deployment.setup.overview import parts
    from tacit.deployment.transport.process_groups import stop_folder

    stopped = [name for name, part in parts(folder).items() if stop_folder(part)]
    if json:
        show.as_json({"stopped": stopped})
    else:
        show.sentence(f"Stopped: {', '.join(stopped) or 'nothing was running'}.")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="A new folder for the federation.")] = Path(
        "tacit-deploy-demo"
    ),
    rounds: Annotated[int, typer.Option(help="Number of rounds.", min=1)] = 10,
    json: Json = False,
) -> None:
    """Start a server and three hospitals on this machine and train within their budgets."""
    from tacit.cli.deploy_progress import Lines
    from tacit.deployment.setup.demo import run_demo
    from tacit.deployment.setup.private_files import own_files_only
    from tacit.run.page import write_report

    own_files_only()
    found = run_demo(out, rounds, Lines(quiet=json))
    page = write_report([out / "server" / "run"])
    if json:
        show.as_json({**found, "report": str(page)})
        return
    _table(found["metrics"], found["rounds"])
    for each in found["sites"]:
        show.told(each, f"{each['name']} ({each['records']} records). ")
    show.sentence(found["trust"])
    show.sentence(f"Everything is in {out}: the model is {found['model']}, the report {page}.")


def _report_server(folder: Path, last: Mapping[str, Any], *, json: bool) -> None:
    import json as reader

    from tacit.run.page import write_report

    summary = reader.loads((folder / "run" / "summary.json").read_text())
    page = write_report([folder / "run"])
    if json:
        model = str(folder / "run" / "model.npz")
        show.as_json({**summary, "model": model, "report": str(page)})
        return
    _table(last.get("metrics", {}), int(summary["rounds"]))
    if summary["stopped"]:
        show.sentence(f"Training stopped early: {summary['stopped']}.")
    show.told(summary["guarantee"])
    show.sentence(f"The model is {folder / 'run' / 'model.npz'}, the report {page}.")


def _table(metrics: Mapping[str, float], rounds: int) -> None:
    rows = [(name, f"{value:.4f}") for name, value in metrics.items()]
    show.table(("metric", "last value"), rows, title=f"After {rounds} rounds")


def _delta(public: Any) -> float:
    privacy = public.run.privacy
    return 0.0 if privacy == "none" else float(privacy.delta or 0.0)
