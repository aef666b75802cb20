"""A rehearsal on public data of the same shape: methods ranked without touching a private record.

The data is generated: class centres on a sphere, records of unit norm around them, clients with
skewed labels. What wins here is a guess for the real problem, and it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.accounting import Budget
from tacit.data.federation import Federation
from tacit.data.splits.cuts import dirichlet
from tacit.errors import TacitError
from tacit.planning.advice import Candidate, Problem
from tacit.run.loop import Settings
from tacit.run.run import Run

# Bounds and server steps to try; everything else is the method's default.
_RADII = (0.1, 0.5, 2.0)
_BOUND_FIELDS = ("clip", "scale", "max_radius")


@dataclass(frozen=True)
class Rehearsed:
    """How a method did with its best setting, and that setting."""

    name: str
    accuracy: float
    settings: dict[str, float]


def public_federation(
    clients: int, records: int, features: int, classes: int, *, seed: int = 0
) -> Federation:
    """Unit records around class centres, split over clients with skewed labels."""
    rng = np.random.default_rng(seed)
    total = max(clients * records, 2 * clients) + 2_000
    centres = rng.standard_normal((classes, features)) / np.sqrt(features)
    labels = rng.integers(classes, size=total)
    x = centres[labels] + 1.8 * rng.standard_normal((total, features)) / np.sqrt(features)
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    train = {"x": x[:-2_000], "y": labels[:-2_000]}
    test = {"x": x[-2_000:], "y": labels[-2_000:]}
    parts = dirichlet(train["y"], clients, alpha=0.5, seed=seed)
    return Federation.from_parts(train, parts, test=test, classes=classes, title="public rehearsal")


def rehearse(
    problem: Problem,
    budget: Budget,
    candidates: Sequence[Candidate],
    federation: Federation,
    on_step: Callable[[str], None] = lambda _: None,
) -> list[Rehearsed]:
    """Every possible candidate at its best radius on the public federation, best first."""
    results = []
    for candidate in candidates:
        if candidate.algorithm is None:
            continue
        tried = [
            (_accuracy(algorithm, candidate, problem, budget, federation, on_step), settings)
            for algorithm, settings in _settings(candidate.algorithm)
        ]
        accuracy, settings = max(tried, key=lambda t: t[0])
        results.append(Rehearsed(candidate.name, accuracy, settings))
    return sorted(results, key=lambda r: -r.accuracy)


def _settings(algorithm: Any) -> Iterator[tuple[Any, dict[str, float]]]:
    name = next((f for f in _BOUND_FIELDS if hasattr(algorithm, f)), None)
    if name is None:  # nothing to tune
        yield algorithm, {}
        return
    for radius in _RADII:
        yield replace(algorithm, **{name: radius}), {name: radius}


def _accuracy(
    algorithm: Any,
    candidate: Candidate,
    problem: Problem,
    budget: Budget,
    federation: Federation,
    on_step: Callable[[str], None],
) -> float:
    on_step(candidate.name)
    settings = Settings(seed=0, eval_every=candidate.rounds, oracle=False)
    try:
        run = Run.of(
            algorithm,
            problem.task,
            federation,
            rounds=candidate.rounds,
            budget=budget,
            settings=settings,
        )
        return run.train().metrics["test/accuracy"]
    except TacitError:
        return 0.0
