"""``tacit ledger``: show the spent privacy, and verify that the ledger is unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import show

if TYPE_CHECKING:
    from tacit.accounting import Ledger

app = typer.Typer(no_args_is_help=True, help="Read and check a ledger of spent privacy.")


def _file(path: Path) -> Path:
    """The ledger itself, where the folder of a run or of a site is given."""
    return path / "ledger.jsonl" if path.is_dir() else path


LedgerPath = Annotated[
    Path,
    typer.Argument(
        help="A ledger, or the folder of a run or a site.", metavar="PATH", callback=_file
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command("show")
def show_ledger(
    path: LedgerPath,
    delta: Annotated[float, typer.Option(help="The delta of the guarantee.")] = 1e-5,
    last: Annotated[int, typer.Option(help="Number of last charges to list.", min=0)] = 10,
    json: Json = False,
) -> None:
    """Show the charges of a ledger and the guarantee that follows from them."""
    from tacit.accounting import Ledger
    from tacit.accounting.event_json import encode_event

    ledger = Ledger.read(path)
    sure = ledger.guarantee(delta)
    charges = list(ledger.charges)
    if json:
        show.as_json(
            {
                **_summary(ledger, path),
                **sure.as_dict(),
                "last": [
                    {
                        "id": c.id,
                        "done": c.done,
                        "label": dict(c.label),
                        "event": encode_event(c.event),
                    }
                    for c in (charges[-last:] if last else [])
                ],
            }
        )
        return
    rows = [
        (str(c.id), " ".join(f"{k}={v}" for k, v in c.label.items()), "done" if c.done else "open")
        for c in (charges[-last:] if last else [])
    ]
    open_charges = sum(not c.done for c in charges)
    show.table(
        ("charge", "for", "state"),
        rows,
        title=f"{path.name}: {len(charges)} charges, {open_charges} not done (spent all the same)",
    )
    _warn_cut(ledger)
    show.guarantee(sure)


@app.command("verify")
def verify_ledger(path: LedgerPath, json: Json = False) -> None:
    """Check the hash chain, every line and every event; exit code 2 if the ledger is damaged."""
    from tacit.accounting import Ledger

    ledger = Ledger.read(path)
    if json:
        show.as_json({**_summary(ledger, path), "intact": True})
        return
    _warn_cut(ledger)
    show.sentence(
        f"{path.name} is intact: {sum(1 for _ in ledger.charges)} charges, head"
        f" {ledger.head[:16]}. (Missing lines at the end can be detected only with a checkpoint"
        " that holds a later head.)"
    )


def _summary(ledger: Ledger, path: Path) -> dict[str, Any]:
    charges = list(ledger.charges)
    return {
        "path": str(path),
        "charges": len(charges),
        "open": sum(not c.done for c in charges),
        "head": ledger.head,
        "torn_bytes": ledger.cut or 0,
    }


def _warn_cut(ledger: Ledger) -> None:
    if ledger.cut:
        show.sentence(
            f"A crash left an incomplete last line ({ledger.cut} bytes), which does not count: a"
            " completed charge is never in it."
        )
