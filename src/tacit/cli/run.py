"""``tacit run`` and ``tacit examples``: train within a budget, from one configuration file."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import show
from tacit.errors import ConfigError
from tacit.validation import nearest

if TYPE_CHECKING:
    from tacit.run import Result, Run, RunConfig

REPORT = "report.html"
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def _example_names() -> list[str]:
    folder = resources.files("tacit.examples")
    return sorted(
        f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")
    )


def _completed(incomplete: str) -> list[str]:
    return [name for name in _example_names() if name.startswith(incomplete)]


Config = Annotated[Path | None, typer.Argument(help="A TOML file.", show_default=False)]
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="section.key=value; can be repeated.")
]
Example = Annotated[
    str | None,
    typer.Option(help="An example instead of a file.", autocompletion=_completed),
]


def run(
    config: Config = None,
    example: Example = None,
    changes: Changes = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds (one run each).", min=1)] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for the results.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Folder of a run to continue.")] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Print only the plan.")] = False,
    json: Json = False,
) -> None:
    """Train a model over clients within a stated budget."""
    from tacit.run import Run
    from tacit.run.overview import overview

    settings, out = settings_of(config, example, changes or [], out, resume)
    if seeds > 1:  # an experiment with known seeds
        settings = settings.with_seed(settings.train.seed or 0)
    planned = Run.from_config(settings)
    planned.check()
    if not json:
        _announce(planned)
    if dry:
        if json:
            show.as_json(overview(planned))
        return
    results = []
    for number in range(seeds):
        seed = settings.train.seed
        one = planned if seed is None else planned.with_seed(seed + number)
        results.append(trained(one, _folder_of(out, number, seeds), quiet=json))
    if out is not None:
        from tacit.run.page import write_report

        write_report([out], trained=planned)
    if json:
        show.as_json(_as_dict(planned, results, out))
    else:
        _report(planned, results, out)


def examples(json: Json = False) -> None:
    """List the examples."""
    found = {name: example_text(name) for name in _example_names()}
    if json:
        show.as_json({"examples": [{"name": n, "about": _about(t)} for n, t in found.items()]})
        return
    for name, text in found.items():
        show.sentence(f"{name}: {_about(text)}")


def settings_of(
    config: Path | None,
    example: str | None,
    changes: list[str],
    out: Path | None,
    resume: Path | None,
) -> tuple[RunConfig, Path | None]:
    """The configuration with absolute paths, and the output folder."""
    from tacit.run.config import RunConfig, changed, read_toml
    from tacit.run.spelled import refuse_python

    given = [source for source in (config, example, resume) if source is not None]
    if len(given) != 1:
        raise ConfigError("give one of: a configuration file, --example NAME, --resume FOLDER.")
    if resume is not None:
        if changes or out is not None:
            raise ConfigError("a resumed run keeps its configuration and its folder.")
        if not (resume / "config.toml").exists():
            raise ConfigError(f"{resume} is not the folder of a run: it has no config.toml.")
        values = read_toml(resume / "config.toml")
        refuse_python(values)
        return RunConfig.from_dict(values), resume
    if example is not None:
        import tomllib

        values = changed(tomllib.loads(example_text(example)), changes)
        return RunConfig.from_dict(values), out
    assert config is not None
    return RunConfig.load(config, changes).anchored(config.parent), out


def _folder_of(out: Path | None, number: int, seeds: int) -> Path | None:
    if out is None:
        return None
    return out if seeds == 1 else out / f"seed-{number}"


def trained(planned: Run, out: Path | None, *, quiet: bool) -> Result:
    """Train with a progress display, and store the run in a folder if one is given."""
    from tacit.cli.progress import Watch

    seed = planned.settings.seed
    title = "training" if seed is None else f"seed {seed}"
    try:
        with Watch(title, planned.plan.rounds, quiet=quiet) as watch:
            return planned.train(out, on_progress=watch)
    except KeyboardInterrupt:
        told = f"Go on with: tacit run --resume {out}"
        if out is None:
            told = "Nothing was kept. With --out FOLDER a run can be continued."
        typer.echo(told, err=True)
        raise


def _announce(planned: Run) -> None:
    from tacit.run.overview import overview

    plan = overview(planned)
    show.sentence(
        f"{plan['data']}: {plan['records']} records of {plan['clients']} clients"
        f" (the smallest holds {plan['smallest_client']}), {plan['rounds']} rounds of"
        f" {plan['algorithm']} with {plan['expected_cohort']:g} clients a round."
    )
    for note in plan["notes"]:
        show.sentence(note)
    if not plan["notes"] and isinstance(plan["noise"], float) and plan["noise"] > 0:
        show.sentence(
            f"Noise: standard deviation {plan['noise']:.5g} times the bound on each released sum."
        )
    if plan["released_scaling"]:
        show.sentence(
            f"Before round 0, one charged release: mean and scale of"
            f" {', '.join(plan['released_scaling'])}."
        )
    if plan["released_centre"]:
        show.sentence("Before round 0, one charged release: the mean of all records at norm 1.")
    show.sentence(plan["sentence"])
    for warning in plan["warnings"]:
        show.sentence(f"Warning: {warning}")


def _as_dict(planned: Run, results: list[Result], out: Path | None) -> dict[str, Any]:
    from tacit.run.overview import overview

    return {
        **overview(planned),
        **results[0].guarantee.as_dict(),
        "rounds": results[0].rounds,
        "stopped": results[0].stopped,
        "seeds": [{"metrics": result.metrics, "scaling": _scaling(result)} for result in results],
        "out": str(out) if out is not None else None,
        "report": str(out / REPORT) if out is not None else None,
    }


def _scaling(result: Result) -> dict[str, dict[str, float]]:
    return {name: {"mean": mean, "scale": scale} for name, (mean, scale) in result.scaling.items()}


def _report(planned: Run, results: list[Result], out: Path | None) -> None:
    import statistics

    rows = []
    for metric in results[0].metrics:
        values = [result.metrics[metric] for result in results]
        row = [metric, f"{statistics.fmean(values):.4f}"]
        if len(values) > 1:
            row.append(f"{statistics.stdev(values):.4f}")
        rows.append(row)
    columns = ("metric", "last value") if len(results) == 1 else ("metric", "mean", "std")
    show.table(columns, rows, title=f"After {results[0].rounds} rounds")
    if results[0].stopped:
        show.sentence(f"Training stopped early: {results[0].stopped}.")
    for name, (mean, scale) in results[0].scaling.items():
        show.sentence(f"Released scaling of {name}: mean {mean:.4g}, scale {scale:.4g}.")
    show.guarantee(results[0].guarantee)
    if len(results) > 1 and planned.settings.delta > 0:
        show.sentence(
            f"This holds for each of the {len(results)} runs alone: publishing all"
            f" {len(results)} models costs the budget {len(results)} times."
        )
    if out is not None:
        show.sentence(f"Everything is in {out}: model, metrics, ledger, curves.")
        show.sentence(f"The report is {out / REPORT}.")


def example_text(name: str) -> str:
    """The configuration of an example."""
    known = _example_names()
    if name not in known:
        raise ConfigError(f"there is no example {name!r}{nearest(name, known)}")
    return (resources.files("tacit.examples") / f"{name}.toml").read_text(encoding="utf-8")


def _about(text: str) -> str:
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)
