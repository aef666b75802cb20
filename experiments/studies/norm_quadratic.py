"""Normalised against clipped updates on the quadratic of DP-NormFedAvg (arXiv:2106.07094).

    python -m experiments.studies.norm_quadratic

100 clients, d = 200, E = 20 local steps, K = 500 rounds, (5, 1e-6) under zero-out with full
participation. Both options use the same problem and the same noise vectors. The result is the mean
suboptimality over the last 50 rounds and over the problems; I1 starts at ``w* + z`` and I2 at
``w* + z/5`` with z uniform on (0, 1).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.studies.repeated import share_programs, summary
from tacit.accounting import Budget
from tacit.algorithms.norm_fedavg import DPNormFedAvg
from tacit.data.datasets.generators import Problem, client_quadratics
from tacit.planning import Plan, calibrate
from tacit.population import Population
from tacit.simulation import Simulator
from tacit.tasks.linear import Quadratic

CLIENTS, DIMENSION, ROUNDS, LAST, EVERY = 100, 200, 500, 50, 5
BUDGET = Budget(5.0, 1e-6)
STARTS = {"I1": 1.0, "I2": 0.2}
ETAS, SCALES = (0.001, 0.003), (20.0, 40.0, 50.0, 100.0)


def suboptimality(
    problem: Problem, curvature: NDArray[np.float64], w: NDArray[np.float64]
) -> float:
    gap = w - problem.optimum
    return float(gap @ curvature @ gap / 2)


def last_rounds(method: DPNormFedAvg, start: float, seed: int) -> tuple[float, float]:
    """Suboptimality at the start, and its mean over the last rounds."""
    problem = client_quadratics(clients=CLIENTS, dimension=DIMENSION, start=start, seed=seed)
    a = np.asarray(problem.federation.records["a"], np.float64)
    curvature = np.einsum("ndr,ner->de", a, a) / CLIENTS
    simulator = Simulator(
        method, Quadratic(features=DIMENSION), problem.federation, seed=seed, block=10
    )
    state = simulator.advance(simulator.init(), 0, ROUNDS - LAST)
    found = []
    for round_ in range(ROUNDS - LAST, ROUNDS, EVERY):
        state = simulator.advance(state, round_, EVERY)
        w = np.asarray(simulator.params(state)["w"], np.float64)
        found.append(suboptimality(problem, curvature, w))
    return suboptimality(problem, curvature, np.zeros(DIMENSION)), float(np.mean(found))


def write(out: Path, plan: Plan, rows: list[dict[str, Any]], seeds: int) -> None:
    content = {
        "command": "python -m experiments.studies.norm_quadratic",
        "seeds": seeds,
        "noise": getattr(plan.algorithm, "noise", 0.0),
        "guarantee": plan.guarantee(BUDGET.delta).as_dict(),
        "results": rows,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/studies/norm-quadratic.json"))
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    share_programs()
    task, population = Quadratic(features=DIMENSION), Population((1,) * CLIENTS)
    plan = calibrate(Plan(DPNormFedAvg(server_ratio=1.0), task, population, ROUNDS), BUDGET)
    planned = plan.algorithm
    assert isinstance(planned, DPNormFedAvg)
    rows: list[dict[str, Any]] = []
    for eta in ETAS:
        for scale in SCALES:
            for name, start in STARTS.items():
                row: dict[str, Any] = {"start": name, "eta": eta, "C": scale}
                for bound in ("clip", "normalize"):
                    method = replace(planned, local_lr=eta, scale=scale, bound=bound)
                    pairs = [last_rounds(method, start, seed) for seed in range(given.seeds)]
                    row["start_gap"] = float(np.mean([first for first, _ in pairs]))
                    row[bound] = summary([last for _, last in pairs])
                clip, norm = (np.array(row[b]["seeds"]) for b in ("clip", "normalize"))
                row["norm_minus_clip"] = summary((norm - clip).tolist())
                rows.append(row)
                print(
                    f"{name} eta {eta} C {scale:g}: {clip.mean():.3f} / {norm.mean():.3f}",
                    flush=True,
                )
                write(given.out, plan, rows, given.seeds)


if __name__ == "__main__":
    main()
