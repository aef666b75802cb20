"""``tacit audit``: attacks on the code that runs, against the privacy that it claims."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.cli import show

app = typer.Typer(no_args_is_help=True, help="Attack mechanisms, and compare with the claim.")


@app.command()
def mechanism(
    name: Annotated[str, typer.Argument(help="A mechanism, or 'all'.")] = "all",
    draws: Annotated[int, typer.Option(help="Draws of each input.", min=100)] = 100_000,
    delta: Annotated[float, typer.Option(help="The delta of the claim.")] = 1e-5,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.")] = 0.99,
    seed: Annotated[int, typer.Option(help="Seed of the draws that have one.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Black-box audit of a mechanism; exit code 1 if it contradicts its claim."""
    from tacit.audit.mechanisms import SUBJECTS, audit
    from tacit.errors import ConfigError

    if not 0.5 <= confidence < 1:
        raise ConfigError(f"confidence is {confidence}; give a number from 0.5 to below 1.")
    names = list(SUBJECTS) if name == "all" else [name]
    found = []
    for each in names:
        found.append(audit(each, draws=draws, delta=delta, confidence=confidence, seed=seed))
        if not json and len(names) == 1:
            show.sentence(f"{found[-1].about[0].upper()}{found[-1].about[1:]}.")
            show.sentence(found[-1].sentence())
    if json:
        show.as_json({"audits": [each.as_dict() for each in found]})
    elif len(names) > 1:
        rows = [
            (v.name, f"{v.claimed:.4g}", f"{v.audited:.4g}", f"{v.share:.0%}", _word(v.violation))
            for v in found
        ]
        columns = ("mechanism", "claimed epsilon", "audited, at least", "share", "verdict")
        show.table(columns, rows, title=f"delta = {delta:g}, confidence {confidence:.0%}")
    if any(each.violation for each in found):
        raise typer.Exit(1)


def _word(violation: bool) -> str:
    return "VIOLATION" if violation else "consistent"
