"""Many runs side by side: methods, settings and seeds, and what each may claim.

A variant is one configuration; its seeds share a compiled program. Variants go over the cores.
"""

from __future__ import annotations

import itertools
import math
import statistics
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.errors import ConfigError
from tacit.measurements import Row
from tacit.run.config import RunConfig, changed
from tacit.run.parallel import over_cores

RATES = tuple(np.geomspace(1e-4, 0.99, 60).tolist())  # of false positives, for curves
_QUALITIES = ("accuracy", "concordance", "auc", "r2", "loss")
_PLACES = ("test", "oracle/held_out", "oracle")


@dataclass(frozen=True)
class Variant:
    """A configuration under the name that tells it from the others."""

    name: str
    config: RunConfig


@dataclass(frozen=True)
class Share:
    """Some seeds of a variant: what one core does at a time."""

    variant: Variant
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """What came of a share: the guarantee of each run alone, and the metrics of every seed."""

    guarantee: dict[str, Any]
    rows: dict[int, list[Row]]
    attack: tuple[tuple[float, float], ...] = ()  # the trade-off curve of the guarantee

    def last(self, metric: str) -> list[float]:
        """The last value of a metric for every seed."""
        found = ({row.metric: row.value for row in rows} for rows in self.rows.values())
        return [values[metric] for values in found if metric in values]


def varied(
    bases: Mapping[str, Mapping[str, Any]], vary: Sequence[str] = (), changes: Sequence[str] = ()
) -> list[Variant]:
    """Every base with every combination of ``section.key=first,second,…``."""
    axes = [_choices(text) for text in vary]
    found = []
    for name, values in bases.items():
        for picks in itertools.product(*axes):
            settings = changed(dict(values), [*changes, *(f"{key}={pick}" for key, pick in picks)])
            labels = [f"{key.rpartition('.')[2]} {pick}" for key, pick in picks]
            found.append(Variant(", ".join([name, *labels]), RunConfig.from_dict(settings)))
    return found


def with_auto(variants: Sequence[Variant]) -> list[Variant]:
    """The variants, and auto once for every problem of theirs that has a budget.

    It protects whom the others protect, against whom they do. Its rounds follow from the budget.
    """
    found, known = list(variants), {_problem(v) for v in variants if _is_auto(v)}
    for variant in variants:
        privacy = variant.config.privacy
        if privacy == "none" or privacy.budget is None or _problem(variant) in known:
            continue
        known.add(_problem(variant))
        values = variant.config.as_dict()
        values["algorithm"] = _auto_like(variant)
        values["train"].pop("rounds", None)
        alone = len({_problem(v) for v in variants}) == 1
        name = "auto" if alone else f"auto beside {variant.name}"
        found.append(Variant(name, RunConfig.from_dict(values)))
    return found


def suggests_auto(variants: Sequence[Variant]) -> bool:
    """Whether auto could stand beside them and does not."""
    return len(with_auto(variants)) > len(variants)


def _is_auto(variant: Variant) -> bool:
    return variant.config.algorithm.name in ("auto", "auto-local")


def _problem(variant: Variant) -> str:
    """What is learnt from what, within which budget."""
    values = variant.config.as_dict()
    return repr([values.get(part) for part in ("data", "features", "task", "privacy")])


def _auto_like(variant: Variant) -> dict[str, Any]:
    """Auto with the protection that the variant's method gives."""
    from tacit.algorithms import registry

    method = variant.config.algorithm
    algorithm = registry.make(method.name, **method.options)
    release = getattr(algorithm, "release", None)
    if release is not None and release.unit == "record":
        trusted = _noise_on_sum(release) if release.by_record else {}
        return {"name": "auto", "protects": "record", "relation": algorithm.relation, **trusted}
    if release is not None and release.at == "message":
        return {"name": "auto-local", "centre": "private"}
    trusted = _noise_on_sum(release) if release is not None and release.at == "shares" else {}
    return {"name": "auto", "relation": algorithm.relation, **trusted}


def _noise_on_sum(release: Any) -> dict[str, Any]:
    """The options for noise in the same place, with the same trust."""
    options = {"noise_at": release.at, "dropouts": release.trust.dropouts or None}
    options["honest"] = release.trust.honest
    return {key: value for key, value in options.items() if value is not None}


def shares(variants: Sequence[Variant], seeds: int, jobs: int) -> list[Share]:
    """The seeds of every variant together, or in parts where cores would stand idle."""
    parts = min(seeds, -(-jobs // len(variants)))
    return [
        Share(
            variant, tuple((variant.config.train.seed or 0) + n for n in range(part, seeds, parts))
        )
        for variant in variants
        for part in range(parts)
    ]


def compared(variants: Sequence[Variant], seeds: int, jobs: int) -> Iterator[tuple[Share, Outcome]]:
    """Run them all, each share given back when it is done."""
    return over_cores(run_share, shares(variants, seeds, jobs), jobs)


def run_share(share: Share) -> Outcome:
    """Train a variant from each of its seeds, with one compiled program."""
    from tacit.run.run import Run

    run = Run.from_config(share.variant.config)
    rows, results = dict[int, list[Row]](), []
    for seed in share.seeds:
        results.append(run.with_seed(seed).train())
        rows[seed] = results[-1].rows
    sure = results[-1].guarantee
    curve = sure.attack(RATES) if math.isfinite(sure.epsilon) else ()
    return Outcome(sure.as_dict(), rows, curve)


def joined(done: Sequence[tuple[Share, Outcome]]) -> dict[str, Outcome]:
    """The shares of each variant put together, by name."""
    found: dict[str, Outcome] = {}
    for share, outcome in done:
        before = found.get(share.variant.name)
        rows = {**(before.rows if before else {}), **outcome.rows}
        whole = dict(sorted(rows.items()))
        found[share.variant.name] = replace(outcome, rows=whole)
    return found


def quality(outcomes: Mapping[str, Outcome], wanted: str | None) -> str:
    """The metric to compare by: as wanted, or the most telling one that all of them have."""
    known = [
        {row.metric for rows in outcome.rows.values() for row in rows}
        for outcome in outcomes.values()
    ]
    common = set.intersection(*known)
    if wanted is not None:
        if wanted not in common:
            raise ConfigError(
                f"not every run has the metric {wanted!r}: choose from"
                f" {', '.join(sorted(common)) or 'none (they share no metric)'}."
            )
        return wanted
    for place, name in itertools.product(_PLACES, _QUALITIES):
        if f"{place}/{name}" in common:
            return f"{place}/{name}"
    raise ConfigError("the runs have no metric in common: compare runs of one kind of task.")


def spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean, and standard deviation where there are several."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def differences(outcomes: Mapping[str, Outcome]) -> list[str]:
    """In which words of their guarantees the runs differ; nothing means a fair comparison."""
    fields = ("unit", "relation", "observer", "delta")
    found = [field for field in fields if len({o.guarantee[field] for o in outcomes.values()}) > 1]
    epsilons = [float(o.guarantee["epsilon"]) for o in outcomes.values()]
    if max(epsilons) > 1.01 * min(epsilons):
        found.append("epsilon")
    return found


def _choices(text: str) -> list[tuple[str, str]]:
    key, sign, values = text.partition("=")
    try:
        # A list of TOML where it is one, so that text and lists may hold commas.
        picks = [_as_toml(v) for v in tomllib.loads(f"v = [{values}]")["v"]]
    except tomllib.TOMLDecodeError:
        picks = [part.strip() for part in values.split(",") if part.strip()]
    if not sign or not picks:
        raise ConfigError(f"--vary {text!r} is not of the form section.key=first,second.")
    return [(key.strip(), pick) for pick in picks]


def _as_toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
