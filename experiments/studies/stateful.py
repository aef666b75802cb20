"""Dynamic allocation of noise over the rounds, and the interior optimum of DP-ScaffNew.

    python -m experiments.studies.stateful

All data is generated, and every budget is exact for the whole run. Speed: 8,000 rounds of dynamic
LDP at n = 20, m = 100, d = 22, after compilation. The methods are those of arXiv:2308.01139 and
arXiv:2304.05127.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import jax
import numpy as np

from tacit.accounting import Budget
from tacit.algorithm import Algorithm
from tacit.algorithms import DPScaffNew, DynamicLDP, FedAvg
from tacit.data.datasets.generators import ijcnn_like
from tacit.data.federation import Federation
from tacit.planning import Plan, calibrate
from tacit.population import Population
from tacit.simulation import Simulator
from tacit.tasks.base import Task
from tacit.tasks.linear import LeastSquares
from tacit.tasks.logistic import Logistic

SEEDS = 3


def relative_error(
    algorithm: Algorithm,
    task: Task,
    federation: Federation,
    rounds: int,
    budget: Budget | None,
    optimum: np.ndarray,
) -> dict[str, float]:
    population = Population(tuple(int(n) for n in federation.sizes))
    plan = Plan(algorithm, task, population, rounds)
    if budget is not None:
        plan = calibrate(plan, budget)
    simulator = Simulator(plan.algorithm, task, federation, dtype="float64")
    errors = []
    for seed in range(SEEDS):
        simulator.reseed(seed)
        state = simulator.advance(simulator.init(), 0, plan.rounds)
        w = np.asarray(simulator.params(state)["w"])
        errors.append(float(np.sum((w - optimum) ** 2) / np.sum(optimum**2)))
    spread = statistics.stdev(errors)
    return {"mean": statistics.fmean(errors), "std": spread, "communications": plan.rounds}


def allocation(lengths: list[int]) -> list[dict[str, object]]:
    federation, task = ijcnn_like(), Logistic(features=22, bias=False, l2=0.1)
    population = Population((100,) * 20)
    plan = Plan(FedAvg(local_steps=1, local_lr=2.0), task, population, 2000)
    simulator = Simulator(plan.algorithm, task, federation, dtype="float64")
    state = simulator.advance(simulator.init(), 0, 2000)
    optimum = np.asarray(simulator.params(state)["w"])
    budget, rows = Budget(1.0, 1e-4), []
    for rounds in lengths:
        row: dict[str, object] = {"rounds": rounds}
        for name, algorithm in {
            "dynamic": DynamicLDP(strong_convexity=0.1),
            "static": DynamicLDP(strong_convexity=0.1, allocation="static"),
        }.items():
            row[name] = relative_error(algorithm, task, federation, rounds, budget, optimum)
        print(row, flush=True)
        rows.append(row)
    return rows


def quadratics(clients: int, dimension: int, seed: int) -> tuple[Federation, np.ndarray]:
    """f_i(w) = sum_j lambda_j (w_j - o_ij)^2 / 2 with lambda from 0.04 to 1, so mu/L = 0.04."""
    rng = np.random.default_rng(seed)
    eigen = np.geomspace(0.04, 1.0, dimension)
    x = np.tile(np.diag(np.sqrt(dimension * eigen)), (clients, 1, 1))
    own = rng.standard_normal(dimension) + 0.3 * rng.standard_normal((clients, dimension))
    y = np.einsum("nij,nj->ni", x, own)
    federation = Federation(
        records={"x": x.reshape(-1, dimension), "y": y.ravel()},
        sizes=np.full(clients, dimension),
        names=tuple(str(i) for i in range(clients)),
    )
    return federation, own.mean(axis=0)


def interior(lengths: list[int]) -> list[dict[str, float]]:
    federation, optimum = quadratics(1000, 10, 0)
    task, rows = LeastSquares(features=10, bias=False), []
    for epsilon, clip in ((10.0, 0.1), (10.0, 0.3), (3.3, 0.1)):
        for iterations in lengths:
            algorithm = DPScaffNew(lr=1.0, probability=0.2, iterations=iterations, clip=clip)
            found = relative_error(algorithm, task, federation, 1, Budget(epsilon, 1e-5), optimum)
            rows.append({"epsilon": epsilon, "clip": clip, "iterations": iterations, **found})
            print(rows[-1], flush=True)
    return rows


def speed() -> dict[str, float]:
    federation, task = ijcnn_like(), Logistic(features=22, bias=False, l2=0.1)
    algorithm = DynamicLDP(strong_convexity=0.1)
    plan = calibrate(Plan(algorithm, task, Population((100,) * 20), 8000), Budget(1.0, 1e-4))
    best = float("inf")
    for block in (1, 10):
        simulator = Simulator(plan.algorithm, task, federation, block=block)
        simulator.advance(simulator.init(), 0, 10)
        for _ in range(3):
            state = simulator.init()
            begun = time.perf_counter()
            jax.block_until_ready(simulator.advance(state, 0, 8000).server.params)
            best = min(best, time.perf_counter() - begun)
    return {"rounds": 8000, "seconds": best, "microseconds_per_round": best / 8000 * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/studies/stateful.json"))
    given = parser.parse_args()
    results = {
        "command": "python -m experiments.studies.stateful",
        "seeds": SEEDS,
        "speed": speed(),
        "allocation": allocation([1000, 2000, 4000, 8000]),
        "scaffnew": interior([5, 10, 25, 50, 100, 200]),
    }
    print(results["speed"])
    given.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
