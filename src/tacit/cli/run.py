"""``tacit run`` and ``tacit examples``: train inside a budget, from one configuration file."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import show
from tacit.errors import ConfigError
from tacit.nearest import nearest

if TYPE_CHECKING:
    from tacit.run.build import Prepared
    from tacit.run.config import RunConfig
    from tacit.run.training import Result
    from tacit.simulation import Simulator

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def run(
    config: Annotated[Path | None, typer.Argument(help="A TOML file.", show_default=False)] = None,
    example: Annotated[str | None, typer.Option(help="A ready example instead of a file.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value, as often as you like.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Repeat with so many seeds.", min=1)] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder to keep the run in.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Folder of a run to continue.")] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Print the plan alone.")] = False,
    json: Json = False,
) -> None:
    """Train a model over clients within a stated budget."""
    from tacit.run.build import prepare
    from tacit.run.rounding import require_exact_noise

    settings, base, out = _settings(config, example, changes or [], out, resume)
    if seeds > 1:  # an experiment: its seeds are known
        settings = settings.with_seed(settings.train.seed or 0)
    prepared = prepare(settings, base=base)
    if settings.train.seed is None:
        require_exact_noise(prepared.plan)
    if not json:
        _announce(prepared)
    if dry:
        if json:
            show.as_json(_plan(prepared))
        return
    first = settings.train.seed
    results, simulator = [], prepared.simulator(first)
    for number in range(seeds):
        folder = _folder_of(out, number, seeds)
        seed = None if first is None else first + number
        results.append(train_prepared(prepared, seed, folder, simulator, quiet=json))
    if json:
        show.as_json(_as_dict(prepared, results, out))
    else:
        _report(prepared, results, out)


def examples(json: Json = False) -> None:
    """List the ready examples."""
    found = {name: example_text(name) for name in _example_names()}
    if json:
        show.as_json({"examples": [{"name": n, "about": _about(t)} for n, t in found.items()]})
        return
    for name, text in found.items():
        show.sentence(f"{name}: {_about(text)}")


def _settings(
    config: Path | None,
    example: str | None,
    changes: list[str],
    out: Path | None,
    resume: Path | None,
) -> tuple[RunConfig, Path, Path | None]:
    """The configuration, the folder its paths start from, and the folder to write to."""
    from tacit.run.config import RunConfig, changed

    given = [source for source in (config, example, resume) if source is not None]
    if len(given) != 1:
        raise ConfigError("give one of: a configuration file, --example NAME, --resume FOLDER.")
    if resume is not None:
        if changes or out is not None:
            raise ConfigError("a resumed run keeps its configuration and its folder.")
        if not (resume / "config.toml").exists():
            raise ConfigError(f"{resume} holds no run: there is no config.toml in it.")
        return RunConfig.load(resume / "config.toml"), Path(), resume
    if example is not None:
        import tomllib

        values = changed(tomllib.loads(example_text(example)), changes)
        return RunConfig.from_dict(values), Path(), out
    assert config is not None
    return RunConfig.load(config, changes).anchored(config.parent), Path(), out


def _folder_of(out: Path | None, number: int, seeds: int) -> Path | None:
    if out is None:
        return None
    return out if seeds == 1 else out / f"seed-{number}"


def train_prepared(
    prepared: Prepared,
    seed: int | None,
    out: Path | None,
    simulator: Simulator | None = None,
    *,
    quiet: bool,
) -> Result:
    """Run what is prepared with progress, and keep it in a folder if one is given."""
    from tacit.cli.progress import Watch
    from tacit.run.config import to_toml
    from tacit.run.folder import RunFolder
    from tacit.run.loop import Settings
    from tacit.run.training import run_plan

    train = prepared.config.train
    config = prepared.config.with_seed(seed)
    folder = RunFolder(out) if out is not None else None
    if folder is not None and not folder.started:
        folder.write_text("config.toml", to_toml(config.as_dict()))
    with Watch(
        "training" if seed is None else f"seed {seed}", prepared.plan.rounds, quiet=quiet
    ) as watch:
        settings = Settings(
            seed=seed,
            delta=prepared.delta,
            budget=prepared.budget,
            eval_every=train.eval_every,
            dtype=train.dtype,
            block=train.block,
            oracle=train.oracle,
            digest=config.digest(),
            on_progress=watch,
        )
        result = run_plan(prepared.plan, prepared.federation, settings, folder, simulator)
    if folder is not None:
        from tacit.report.run_pictures import draw_run

        folder.write_summary(
            {
                "guarantee": result.guarantee.as_dict(),
                "metrics": result.metrics,
                "scaling": _scaling(result),
                "rounds": result.rounds,
                "seed": seed,
                "versions": _versions(),
            }
        )
        draw_run(result, folder.path, prepared.config.algorithm.name, prepared.federation.title)
    return result


def _plan(prepared: Prepared) -> dict[str, Any]:
    plan = prepared.plan
    noise = getattr(plan.algorithm, "noise", 0.0)
    return {
        "data": prepared.federation.title,
        "clients": plan.population.clients,
        "records": plan.population.records,
        "smallest_client": plan.population.smallest,
        "rounds": plan.rounds,
        "algorithm": prepared.config.algorithm.name,
        "noise": noise if isinstance(noise, (int, float)) else list(noise),
        "expected_cohort": plan.algorithm.cohort.expected(plan.population.clients),
        "released_scaling": list(prepared.waiting),
        "released_centre": plan.prelude is not None and not prepared.waiting,
        "notes": plan.algorithm.notes(plan.population, prepared.delta),
        "warnings": plan.warnings(),
        **plan.guarantee(prepared.delta, noise_from=prepared.config.train.noise_from).as_dict(),
    }


def _announce(prepared: Prepared) -> None:
    plan = _plan(prepared)
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


def _as_dict(prepared: Prepared, results: list[Result], out: Path | None) -> dict[str, Any]:
    return {
        **_plan(prepared),
        **results[0].guarantee.as_dict(),
        "rounds": results[0].rounds,
        "stopped": results[0].stopped,
        "seeds": [{"metrics": result.metrics, "scaling": _scaling(result)} for result in results],
        "out": str(out) if out is not None else None,
    }


def _scaling(result: Result) -> dict[str, dict[str, float]]:
    return {name: {"mean": mean, "scale": scale} for name, (mean, scale) in result.scaling.items()}


def _report(prepared: Prepared, results: list[Result], out: Path | None) -> None:
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
    show.sentence(results[0].guarantee.sentence())
    if len(results) > 1 and prepared.delta > 0:
        show.sentence(
            f"This holds for each of the {len(results)} runs alone: publishing all"
            f" {len(results)} models costs the budget {len(results)} times."
        )
    if out is not None:
        show.sentence(f"Everything is in {out}: model, metrics, ledger, curves.")


def _example_names() -> list[str]:
    folder = resources.files("tacit.examples")
    return sorted(
        f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")
    )


def example_text(name: str) -> str:
    """The configuration of a ready example."""
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


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("tacit", "jax", "dp-accounting", "numpy", "scipy")}
