"""``tacit demo``: the cost of privacy on a small problem, as a table, a plot and guarantees."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli import show
from tacit.cli.run import REPORT

_BUDGETS = (8.0, 2.0)


def _folder(name: str) -> str:
    return re.sub("[^a-z0-9]+", "-", name.lower())


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the plot and the runs.")] = Path(
        "tacit-demo"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train on digits over 100 clients: without privacy, and at two budgets."""
    import tomllib

    from tacit.cli.run import example_text, trained
    from tacit.report.curves import draw_curves
    from tacit.run import Run, RunConfig
    from tacit.run.config import changed
    from tacit.run.page import write_report

    private = tomllib.loads(example_text("digits-dp-fedavg"))
    wanted: dict[str, dict[str, Any]] = {
        "FedAvg, no privacy": tomllib.loads(example_text("digits-fedavg"))
    } | {
        f"DP-FedAvg, epsilon {epsilon:g}": changed(private, [f"privacy.epsilon={epsilon}"])
        for epsilon in _BUDGETS
    }
    results = {}
    if not json:
        show.sentence("Digits, 100 clients with skewed labels: what does privacy cost?")
    for name, values in wanted.items():
        planned = Run.from_config(RunConfig.from_dict(values).with_seed(None))
        results[name] = trained(planned, out / _folder(name), quiet=json)
    picture = draw_curves(
        {name: result.rows for name, result in results.items()},
        "test/accuracy",
        out / "accuracy.png",
        "Digits over 100 clients: test accuracy by round",
    )
    page = write_report([out / _folder(name) for name in wanted], out / REPORT)
    if json:
        show.as_json(
            {
                "picture": str(picture),
                "report": str(page),
                "runs": {
                    name: {"metrics": r.metrics, **r.guarantee.as_dict()}
                    for name, r in results.items()
                },
            }
        )
        return
    show.table(
        ("method", "test accuracy", "test loss"),
        [
            (name, f"{r.metrics['test/accuracy']:.3f}", f"{r.metrics['test/loss']:.3f}")
            for name, r in results.items()
        ],
    )
    for name, result in results.items():
        show.told(result.guarantee.as_dict(), f"{name}. ")
    show.sentence(f"The plot is {picture}; the runs are in folders beside it.")
    show.sentence(f"The report is {page}: open it in a browser.")
