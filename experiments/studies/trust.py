"""What trust is worth between hospitals: each alone, a secure sum, a trusted server.

    TACIT_DATA=... python -m experiments.studies.trust

Auto protects every patient, without any setting to choose, in the federations of Heart Disease and
TCGA-BRCA. Only the place of the noise differs: each hospital noises its own sum, all bring their
shares to a secure sum (two thirds of them honest, none missing), or a trusted server noises the sum
of all. The score is on FLamby's test patients of all centres together.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from tacit.run import Run, RunConfig

DELTA = 1e-3
SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "heart-disease": ("accuracy", {"name": "logistic"}),
    "tcga-brca": ("concordance", {"name": "cox-piecewise", "cuts": [1.0, 2.0, 3.0, 5.0, 8.0]}),
}
PLACES = {"silo": "each hospital alone", "shares": "secure sum", "aggregate": "trusted server"}
BUDGETS = (1.0, 2.0, 8.0)


def measured(name: str, epsilon: float, place: str, seeds: int) -> dict[str, Any]:
    """The score of each seed, and the whole sentence."""
    metric, task = SETS[name]
    config = RunConfig.from_dict(
        {
            "data": {"name": name},
            "task": task,
            "algorithm": {"name": "auto", "protects": "record", "noise_at": place},
            "privacy": {"epsilon": epsilon, "delta": DELTA},
            "train": {"oracle": False},
        }
    )
    run = Run.from_config(config)
    scores = [run.with_seed(seed).train().metrics[f"test/{metric}"] for seed in range(seeds)]
    return {
        "data": name,
        "metric": metric,
        "epsilon": epsilon,
        "place": place,
        "clients": run.plan.population.clients,
        "rounds": run.plan.rounds,
        "noise": run.plan.algorithm.noise,  # type: ignore[attr-defined]
        "scores": scores,
        "sentence": run.plan.guarantee(DELTA).sentence(),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """One line per federation and budget."""
    lines = [f"| federation | epsilon | {' | '.join(PLACES.values())} |", "|---|---|---|---|---|"]
    for name, (metric, _) in SETS.items():
        for epsilon in BUDGETS:
            here = {r["place"]: r for r in rows if (r["data"], r["epsilon"]) == (name, epsilon)}
            if len(here) == len(PLACES):
                means = [statistics.fmean(here[p]["scores"]) for p in PLACES]
                spreads = [statistics.stdev(here[p]["scores"]) for p in PLACES]
                shown = [f"{m:.3f} ± {s:.3f}" for m, s in zip(means, spreads, strict=True)]
                title = f"{name}, {here['silo']['clients']} hospitals, {metric}"
                lines.append(f"| {title} | {epsilon:g} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    """Run all, write the file, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/studies/auto-trust.json"))
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    rows = [
        measured(name, epsilon, place, given.seeds)
        for name in SETS
        for epsilon in BUDGETS
        for place in PLACES
    ]
    command = f"python -m experiments.studies.trust --out {given.out} --seeds {given.seeds}"
    given.out.write_text(json.dumps({"command": command, "rows": rows}, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
