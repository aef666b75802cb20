"""The page of runs: their guarantees as sentences and pictures, what was measured, how it was made.

Charts of the model (confusion, clients) need the records: they are left out where the configuration
cannot bring them back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tacit.accounting.guarantee import rounded_up
from tacit.report.charts import Chart, lines
from tacit.report.page import About, Page, Table, write_page
from tacit.run.compare import RATES
from tacit.run.model_charts import model_charts
from tacit.run.run import Run
from tacit.run.shown import Shown, stored

_FILE = "report.html"
_QUALITY = {
    "accuracy": "Accuracy",
    "concordance": "Concordance",
    "auc": "Area under the ROC curve",
    "r2": "Share of variance explained",
    "loss": "Loss",
}
_PLACES = {"test": "public test set", "oracle/held_out": "held out", "oracle": "training records"}
_INSIDE = {
    "oracle/signal_to_noise": ("Signal over noise of a round", "norm of the mean / norm of noise"),
    "server/radius": ("Clip radius", "radius"),
    "server/step_size": ("The server's step size", "step"),
    "oracle/gradient_rms": ("Root-mean-square gradient norm", "norm"),
    "oracle/clipped": ("Share of clipped contributions", "share"),
    "server/replies": ("Sites that took part", "sites"),
}


def write_report(
    paths: Sequence[Path], out: Path | None = None, trained: Run | None = None
) -> Path:
    """The page of these folders, in the first one unless another file is named.

    ``trained`` is the first of them, where it has just been trained: its records are there.
    """
    return write_runs([stored(path) for path in paths], out or paths[0] / _FILE, trained)


def write_runs(runs: Sequence[Shown], path: Path, trained: Run | None = None) -> Path:
    """The page of these runs."""
    only = runs[0].folder if len(runs) == 1 else None
    looked = any(metric.startswith("oracle/") for metric in runs[0].curves)
    models = () if only is None else model_charts(only, trained, oracle=looked)
    sections = [
        ("Privacy", list(_privacy(runs))),
        ("Quality", [*_quality(runs), *models]),
        ("Inside the training", list(_inside(runs))),
    ]
    title = runs[0].title if len(runs) == 1 else f"{len(runs)} runs side by side"
    tables = [_side_by_side(runs)] if len(runs) > 1 else []
    return write_page(Page(title, [_about(run) for run in runs], sections, tables), path)


def _about(run: Shown) -> About:
    sure, headline = run.guarantee, list[tuple[str, str]]()
    if run.private:
        headline.append(("epsilon, whole run", rounded_up(float(sure["epsilon"]), 3)))
        headline.append(("at delta", f"{sure['delta']:g}"))
    for metric in _qualities([run])[:2]:
        values = run.curves[metric][max(run.curves[metric])]  # one for each seed
        headline.append((_worded(metric), f"{np.mean(values):.3g}"))
    facts = [("rounds", f"{run.rounds:,}"), ("seeds", str(run.seeds))]
    if run.clients is not None and run.cohort is not None:
        facts.append(("clients", f"{run.clients:,}, of which {run.cohort:,.6g} in a round"))
    if run.seconds is not None:
        facts.append(("time of training", _time(run.seconds)))
    if run.stopped:
        facts.append(("stopped early", run.stopped))
    origin = "the operating system" if sure["noise_from"] == "system" else "a seed"
    facts.append(("noise from", origin))
    return About(
        name=run.name,
        headline=tuple(headline),
        sentence=str(sure["sentence"]),
        meaning=str(sure.get("meaning", "")),
        config=run.config,
        facts=(*facts, *run.versions.items()),
        use=run.use,
        simulated=sure["noise_from"] == "seed",
    )


def _side_by_side(runs: Sequence[Shown]) -> Table:
    """The last value of every quality that all runs have, beside what each run promises."""
    metrics, rows = _qualities(runs), []
    for run in runs:
        sure, cells = run.guarantee, list[str]()
        promised = (
            (rounded_up(float(sure["epsilon"]), 3), f"{sure['delta']:g}")
            if run.private
            else ("no promise", "")
        )
        for metric in metrics:
            values = run.curves[metric][max(run.curves[metric])]
            spread = f" ± {np.std(values, ddof=1):.2g}" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.4g}{spread}")
        rows.append((run.name, *promised, sure["unit"], sure["observer"], *cells))
    heads = ("run", "epsilon", "delta", "protects", "against", *map(_worded, metrics))
    note = "Epsilon is for a whole run of one seed. ± is the standard deviation over seeds."
    return Table("Side by side", heads, rows, note)


def _worded(metric: str) -> str:
    place, _, quality = metric.rpartition("/")
    return f"{quality}, {_PLACES[place]}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} seconds"
    return f"{seconds / 60:.3g} minutes" if seconds < 7200 else f"{seconds / 3600:.3g} hours"


def _privacy(runs: Sequence[Shown]) -> Iterator[Chart]:
    order = [run.name for run in runs]
    spent = {run.name: run.spent for run in runs if run.spent}
    if spent:
        total = {float(run.guarantee["epsilon"]) for run in runs if run.spent}
        allowed = {run.budget for run in runs if run.spent}
        yield lines(
            "epsilon",
            "Privacy spent over the rounds",
            spent,
            across="round",
            up="epsilon",
            limit=_limit(allowed, "budget") or _limit(total, "spent in all"),
            order=order,
            low=0.0,
            note="The loss of privacy grows with every round that is published.",
        )
    attacks = {run.name: run.attack for run in runs if run.attack}
    if attacks:
        yield lines(
            "attack",
            "What the best attack can achieve",
            attacks,
            across="share of others that are accused wrongly",
            up="share of members recognised",
            others={"guessing": [(rate, rate) for rate in RATES]},
            order=order,
            log=True,
            note=(
                "Nobody, whatever they know, can recognise more than this line. The closer to"
                " guessing, the better the protection."
            ),
        )


def _limit(levels: set[float | None] | set[float], name: str) -> tuple[str, float] | None:
    """A level that all runs share."""
    level = next(iter(levels)) if len(levels) == 1 else None
    return None if level is None else (name, level)


def _qualities(runs: Sequence[Shown]) -> list[str]:
    """The metrics of quality that all runs have, the public ones first."""
    found = [
        f"{place}/{quality}"
        for place in _PLACES
        for quality in _QUALITY
        if all(f"{place}/{quality}" in run.curves for run in runs)
    ]
    public = [metric for metric in found if metric.startswith("test/")]
    return public or found


def _quality(runs: Sequence[Shown]) -> Iterator[Chart]:
    order = [run.name for run in runs]
    many = any(run.seeds > 1 for run in runs)
    for metric in _qualities(runs):
        place, _, quality = metric.rpartition("/")
        note = f"On the {_PLACES[place]}."
        if many:
            note += " Bands: from the worst to the best seed."
        yield _over_rounds(runs, metric, _QUALITY[quality], quality, note, order)


def _inside(runs: Sequence[Shown]) -> Iterator[Chart]:
    for metric, (title, unit) in _INSIDE.items():
        having = [run for run in runs if metric in run.curves]
        if having:
            yield _over_rounds(having, metric, title, unit, "", [run.name for run in runs])


def _over_rounds(
    runs: Sequence[Shown], metric: str, title: str, up: str, note: str, order: Sequence[str]
) -> Chart:
    means, bands = {}, {}
    for run in runs:
        curve = sorted(run.curves[metric].items())
        means[run.name] = [(round_, float(np.mean(values))) for round_, values in curve]
        if run.seeds > 1:
            bands[run.name] = [(r, min(values), max(values)) for r, values in curve]
    return lines(
        metric.replace("/", "-"),
        title,
        means,
        across="round",
        up=up,
        note=note,
        bands=bands,
        order=order,
        low=0.0 if up == "share" else None,
        high=1.0 if up == "share" else None,
        oracle=metric.startswith("oracle/"),
    )
