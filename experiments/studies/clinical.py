"""FLamby's two clinical tables with the examples: without privacy, and with a budget.

    TACIT_DATA=... python -m experiments.studies.clinical

Every run trains on the clients' records only and is measured on FLamby's fixed test records, per
centre and for all together. "pooled" puts all training records into one client. The settings are
those of the examples for every budget. The settings of the private runs were chosen once on the
training records with other seeds, without a charge: they are oracle-tuned.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from tacit.algorithms import FedAvg
from tacit.cli.run import example_text
from tacit.data import Dataset, load
from tacit.data.federation import Federation, Records
from tacit.evaluation import Evaluator
from tacit.planning import Plan
from tacit.population import Population
from tacit.run import Run, RunConfig, Settings
from tacit.run.config import changed

SETS = {"heart-disease": "accuracy", "tcga-brca": "concordance"}
EPSILONS = (8.0, 2.0)


def plans(name: str, dataset: Dataset) -> dict[str, tuple[Plan, Federation, dict[str, Any]]]:
    """The plans to train: pooled, FedAvg, and each budget."""
    plain = Run.from_config(RunConfig.from_dict(tomllib.loads(example_text(name))))
    algorithm = plain.plan.algorithm
    assert isinstance(algorithm, FedAvg)
    everyone = Population((len(dataset.records["x"]),))
    together = Federation.from_clients(
        {"everyone": dataset.records}, test=dataset.test, classes=dataset.classes
    )
    pooled = Plan(algorithm, plain.plan.task, everyone, plain.plan.rounds)
    found = {
        "pooled": (pooled, together, {}),
        "fedavg": (plain.plan, plain.federation, plain.plan.guarantee(0.0).as_dict()),
    }
    private = tomllib.loads(example_text(f"{name}-private"))
    for epsilon in EPSILONS:
        wanted = RunConfig.from_dict(changed(private, [f"privacy.epsilon={epsilon}"]))
        made = Run.from_config(wanted)
        promise = made.plan.guarantee(made.settings.delta).as_dict()
        found[f"dp-fedavg-record, epsilon {epsilon:g}"] = (made.plan, made.federation, promise)
    return found


def measured(evaluate: Evaluator, params: Any, dataset: Dataset, metric: str) -> dict[str, float]:
    """The metric on the test records of each centre (if defined), the mean, and on all records."""
    assert dataset.test is not None and dataset.natural is not None
    owners = dataset.test_groups[dataset.natural]
    found: dict[str, float] = {}
    for centre in dict.fromkeys(owners.tolist()):
        part: Records = {k: v[owners == centre] for k, v in dataset.test.items()}
        score = evaluate(params, part).get(metric)
        if score is not None:
            found[centre] = score
    found["mean of centres"] = statistics.fmean(found.values())
    found["all test records"] = evaluate(params, dataset.test)[metric]
    return found


def benchmark(name: str, metric: str, seeds: int) -> dict[str, Any]:
    """All runs on one dataset."""
    dataset = load(name)
    rows: dict[str, Any] = {}
    for label, (plan, federation, promise) in plans(name, dataset).items():
        run = Run(plan, federation, Settings(eval_every=plan.rounds, oracle=False))
        evaluate = Evaluator(plan.algorithm, plan.task, "float32")
        scores = []
        for seed in range(seeds):
            params = run.with_seed(seed).train().params
            scores.append(measured(evaluate, params, dataset, metric))
        rows[label] = {
            "rounds": plan.rounds,
            "guarantee": promise,
            "scores": {
                place: {
                    "mean": statistics.fmean(s[place] for s in scores),
                    "std": statistics.stdev([s[place] for s in scores]),
                }
                for place in scores[0]
            },
        }
        shown = rows[label]["scores"]["mean of centres"]
        print(f"{name}, {label}: {shown['mean']:.3f} +- {shown['std']:.3f}", flush=True)
    return {"metric": metric, "test records": _counts(dataset), "runs": rows}


def _counts(dataset: Dataset) -> dict[str, int]:
    assert dataset.natural is not None
    owners, counts = np.unique(dataset.test_groups[dataset.natural], return_counts=True)
    return {str(o): int(c) for o, c in zip(owners, counts, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    found = {name: benchmark(name, metric, given.seeds) for name, metric in SETS.items()}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"seeds": given.seeds, **found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
