"""What trust is worth for record-level privacy: auto with local, shared and central noise.

    TACIT_DATA=... python -m experiments.studies.auto_record

The rule, budgets and seeds are the same. Every silo adds noise to its own sum, or its share of the
noise to a secure sum (two thirds of the silos honest), or a server adds noise to the sum of all.
Every run has a ledger that must verify. mushrooms needs TACIT_DATA; the other tasks do not.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from experiments.studies.auto_grid import DELTA, Place, run
from tacit.algorithms import Auto

SILOS = {"digits": 50, "breast-cancer": 20, "mushrooms": 150}
BUDGETS, SEEDS = (0.5, 2.0, 8.0), (0, 1, 2)
METHODS = {
    "each silo noises its sum": Auto(protects="record"),
    "shares in a secure sum": Auto(protects="record", noise_at="shares"),
    "a trusted server noises the sum of all": Auto(protects="record", noise_at="aggregate"),
}


def measured(task: str, epsilon: float, method: str) -> dict[str, Any]:
    """The mean accuracy over seeds, and whether every ledger verified."""
    place = Place(task, SILOS[task], epsilon, "record", 1)
    found = [run(METHODS[method], place, seed, {}) for seed in SEEDS]
    values = [row["accuracy"] for row in found]
    return {
        "task": task,
        "silos": SILOS[task],
        "epsilon": epsilon,
        "delta": DELTA,
        "method": method,
        "accuracy": statistics.fmean(values),
        "std": statistics.stdev(values),
        "verified": all(row["verified"] for row in found),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """One line per task and budget."""
    lines = [f"| task | silos | epsilon | {' | '.join(METHODS)} |", "|---|---|---|---|---|---|"]
    for task, silos in SILOS.items():
        for epsilon in BUDGETS:
            here = {r["method"]: r for r in rows if (r["task"], r["epsilon"]) == (task, epsilon)}
            if len(here) == len(METHODS):
                shown = [f"{here[m]['accuracy']:.1f} ± {here[m]['std']:.1f}" for m in METHODS]
                lines.append(f"| {task} | {silos} | {epsilon:g} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    """Run all, write the file, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/studies/auto-record.json"))
    given = parser.parse_args()
    rows = []
    for task in SILOS:
        for epsilon in BUDGETS:
            for method in METHODS:
                rows.append(measured(task, epsilon, method))
                print(f"{task} {epsilon:g} {method}: {rows[-1]['accuracy']:.2f}", flush=True)
    command = f"python -m experiments.studies.auto_record --out {given.out}"
    given.out.write_text(json.dumps({"command": command, "seeds": SEEDS, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
