"""Auto on least squares: explained variance at a budget, against the best non-private fit.

    TACIT_DATA=... python -m experiments.studies.auto_regression
    python -m experiments.studies.auto_regression --table

Targets are within public limits, scaled to [-1, 1]: the progression of diabetes, a generated linear
model, and the two labels of phishing as -1 and 1. The columns with other values of kappa show the
effect of the rule's 0.3; auto itself does not need them.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.accounting import Budget
from tacit.algorithms import Auto
from tacit.data import federate
from tacit.data.federation import Federation
from tacit.run.loop import Settings
from tacit.run.run import Run
from tacit.tasks.linear import LeastSquares

DELTA = 1e-5
AT_THE_END = 10**6  # rounds between two measurements
SEEDS = (0, 1, 2)
PLACES = (
    ("diabetes", 100),
    ("diabetes", 300),
    ("generated", 200),
    ("generated", 1000),
    ("phishing", 1000),
)
BUDGETS = (1.0, 8.0)
KAPPAS = (None, 0.1, 1.0)
FEATURES, RECORDS = 30, 10_000


def generated(clients: int, seed: int) -> Federation:
    """A linear model with noise; columns of decreasing size and weight."""
    rng = np.random.default_rng(seed)
    sizes, slope = np.linspace(1, 0.2, FEATURES), np.linspace(1, 0.1, FEATURES)
    slope = slope * rng.standard_normal(FEATURES)
    limit = 3 * np.linalg.norm(slope * sizes)

    def draw(count: int) -> dict[str, Any]:
        x = sizes * rng.standard_normal((count, FEATURES))
        y = (x @ slope + 0.5 * rng.standard_normal(count)) / limit
        return {"x": x.astype(np.float32), "y": np.clip(y, -1, 1).astype(np.float32)}

    return Federation(
        records=draw(RECORDS),
        sizes=np.full(clients, RECORDS // clients),
        names=tuple(str(number) for number in range(clients)),
        test=draw(2_000),
        classes=0,
    )


def federation(name: str, clients: int, seed: int) -> Federation:
    """A task with targets scaled to [-1, 1] (diabetes has [0, 1], labels are 0 and 1)."""
    if name == "generated":
        return generated(clients, seed)
    data = federate(name, split="iid", clients=clients, seed=seed)
    assert data.test is not None

    def stretched(records: Mapping[str, Any]) -> dict[str, Any]:
        return {**records, "y": (2.0 * records["y"] - 1).astype(np.float32)}

    return replace(data, records=stretched(data.records), test=stretched(data.test), classes=0)


def best_fit(data: Federation) -> float:
    """The explained variance of ordinary least squares on all records, without privacy."""
    assert data.test is not None
    x, test = (np.c_[part["x"], np.ones(len(part["x"]))] for part in (data.records, data.test))
    seen, y = (np.asarray(part["y"], np.float64) for part in (data.records, data.test))
    weights = np.linalg.lstsq(x, seen, rcond=None)[0]
    return float(1 - np.mean((test @ weights - y) ** 2) / np.var(y))


def run(data: Federation, epsilon: float, kappa: float | None, seed: int) -> float:
    """R squared of one run on the test set."""
    task = LeastSquares(features=data.records["x"].shape[1], bias=True)
    algorithm, budget = Auto(kappa=kappa), Budget(epsilon, DELTA)
    settings = Settings(seed=seed, eval_every=AT_THE_END, oracle=False)
    result = Run.of(algorithm, task, data, budget=budget, settings=settings).train()
    assert result.guarantee.epsilon <= epsilon * (1 + 1e-9)
    return float(result.metrics["test/r2"])


def table(rows: list[dict[str, Any]]) -> str:
    """Auto, other values of kappa, and the fit without privacy."""
    names = ["auto" if k is None else f"kappa {k:g}" for k in KAPPAS]
    lines = [f"| task | clients | epsilon | {' | '.join(names)} | without privacy |"]
    lines.append("|---" * (4 + len(names)) + "|")
    for row in rows:
        cells = [
            f"{statistics.fmean(row[name]):.3f} ± {statistics.stdev(row[name]):.3f}"
            for name in (*names, "best fit")
        ]
        here = f"{row['task']} | {row['clients']} | {row['epsilon']:g}"
        lines.append(f"| {here} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run all, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/studies/auto-regression.json"))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print(table(json.loads(given.out.read_text())["rows"]))
        return
    rows = []
    for name, clients in PLACES:
        drawn = [federation(name, clients, seed) for seed in SEEDS]
        fits = [best_fit(data) for data in drawn]
        for epsilon in BUDGETS:
            found = {
                "auto" if kappa is None else f"kappa {kappa:g}": [
                    run(data, epsilon, kappa, seed) for data, seed in zip(drawn, SEEDS, strict=True)
                ]
                for kappa in KAPPAS
            }
            place = {"task": name, "clients": clients, "epsilon": epsilon}
            rows.append({**place, **found, "best fit": fits})
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    command = "python -m experiments.studies.auto_regression"
    given.out.write_text(json.dumps({"command": command, "delta": DELTA, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
