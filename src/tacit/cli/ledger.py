"""``tacit ledger``: read what has been spent, and check that nothing was changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import show

if TYPE_CHECKING:
    from tacit.accounting import Ledger

app = typer.Typer(no_args_is_help=True, help="Read and check a ledger of spent privacy.")

LedgerPath = Annotated[Path, typer.Argument(help="The ledger's file.", metavar="PATH")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command("show")
def show_ledger(
    path: LedgerPath,
    delta: Annotated[float, typer.Option(help="The delta of the guarantee.")] = 1e-5,
    last: Annotated[int, typer.Option(help="How many of the last charges to list.", min=0)] = 10,
    json: Json = False,
) -> None:
    """What the ledger has charged, and the guarantee that is left to state."""
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
    show.sentence(sure.sentence())


@app.command("verify")
def verify_ledger(path: LedgerPath, json: Json = False) -> None:
    """Check the chain of hashes, every line and every event; damage is exit code 2."""
    from tacit.accounting import Ledger

    ledger = Ledger.read(path)
    if json:
        show.as_json({**_summary(ledger, path), "intact": True})
        return
    _warn_cut(ledger)
    show.sentence(
        f"{path.name} is intact: {sum(1 for _ in ledger.charges)} charges, head"
        f" {ledger.head[:16]}. (Whole lines missing from the end can only be seen against a"
        " checkpoint that holds a later head.)"
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
            f"The last line was torn by a crash ({ledger.cut} bytes) and does not count: a charge"
            " that had returned is never in it."
        )
