"""``tacit plan``: choose the method, the number of rounds and the noise for a budget."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import show
from tacit.errors import ConfigError

if TYPE_CHECKING:
    from tacit.accounting import Budget
    from tacit.planning.advice import Candidate, Problem
    from tacit.run.rehearsal import Rehearsed


class TrustName(StrEnum):
    """Who is trusted: the server, enough clients together (a secure sum), or nobody."""

    CENTRAL = "central"
    SHARES = "shares"
    LOCAL = "local"


def plan(
    clients: Annotated[int, typer.Option(help="Number of clients.", min=1)],
    records: Annotated[int, typer.Option(help="Records of the smallest client.", min=1)],
    features: Annotated[int, typer.Option(help="Number of features of a record.", min=1)],
    epsilon: Annotated[float, typer.Option(help="The epsilon budget of the whole run.")],
    delta: Annotated[float, typer.Option(help="The delta of the budget.")],
    classes: Annotated[int, typer.Option(help="Number of classes.", min=2)] = 2,
    rounds: Annotated[int, typer.Option(help="Number of training rounds.", min=1)] = 50,
    trust: Annotated[TrustName, typer.Option(help="Who adds the noise.")] = TrustName.CENTRAL,
    feature_norm: Annotated[float, typer.Option(help="PUBLIC bound on a record's norm.")] = 1.0,
    l2: Annotated[float, typer.Option(help="Weight of the public l2 penalty.")] = 0.01,
    psi0: Annotated[
        float, typer.Option(help="PUBLIC bound on the squared distance to the optimum.")
    ] = 1.0,
    clip: Annotated[float, typer.Option(help="Clipping bound of an update, for T*.")] = 1.0,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Rank by training on public generated data.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the plot and a config.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare the methods at a budget, using public sizes only (no private data)."""
    from tacit.accounting import Budget
    from tacit.planning.advice import advise, honest_word

    problem = _problem(clients, records, features, classes, rounds, feature_norm, l2)
    budget = Budget(epsilon, delta)
    candidates = advise(problem, budget, trust.value)
    theory = _theory(problem, budget, psi0, clip)
    ranked = (
        _simulate(problem, budget, candidates, (records, features, classes), quiet=json)
        if simulate
        else []
    )
    word = honest_word(candidates)
    files = _write(out, problem, budget, candidates, ranked, psi0, clip) if out else {}
    if json:
        show.as_json(
            {
                "dimension": problem.dimension,
                "mu": problem.strong_convexity,
                "L": problem.smoothness,
                "scaffnew": theory,
                "methods": [_row(c) for c in candidates],
                "ranking": [vars(r) for r in ranked],
                "word": word,
                "files": files,
            }
        )
        return
    _print(problem, candidates, theory, ranked, word, files)


def _problem(
    clients: int,
    records: int,
    features: int,
    classes: int,
    rounds: int,
    feature_norm: float,
    l2: float,
) -> Problem:
    from tacit.planning.advice import Problem
    from tacit.population import Population
    from tacit.tasks import registry

    name = "logistic" if classes == 2 else "multinomial"
    task = registry.make(name, shape=(features,), classes=classes, l2=l2)
    constants = task.constants(feature_norm)
    assert constants is not None
    return Problem(
        population=Population((records,) * clients),
        task=task,
        dimension=(features + 1) * (1 if classes == 2 else classes),
        rounds=rounds,
        strong_convexity=constants[0],
        smoothness=constants[1],
    )


def _theory(problem: Problem, budget: Budget, psi0: float, clip: float) -> dict[str, Any] | None:
    from tacit.schedules.scaffnew import scaffnew_plan

    if problem.strong_convexity <= 0:
        return None
    found = scaffnew_plan(_scaffnew(problem, psi0, clip), budget.epsilon, budget.delta)
    return {
        "step": found.step,
        "probability": found.probability,
        "local_steps": found.local_steps,
        "iterations": found.iterations,
        "communications": found.communications,
        "warning": found.warning,
    }


def _scaffnew(problem: Problem, psi0: float, clip: float) -> Any:
    from tacit.schedules.scaffnew import ScaffNewProblem

    return ScaffNewProblem(
        psi0,
        problem.strong_convexity,
        problem.smoothness,
        problem.population.clients,
        problem.dimension,
        clip,
    )


def _simulate(
    problem: Problem,
    budget: Budget,
    candidates: list[Candidate],
    shape: tuple[int, int, int],
    *,
    quiet: bool,
) -> list[Rehearsed]:
    from rich.console import Console

    from tacit.run.rehearsal import public_federation, rehearse

    records, features, classes = shape
    federation = public_federation(problem.population.clients, records, features, classes)
    console = Console(stderr=True, quiet=quiet)
    with console.status("rehearsing on public data") as status:
        return rehearse(
            problem,
            budget,
            candidates,
            federation,
            lambda name: status.update(f"rehearsing {name} on public data"),
        )


def _row(candidate: Candidate) -> dict[str, Any]:
    sure = candidate.guarantee
    return {
        "method": candidate.name,
        "protects": candidate.protects,
        "rounds": candidate.rounds,
        "noise": candidate.noise,
        "noise_to_signal": candidate.noise_to_signal,
        "noise_to_signal_over_run": candidate.over_run,
        "verdict": candidate.verdict,
        "why_not": candidate.why_not,
        "guarantee": sure.as_dict() if sure is not None else None,
    }


def _print(
    problem: Problem,
    candidates: list[Candidate],
    theory: dict[str, Any] | None,
    ranked: list[Rehearsed],
    word: str | None,
    files: dict[str, str],
) -> None:
    show.table(
        ("method", "protects", "noise", "noise/signal", "verdict"),
        [
            (c.name, c.protects, f"{c.noise:.4g}", f"{c.noise_to_signal:.3g}", c.verdict)
            for c in candidates
        ],
        title=f"{problem.rounds} rounds, dimension {problem.dimension}",
    )
    show.sentence(
        "Noise is the standard deviation on each released sum in units of its bound; noise/signal"
        " is that of the mean message over the bound, per round."
    )
    if theory is not None:
        show.sentence(
            f"DP-ScaffNew by its bound: step {theory['step']:.3g}, p {theory['probability']:.3g}"
            f" ({theory['local_steps']:.1f} local steps), T* {theory['iterations']:.0f}"
            f" ({theory['communications']:.0f} communications)."
        )
        if theory["warning"]:
            show.sentence(f"Warning: {theory['warning']}")
    if ranked:
        show.table(
            ("method", "accuracy on public data", "best setting"),
            [
                (
                    r.name,
                    f"{r.accuracy:.3f}",
                    ", ".join(f"{k} {v:g}" for k, v in r.settings.items()),
                )
                for r in ranked
            ],
        )
    first = next((c for c in candidates if c.guarantee is not None), None)
    if first is not None and first.guarantee is not None:
        show.sentence(
            f"Suggested: {first.name}, {first.rounds} rounds. Averaged over all of them the noise"
            f" is {first.over_run:.3g} of the largest signal. {first.guarantee.sentence()}"
        )
    if word:
        show.sentence(word)
    for what, path in files.items():
        show.sentence(f"The {what} is {path}.")


def _write(
    out: Path,
    problem: Problem,
    budget: Budget,
    candidates: list[Candidate],
    ranked: list[Rehearsed],
    psi0: float,
    clip: float,
) -> dict[str, str]:
    """Write a plot of the bound over T, and a configuration to start from."""
    from tacit.report.bound import draw_bound
    from tacit.run.config import as_toml

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the folder {out} cannot be created ({error.strerror}).") from None
    files = {}
    if problem.strong_convexity > 0:
        picture = draw_bound(_scaffnew(problem, psi0, clip), budget, out / "bound.png")
        files["picture of the bound"] = str(picture)
    chosen = _chosen(candidates, ranked)
    if chosen is not None:
        name, options = chosen
        config = {
            "data": {"path": "clients", "target": {"column": "label"}},
            "task": {"name": type(problem.task).__name__.lower()},
            "privacy": {"epsilon": budget.epsilon, "delta": budget.delta},
            "algorithm": {"name": name, **options},
        }
        if not name.startswith("auto"):  # auto chooses its rounds
            config["train"] = {"rounds": problem.rounds}
        path = out / "config.toml"
        path.write_text(
            "# Name your data in [data], then: tacit run config.toml\n" + as_toml(config)
        )
        files["configuration"] = str(path)
    return files


def _chosen(
    candidates: list[Candidate], ranked: list[Rehearsed]
) -> tuple[str, dict[str, Any]] | None:
    """The best method with its options, as written in a configuration."""
    import dataclasses

    from tacit.algorithms import registry

    best = {r.name: r.settings for r in ranked[:1]}
    for candidate in candidates:
        if candidate.algorithm is None or (best and candidate.name not in best):
            continue
        name = candidate.name.removesuffix(" (local)")
        known = registry.options(name)
        fields = {f.name: f.default for f in dataclasses.fields(candidate.algorithm)}
        options = {
            key: value
            for key in known
            if key not in ("noise", "radius_noise", "relation")
            and isinstance(value := getattr(candidate.algorithm, key, None), (int, float, str))
            and value != fields.get(key)
        }
        return name, options | best.get(candidate.name, {})
    return None
