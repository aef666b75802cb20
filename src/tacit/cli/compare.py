"""``tacit compare``: compare methods and settings at equal, stated privacy."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import show
from tacit.cli.run import REPORT, example_text
from tacit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tacit.run.compare import Outcome, Variant


def compare(
    configs: Annotated[
        list[str], typer.Argument(help="TOML files or names of examples.", show_default=False)
    ],
    vary: Annotated[
        list[str] | None, typer.Option(help="section.key=first,second: one run for each value.")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value, for all runs.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="One epsilon budget for all runs.")] = None,
    delta: Annotated[float | None, typer.Option(help="The delta of that budget.")] = None,
    auto: Annotated[
        bool, typer.Option("--with-auto", help="Add auto, which needs no settings.")
    ] = False,
    seeds: Annotated[int, typer.Option(help="Number of seeds per setting.", min=1)] = 3,
    jobs: Annotated[int | None, typer.Option(help="Processes; default: all cores.")] = None,
    metric: Annotated[str | None, typer.Option(help="The metric to compare by.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the data and the plot.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train several methods or settings and compare their results."""
    from tacit.run.compare import compared, joined, quality, suggests_auto, varied, with_auto

    budget = (
        [] if epsilon is None else [f"privacy={{epsilon = {epsilon}, delta = {delta or 1e-5}}}"]
    )
    if delta is not None and epsilon is None:
        raise ConfigError("--delta needs --epsilon: give both or neither.")
    variants = varied(_bases(configs), vary or [], [*(changes or []), *budget])
    if auto:
        variants = with_auto(variants)
    begun, done = time.monotonic(), []
    for share, outcome in compared(variants, seeds, jobs or os.cpu_count() or 1):
        done.append((share, outcome))
        if not json:
            finished = sum(len(share.seeds) for share, _ in done)
            typer.echo(f"{finished}/{len(variants) * seeds} runs: {share.variant.name}", err=True)
    outcomes = joined(done)
    ordered = {v.name: outcomes[v.name] for v in variants}
    chosen = quality(ordered, metric)
    if out is not None:
        _keep(ordered, chosen, out, variants)
    if json:
        show.as_json(_as_dict(ordered, chosen, time.monotonic() - begun))
    else:
        _report(ordered, chosen, out)
        if suggests_auto(variants):
            show.sentence("The method auto needs no settings: add it with --with-auto.")


def _bases(names: list[str]) -> dict[str, dict[str, Any]]:
    """The configurations by a short name; a file has priority over an example of the same name."""
    import tomllib

    from tacit.run.config import RunConfig, read_toml

    found: dict[str, dict[str, Any]] = {}
    for name in names:
        path = Path(name)
        if path.suffix == ".toml" or path.exists():
            read_toml(path)
            found[path.stem] = RunConfig.load(path).anchored(path.parent).as_dict()
        else:
            found[name] = tomllib.loads(example_text(name))
    if len(found) < len(names):
        raise ConfigError("two of the configurations have the same name: rename a file.")
    return found


def _line(outcome: Outcome, metric: str) -> dict[str, Any]:
    from tacit.run.compare import spread

    values = outcome.last(metric)
    mean, std = spread(values)
    return {"mean": mean, "std": std, "values": values, **outcome.guarantee}


def _as_dict(outcomes: Mapping[str, Outcome], metric: str, seconds: float) -> dict[str, Any]:
    from tacit.run.compare import differences

    return {
        "metric": metric,
        "runs": {name: _line(outcome, metric) for name, outcome in outcomes.items()},
        "guarantees_differ_in": differences(outcomes),
        "seconds": seconds,
    }


def _report(outcomes: Mapping[str, Outcome], metric: str, out: Path | None) -> None:
    from tacit.accounting import rounded_up
    from tacit.run.compare import differences

    rows = []
    for name, outcome in outcomes.items():
        line = _line(outcome, metric)
        std = "" if line["std"] is None else f"{line['std']:.4f}"
        rows.append([name, f"{line['mean']:.4f}", std, rounded_up(float(line["epsilon"]))])
    show.table(("run", metric, "std", "epsilon"), rows)
    unequal = differences(outcomes)
    if unequal:
        show.sentence(
            f"The guarantees differ in {', '.join(unequal)}: this is not a comparison at equal"
            " privacy. The guarantee of each run:"
        )
    sentences = {name: outcome.guarantee["sentence"] for name, outcome in outcomes.items()}
    if unequal:
        for name, sentence in sentences.items():
            show.sentence(f"{name}: {sentence}")
    else:
        show.sentence(next(iter(sentences.values())))
    show.sentence(
        "This holds for each run alone: publishing N models costs the budget N times, and choosing"
        " one of them by its result is not counted."
    )
    if out is not None:
        show.sentence(f"The data and the plot are in {out}; the report is {out / REPORT}.")


def _keep(outcomes: Mapping[str, Outcome], metric: str, out: Path, variants: list[Variant]) -> None:
    import json

    from tacit.report.curves import draw_curves
    from tacit.run.config import as_toml
    from tacit.run.page import write_runs
    from tacit.run.shown import compared

    out.mkdir(parents=True, exist_ok=True)
    lines = {name: _line(outcome, metric) for name, outcome in outcomes.items()}
    (out / "compare.json").write_text(json.dumps({"metric": metric, "runs": lines}, indent=2))
    for number, variant in enumerate(variants):
        (out / f"{number:03d}.toml").write_text(
            f"# {variant.name}\n{as_toml(variant.config.as_dict())}", encoding="utf-8"
        )
    write_runs([compared(v, outcomes[v.name]) for v in variants], out / REPORT)
    first = {name: next(iter(outcome.rows.values())) for name, outcome in outcomes.items()}
    draw_curves(first, metric, out / "compare.svg", f"{metric}, first seed")
