"""A run as a page shows it, from its folder or from a comparison.

A folder holds one run, or one for each seed (``seed-0``, ``seed-1``).
"""

from __future__ import annotations

import contextlib
import json
import math
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tacit.accounting import Ledger, epsilon_of
from tacit.accounting.best_attack import best_attack
from tacit.accounting.events import compose
from tacit.accounting.guarantee import Relation
from tacit.accounting.ledger import Charge
from tacit.errors import ConfigError
from tacit.measurements import Row
from tacit.run.compare import RATES, Outcome, Variant
from tacit.run.config import as_toml
from tacit.run.folder import RunFolder
from tacit.run.result import versions

_LOOKS = 40  # points of the curve over rounds
_USE = """import numpy as np

with np.load("{folder}/model.npz") as model:
    params = {{name: model[name] for name in model.files}}
"""
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Shown:
    """One run, or the seeds of one: what it promises, what was measured, how it was made."""

    name: str
    guarantee: Mapping[str, Any]  # that of each seed alone
    curves: Mapping[str, Mapping[int, list[float]]]  # by metric and round, one value for each seed
    config: str
    rounds: int
    seeds: int
    versions: Mapping[str, str]
    stopped: str | None = None
    seconds: float | None = None  # of all seeds
    clients: int | None = None
    cohort: float | None = None  # clients that are expected in a round
    budget: float | None = None  # epsilon that was allowed
    spent: Points = ()  # epsilon after rounds
    attack: Points = ()  # the most true positives at false positives
    use: str = ""
    folder: Path | None = field(default=None, compare=False)

    @property
    def private(self) -> bool:
        """Whether it promises anything."""
        return math.isfinite(float(self.guarantee["epsilon"]))

    @property
    def title(self) -> str:
        """The method and the records, where the configuration names them."""
        with contextlib.suppress(tomllib.TOMLDecodeError, KeyError, TypeError):
            values = tomllib.loads(self.config)
            return f"{values['algorithm']['name']} on {values['data']['name']}"
        return self.name


def stored(path: Path) -> Shown:
    """The run of a folder."""
    if not path.is_dir():
        raise ConfigError(f"{path} is not a folder: give that of a run (tacit run --out FOLDER).")
    seeds = sorted(p.parent for p in path.glob("seed-*/summary.json"))
    folders = tuple(seeds) or ((path,) if (path / "summary.json").exists() else ())
    if not folders:
        raise ConfigError(f"{path} holds no finished run: it has no summary.json.")
    first = folders[0]
    summaries = [json.loads((f / "summary.json").read_text(encoding="utf-8")) for f in folders]
    summary = summaries[0]
    rounds, sure = int(summary["rounds"]), summary["guarantee"]
    config = first / "config.toml"
    text = config.read_text(encoding="utf-8") if config.exists() else ""
    spent, attack = _privacy(first / "ledger.jsonl", sure, rounds)
    times = [each.get("seconds") for each in summaries]  # runs of earlier versions have none
    return Shown(
        name=path.resolve().name,
        guarantee=sure,
        curves=_curves(RunFolder(folder).read_metrics(rounds) for folder in folders),
        config=text,
        rounds=rounds,
        seeds=len(folders),
        versions=summary["versions"],
        stopped=summary["stopped"],
        seconds=None if None in times else sum(times),
        clients=summary.get("clients"),
        cohort=summary.get("expected_cohort"),
        budget=_budget(text),
        spent=spent,
        attack=attack,
        use=_USE.format(folder=first.name),
        folder=first,
    )


def _budget(config: str) -> float | None:
    """The epsilon that a configuration allows, if it names one."""
    with contextlib.suppress(tomllib.TOMLDecodeError, KeyError, TypeError, ValueError):
        return float(tomllib.loads(config)["privacy"]["epsilon"])
    return None


def compared(variant: Variant, outcome: Outcome) -> Shown:
    """A variant of a comparison."""
    return Shown(
        name=variant.name,
        guarantee=outcome.guarantee,
        curves=_curves(outcome.rows.values()),
        config=as_toml(variant.config.as_dict()),
        rounds=max(row.round for rows in outcome.rows.values() for row in rows),
        seeds=len(outcome.rows),
        versions=versions(),
        attack=outcome.attack,
    )


def _curves(seeds: Iterable[Iterable[Row]]) -> dict[str, dict[int, list[float]]]:
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for rows in seeds:
        for row in rows:
            found[row.metric][row.round].append(row.value)
    return found


def _privacy(path: Path, sure: Mapping[str, Any], rounds: int) -> tuple[Points, Points]:
    """Epsilon over the rounds and the trade-off curve, where the ledger is the whole story."""
    if not path.exists() or not math.isfinite(float(sure["epsilon"])):
        return (), ()
    ledger, relation = Ledger.read(path), sure["relation"]
    delta = float(sure["delta"])
    if not math.isclose(ledger.guarantee(delta).epsilon, sure["epsilon"], rel_tol=1e-6):
        return (), ()  # sites have charged themselves, and the server's ledger is not the whole
    spent = _spent(list(ledger.charges), rounds, delta, relation)
    return spent, best_attack(ledger.spent(), relation, RATES)


def _spent(charges: Sequence[Charge], rounds: int, delta: float, relation: Relation) -> Points:
    """Epsilon after some of the rounds; what is released before the first counts from round 0."""
    found: dict[int, float] = {}
    cuts = {int(n) for n in np.linspace(1, len(charges), min(_LOOKS, len(charges)))}
    done = 0
    for number, charge in enumerate(charges, start=1):
        at = charge.label.get("round")
        done = max(done, at + 1 if isinstance(at, int) and 0 <= at < rounds else 0)
        if number in cuts:
            events = compose(*(c.event for c in charges[:number]))
            found[done] = epsilon_of(events, delta=delta, relation=relation)
    return list(found.items())
