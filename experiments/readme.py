"""The generated parts of the README: the headline table and the picture, from stored results.

Accuracy of auto, speed against other libraries, and what trust costs. The text around the markers
is written by hand and is not changed.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments import picture
from experiments.reproduce.catalogue import ENTRIES
from experiments.reproduce.store import Store
from experiments.reproduce.summary import Summary
from experiments.studies import auto_grid, trust
from experiments.studies.auto_targets import newest
from tacit.errors import ConfigError, TacitError

BEGIN, END = "<!-- headline: begin -->", "<!-- headline: end -->"
PICTURE = Path("assets") / "tacit.svg"
# A task of auto and its title; the entry and its method that are compared, at the same epsilon.
_EPSILON = 2.0
_ACCURACY = (
    ("A", "Fashion-MNIST, 3,000 clients", "norm/table2-fmnist", "normalise"),
    ("B", "CIFAR-10 features, 5,000 clients", "norm/table2-cifar10", "normalise"),
)
_NAMES = {"normalise": "DP-NormFedAvg, tuned"}
_RELATION = re.compile(r"neighbours differ by ([^(]+) \(")
# A work of the benchmark, its title, the peers and their names.
_SPEED = (
    ("W1", "600 of 3,000 clients, softmax", ("pfl", "fedjax", "flower")),
    ("W2", "1,000 clients, convolutional network", ("pfl", "fedjax", "flower")),
    ("W3", "2 silos, DP-SGD, linear", ("opacus",)),
    ("W3b", "2 silos, DP-SGD, convolutional network", ("opacus",)),
)
_PEERS = {"pfl": "pfl", "fedjax": "FedJAX", "flower": "Flower", "opacus": "Opacus"}
_TRUST = {"heart-disease": "Heart Disease", "tcga-brca": "TCGA-BRCA"}


def write_readme(store: Store, readme: Path, docs: Path) -> list[Path]:
    """Write the headline table between its markers, and draw the picture."""
    if store.folder is None:
        raise ConfigError("the README is made from stored results: give their folder.")
    results = store.folder.parent
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    readme.write_text(written(text, store, results, readme), encoding="utf-8")
    return [
        readme,
        picture.draw(store, _lines(results / "studies/auto-targets.jsonl"), docs / PICTURE),
    ]


def written(text: str, store: Store, results: Path, name: Path = Path("README.md")) -> str:
    """The text with the table between its markers."""
    if BEGIN not in text or END not in text:
        raise ConfigError(f"{name} needs the lines {BEGIN} and {END} around the table.")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    block = "\n".join(headline(store, results))
    return f"{before}{BEGIN}\n{block}\n{END}{after}"


def headline(store: Store, results: Path) -> Iterator[str]:
    """The rows of the table: accuracy, speed, trust."""
    yield "| | Tacit | compared with |"
    yield "|---|---|---|"
    studies = results / "studies"
    yield from _accuracy(
        store, _lines(studies / "auto-targets.jsonl"), _lines(studies / "auto-grid.jsonl")
    )
    speed: dict[str, Any] = _read(results / "bench/speed.json")
    yield from _speed(speed["works"]) if speed else ()
    yield from _trusted(_read(results / "studies/auto-trust.json").get("rows", []))


def _accuracy(
    store: Store, auto: list[dict[str, Any]], grid: list[dict[str, Any]]
) -> Iterator[str]:
    for task, title, entry, method in _ACCURACY:
        runs = newest(auto, task, _EPSILON)
        cell = Summary(ENTRIES[entry], store).cell(f"epsilon {_EPSILON:g}", method, None)
        if runs and cell is not None:
            _same_relation(title, runs[0]["guarantee"], cell.records[0].guarantee)
            said = f"{statistics.fmean(run['accuracy'] for run in runs):.1f} %"
            other = f"{cell.mean:.1f} % {_NAMES[method]}"
            yield f"| **accuracy** at epsilon {_EPSILON:g}: {title} | {said} | {other} |"
    points = auto_grid.compared(grid)
    if points:
        tasks, good = len({here[0] for here, *_ in points}), sum(point[4] for point in points)
        yield (
            f"| **accuracy** at {len(points)} points of {tasks} other tasks"
            f" | as good at {good} | the best other method, tuned by an oracle |"
        )


def _same_relation(title: str, *guarantees: str) -> None:
    """Epsilons of two relations are no equal privacy: they are not put side by side."""
    found = {match[1] if (match := _RELATION.search(text)) else "" for text in guarantees}
    if len(found) != 1 or "" in found:
        raise TacitError(f"{title}: the guarantees have other relations ({found}).")


def _speed(works: dict[str, Any]) -> Iterator[str]:
    for name, title, peers in _SPEED:
        own = works[name]["sides"]["tacit"]["per_round"]["wall"]["median"]
        slower = [f"{_PEERS[peer]} {_times(works[name]['ratios'], peer)}" for peer in peers]
        said = f"{1000 * own:.3g} ms" if own < 1 else f"{own:.3g} s"
        yield f"| **time** of a round: {title} | {said} | {', '.join(slower)} |"


def _times(ratios: dict[str, Any], peer: str) -> str:
    """How many times longer the better variant of a peer takes."""
    least = min(r["wall"] for side, r in ratios.items() if side.split("-")[0] == peer)
    return f"{least:.1f}x" if least < 20 else f"{least:.0f}x"


def _trusted(rows: list[dict[str, Any]]) -> Iterator[str]:
    for name, title in _TRUST.items():
        here = {r["place"]: r for r in rows if (r["data"], r["epsilon"]) == (name, 1.0)}
        if len(here) != len(trust.PLACES):
            continue
        mean = {place: f"{statistics.fmean(r['scores']):.3f}" for place, r in here.items()}
        where = f"{title}, {here['shares']['clients']} hospitals, {here['shares']['metric']}"
        yield (
            f"| **trust** at epsilon 1: {where} | {mean['shares']} secure sum |"
            f" {mean['aggregate']} trusted server, {mean['silo']} each alone |"
        )


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(x) for x in path.read_text("utf-8").splitlines()] if path.exists() else []
