"""Privacy audits in the simulator of two accounting errors that a review found.

``python -m experiments.studies.attacks`` writes ``results/studies/attacks.json``.

record   a record whose client is sampled: other records of the client reveal when it takes part.
         The noise is that of wrong accounting (the record as sampled, epsilon 1), and Tacit's.
cohort   two clients and cohorts of one, seen by the other client, which knows when it was asked.
         The noise is that of wrong accounting (fixed-size sampling, epsilon 2), and Tacit's.

For each: runs on two neighbouring federations, the exact likelihood ratio of what the observer
sees, and a lower bound on epsilon at 95 % confidence (Clopper and Pearson), with the threshold
chosen on one half of the runs and tested on the other. ``python -m experiments.studies.attacks``
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import beta

from tacit.accounting import Budget, FixedSize, Poisson, gaussian_event
from tacit.accounting import calibrate as least_noise
from tacit.accounting.events import SamplingScheme
from tacit.accounting.guarantee import Relation
from tacit.algorithm import Algorithm, Problem
from tacit.algorithms import Auto, DPFedAvg
from tacit.data.federation import Federation
from tacit.planning import Plan, calibrate
from tacit.population import Population
from tacit.sampling import FixedCohort, PoissonCohort
from tacit.simulation import Simulator
from tacit.tasks.logistic import Logistic

RUNS, DELTA, CONFIDENCE = 1500, 1e-5, 0.95
SIBLINGS, RATE, ROUNDS = 400, 0.1, 40
TASK = Logistic(features=1, bias=False)
Floats = NDArray[np.float64]


def federation(first: list[float], others: int = 3) -> Federation:
    """Client 0 with these records of label 1; each other client holds one zero record."""
    x = np.array([*first, *[0.0] * others])[:, None]
    return Federation(
        records={"x": x, "y": np.ones(len(x), np.int64)},
        sizes=np.array([len(first), *[1] * others]),
        names=tuple(f"client-{i}" for i in range(others + 1)),
        classes=2,
        title="neighbours",
    )


def models(engine: Simulator, runs: int, rounds: int) -> Floats:
    """All models of all runs, as every observer may see them."""
    seen = np.empty((runs, rounds + 1))
    for run in range(runs):
        engine.reseed(run)
        state = engine.init()
        seen[run, 0] = float(engine.params(state)["w"][0])
        for round_ in range(rounds):
            state = engine.advance(state, round_, 1)
            seen[run, round_ + 1] = float(state.server.params["w"][0])
    return seen


def lower_bound(inside: Floats, outside: Floats) -> float:
    """The largest epsilon that the runs refute, from the scores of both sides."""
    half = len(inside) // 2

    def at(threshold: float, p: Floats, q: Floats, confidence: float) -> float:
        hits, alarms, n = int((p > threshold).sum()), int((q > threshold).sum()), len(p)
        tail = (1 - confidence) / 2
        least = float(beta.ppf(tail, hits, n - hits + 1)) if hits else 0.0
        most = float(beta.ppf(1 - tail, alarms + 1, n - alarms)) if alarms < n else 1.0
        return math.log((least - DELTA) / most) if least > DELTA else 0.0

    grid = np.quantile(
        np.concatenate([inside[:half], outside[:half]]), np.linspace(0.5, 0.999, 200)
    )
    best = max(grid, key=lambda t: at(float(t), inside[:half], outside[:half], CONFIDENCE))
    return max(0.0, at(float(best), inside[half:], outside[half:], CONFIDENCE))


def careless(sampling: SamplingScheme, relation: Relation, rounds: int, epsilon: float) -> float:
    """The noise of wrong accounting: amplification by sampling against every observer."""
    return least_noise(
        lambda z: gaussian_event(
            radius=1, noise=z, relation=relation, sampling=sampling, count=rounds
        ),
        Budget(epsilon, DELTA),
        relation=relation,
    )


def record(noise: float) -> float:
    """Audit of a record of a sampled client."""
    method = Auto(
        noise=noise,
        protects="record",
        noise_at="aggregate",
        clients_per_round=PoissonCohort(RATE),
        records="as-is",
        kappa=1e-4,
        momentum=0.0,
        average_rounds=1,
    )
    data = [federation([1.0] * SIBLINGS + [x]) for x in (1.0, 0.0)]
    population = Population(tuple(int(n) for n in data[0].sizes))
    planned = method.planned(Problem(TASK, population, ROUNDS))
    to_sum = planned.cohort.expected(population.clients) / population.sums_to_mean

    def scores(seen: Floats) -> Floats:
        sums = -np.diff(seen, axis=1) / planned.lr * to_sum
        return _ratio(sums, -(SIBLINGS + 1.0), -float(SIBLINGS), noise)

    return _audit(planned, data, scores, ROUNDS)


def _ratio(sums: Floats, with_it: float, without: float, sigma: float) -> Floats:
    """The log of the likelihood ratio over all rounds."""

    def log_density(shift: float) -> Floats:
        parts = np.stack([-0.5 * ((sums - s) / sigma) ** 2 for s in (0.0, shift)])
        found: Floats = logsumexp(parts, axis=0, b=np.array([1 - RATE, RATE])[:, None, None])
        return found

    total: Floats = (log_density(with_it) - log_density(without)).sum(axis=1)
    return total


def cohort(noise: float) -> float:
    """Audit of one of two clients by the other, in cohorts of one."""
    rounds = 10
    method = DPFedAvg(
        noise=noise,
        clip=1.0,
        local_lr=1e6,
        clients_per_round=FixedCohort(1),
        relation="replace-one",
        server_lr=1e-9,
    )
    data = [federation([x], others=1) for x in (1.0, -1.0)]

    def scores(seen: Floats) -> Floats:
        sums = np.diff(seen, axis=1) / 1e-9
        took = np.stack([_asked(run, rounds) for run in range(len(seen))])
        # The update of the other client is 0, and it knows in which rounds the first was asked.
        found: Floats = (took * sums).sum(axis=1)
        return found

    return _audit(method, data, scores, rounds)


def _asked(run: int, rounds: int) -> Floats:
    """The rounds in which the other client was not asked."""
    from tacit.streams import Stream

    stream = Stream.seeded(run)
    masks = [np.asarray(FixedCohort(1).mask(stream.cohort(r), 2, r)) for r in range(rounds)]
    return np.array([float(mask[0]) for mask in masks])


def _audit(
    method: Algorithm,
    data: list[Federation],
    scores: Callable[[Floats], Floats],
    rounds: int,
) -> float:
    found = []
    for side in data:
        engine = Simulator(method, TASK, side, dtype="float64", max_devices=1)
        found.append(scores(models(engine, RUNS, rounds)))
    return lower_bound(*found)


def main() -> None:
    """Both audits with the old and the new noise."""
    population = Population((SIBLINGS + 1, 1, 1, 1))
    results: dict[str, Any] = {"runs": RUNS, "delta": DELTA, "confidence": CONFIDENCE}
    old = careless(Poisson(rate=RATE), "zero-out", ROUNDS, 1.0)
    plan = Plan(
        Auto(
            protects="record",
            noise_at="aggregate",
            clients_per_round=PoissonCohort(RATE),
            records="as-is",
        ),
        TASK,
        population,
        ROUNDS,
    )
    new = calibrate(plan, Budget(1.0, DELTA)).algorithm
    assert isinstance(new, Auto)
    printed = plan.with_noise(old).guarantee(DELTA).epsilon
    results["record"] = {
        "noise of a careless charge": old,
        "epsilon that was printed": 1.0,
        "epsilon that is printed now": printed,
        "audited": record(old),
        "noise for epsilon 1 now": new.noise,
        "audited with it": record(new.noise),
    }
    old = careless(FixedSize(sample=1, population=2), "replace-one", 10, 2.0)
    method = DPFedAvg(clients_per_round=FixedCohort(1), relation="replace-one")
    pair = Plan(method, TASK, Population((1, 1)), 10)
    settled = calibrate(pair, Budget(2.0, DELTA)).algorithm
    assert isinstance(settled, DPFedAvg)
    results["cohort"] = {
        "noise of a careless charge": old,
        "epsilon that was printed": 2.0,
        "epsilon that is printed now": pair.with_noise(old).guarantee(DELTA).epsilon,
        "audited": cohort(old),
        "noise for epsilon 2 now": settled.noise,
        "audited with it": cohort(settled.noise),
    }
    text = json.dumps(results, indent=2)
    Path("results/studies/attacks.json").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
