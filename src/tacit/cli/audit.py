"""``tacit audit``: attacks on the code that runs, against the privacy that it claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tacit.cli import show
from tacit.cli.run import Changes, Config, Example, settings_of
from tacit.errors import ConfigError

if TYPE_CHECKING:
    from tacit.audit.verdict import Judged, Verdict
    from tacit.run import Run

app = typer.Typer(
    no_args_is_help=True, help="Attack mechanisms and whole runs, and compare with the claim."
)
Kind = Literal["both", "worst-case", "one-run"]


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

    _check_confidence(confidence)
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
            (v.name, f"{v.claimed:.4g}", f"{v.audited:.4g}", f"{v.share:.0%}", v.word)
            for v in found
        ]
        columns = ("mechanism", "claimed epsilon", "audited, at least", "share", "verdict")
        show.table(columns, rows, title=f"delta = {delta:g}, confidence {confidence:.0%}")
    if any(each.violation for each in found):
        raise typer.Exit(1)


@app.command()
def run(
    config: Config = None,
    example: Example = None,
    changes: Changes = None,
    kind: Annotated[Kind, typer.Option(help="Which audit.")] = "both",
    draws: Annotated[int, typer.Option(help="Runs on each worst case.", min=100)] = 10_000,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds of a worst case; all if not given.", min=1)
    ] = None,
    canaries: Annotated[int | None, typer.Option(help="Canaries of the one run.")] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.")] = 0.99,
    seed: Annotated[int, typer.Option(help="Seed of the audit.", min=0)] = 0,
    picture: Annotated[Path | None, typer.Option(help="A PNG of the trade-off curve.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Attack the training of a configuration; exit code 1 if it contradicts its claim."""
    from tacit.run import Run

    _check_confidence(confidence)
    if picture is not None and kind == "one-run":
        raise ConfigError("one run has no trade-off curve: leave --picture out, or --kind.")
    settings, _ = settings_of(config, example, changes or [], None, None)
    planned = Run.from_config(settings)
    if planned.guarantee().epsilon == float("inf"):
        raise ConfigError("this run claims no privacy: there is nothing to audit.")
    if not json:
        show.sentence(planned.guarantee().sentence())
    found: list[Judged] = []
    left_out: str | None = None
    if kind != "one-run":
        worst = _worst_case(planned, rounds, draws, confidence, seed, quiet=json)
        found.append(worst)
        if picture is not None:
            from tacit.report.trade_off import draw_trade_off

            draw_trade_off(worst.trade_off(), picture)
    if kind != "worst-case":
        from tacit.audit.canaries import one_run_audit

        try:
            guessed = one_run_audit(planned, canaries=canaries, confidence=confidence, seed=seed)
            found.append(guessed)
        except ConfigError as error:
            if kind == "one-run" or canaries is not None:
                raise
            left_out = f"The one-run audit is left out: {error}"
    if json:
        show.as_json({"audits": [each.as_dict() for each in found], "left_out": left_out})
    else:
        for each in found:
            show.sentence(f"{each.about[0].upper()}{each.about[1:]}.")
            show.sentence(each.sentence())
        if left_out:
            show.sentence(left_out)
        if picture is not None:
            show.sentence(f"The trade-off curve is in {picture}.")
    if any(each.violation for each in found):
        raise typer.Exit(1)


def _worst_case(
    planned: Run, rounds: int | None, draws: int, confidence: float, seed: int, *, quiet: bool
) -> Verdict:
    import sys

    from rich.console import Console
    from rich.progress import Progress

    from tacit.audit.worst_case import audited, worst_case

    case = worst_case(planned.plan, rounds)
    console = Console(file=sys.stderr)
    shown = not quiet and console.is_terminal
    with Progress(console=console, transient=True, disable=not shown) as bar:
        runs = bar.add_task("training on neighbours", total=2 * draws)
        return audited(
            planned.name,
            case,
            draws=draws,
            delta=planned.settings.delta,
            confidence=confidence,
            seed=seed,
            on_run=lambda done: bar.update(runs, completed=done),
        )


def _check_confidence(confidence: float) -> None:
    if not 0.5 <= confidence < 1:
        raise ConfigError(f"confidence is {confidence}; give a number from 0.5 to below 1.")
