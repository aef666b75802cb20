"""``tacit serve``: the runs of a folder in a browser, while they train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import show
from tacit.errors import ConfigError


def serve(
    folder: Annotated[Path, typer.Argument(help="A folder with runs.", metavar="[DIR]")] = Path(),
    host: Annotated[
        str, typer.Option(help="The address; one that others reach needs --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0: any free one.", min=0, max=65535)] = 8642,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="TACIT_TOKEN", help="What a visitor has to know; auto: make one and print it."
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the browser.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON line.")] = False,
) -> None:
    """Show all runs below a folder in a browser and follow them while they train."""
    import json as writer

    try:
        from tacit.live.guard import is_loopback
        from tacit.live.server import Address, bound, checked_token
        from tacit.live.server import serve as run_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "h11", "anyio"):
            raise
        raise ConfigError(
            "the live view needs Starlette and uvicorn: pip install 'tacit-fl[live]'."
        ) from None

    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder: give one with runs (tacit run --out FOLDER).")
    known = checked_token(host, token)
    listener = bound(host, port)
    address = Address(host, int(listener.getsockname()[1]), known)
    if json:
        told = {"url": address.url, "host": host, "port": address.port, "folder": str(folder)}
        typer.echo(writer.dumps(told))
    else:
        show.sentence(f"The runs of {folder.resolve()} are at {address.url} (Ctrl-C ends this).")
        if not is_loopback(host):
            show.sentence("The connection is not encrypted: see the guide before you share it.")
    if open_:
        import webbrowser

        webbrowser.open(address.url)
    run_server(folder, listener, address)
