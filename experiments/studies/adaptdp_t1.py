"""AdaptDP-FedAvg against record-level DP-FedAvg on T1 at equal, exact privacy.

    python -m experiments.studies.adaptdp_t1

Artificial quadratic, d = 20, two silos of 1,500 records, b = 100, R = 150, K = 20, delta = 1e-4.
Step size and radius (C, or the cap of AdaptDP) are chosen on one seed (oracle-tuned) and evaluated
on the others.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tacit.accounting import Budget
from tacit.algorithm import Algorithm
from tacit.algorithms import AdaptDPFedAvg, RecordDPFedAvg
from tacit.data.datasets.generators import quadratic
from tacit.planning import Plan, calibrate
from tacit.population import Population
from tacit.simulation import Simulator
from tacit.tasks.linear import Quadratic

ROUNDS, STEPS, DELTA = 150, 20, 1e-4
GRIDS = {
    "specification 1.5": ([0.03, 0.1, 0.3], [0.02, 0.05, 0.1, 0.2, 0.5, 1.0]),
    "wide": ([0.3, 1.0, 3.0, 6.0], [0.002, 0.005, 0.01, 0.02, 0.05]),
}
METHODS: dict[str, Callable[[float, float], Algorithm]] = {
    "dp-fedavg-record": lambda eta, radius: RecordDPFedAvg(
        local_steps=STEPS, local_lr=eta, clip=radius
    ),
    "adaptdp-fedavg": lambda eta, radius: AdaptDPFedAvg(
        local_steps=STEPS, local_lr=eta, max_radius=radius
    ),
}


def compare(
    epsilon: float, etas: Iterable[float], radii: list[float], seeds: int
) -> dict[str, Any]:
    federation = quadratic(clients=2, records=1500, dimension=20, seed=0).federation
    task, population = Quadratic(features=20), Population((1500, 1500))
    rows: dict[str, Any] = {}
    for name, make in METHODS.items():
        # The noise does not depend on eta or on the radius: it is in units of the radius.
        plan = calibrate(Plan(make(0.1, 1.0), task, population, ROUNDS), Budget(epsilon, DELTA))
        noises = {
            phase: getattr(plan.algorithm, field)
            for phase, field in (("train", "noise"), ("measure", "radius_noise"))
            if hasattr(plan.algorithm, field)
        }
        best: tuple[float, Simulator, float, float] | None = None
        for eta in etas:
            for radius in radii:
                chosen = Plan(make(eta, radius), task, population, ROUNDS)
                for phase, noise in noises.items():
                    chosen = chosen.with_noise(noise, phase)
                simulator = Simulator(chosen.algorithm, task, federation, dtype="float64")
                loss = final_loss(simulator, 0)
                if best is None or loss < best[0]:
                    best = (loss, simulator, eta, radius)
        assert best is not None
        losses = [final_loss(best[1], seed) for seed in range(1, seeds + 1)]
        rows[name] = {
            "eta": best[2],
            "radius": best[3],
            "noise_on_sum": noises,
            "losses": losses,
            "mean": statistics.fmean(losses),
            "std": statistics.stdev(losses),
            "guarantee": plan.guarantee(DELTA).as_dict(),
        }
        print(f"  {name}: {rows[name]['mean']:.3g} (eta {best[2]}, radius {best[3]})", flush=True)
    return rows


def final_loss(simulator: Simulator, seed: int) -> float:
    simulator.reseed(seed)
    state = simulator.advance(simulator.init(), 0, ROUNDS)
    loss = simulator.evaluate(simulator.params(state), simulator.federation.records)["loss"]
    return loss if loss == loss else float("inf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/studies/adaptdp-t1.json"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--grid", choices=[*GRIDS, "all"], default="all")
    given = parser.parse_args()
    results = []
    for name, (etas, radii) in GRIDS.items():
        if given.grid not in (name, "all"):
            continue
        for epsilon in (8.0, 2.0):
            print(f"{name} grid, epsilon {epsilon:g}", flush=True)
            rows = compare(epsilon, etas, radii, given.seeds)
            ratio = rows["dp-fedavg-record"]["mean"] / rows["adaptdp-fedavg"]["mean"]
            print(f"  ratio {ratio:.2f}", flush=True)
            results.append(
                {
                    "grid": name,
                    "etas": etas,
                    "radii": radii,
                    "epsilon": epsilon,
                    "delta": DELTA,
                    "ratio": ratio,
                    **rows,
                }
            )
            given.out.parent.mkdir(parents=True, exist_ok=True)
            command = "python -m experiments.studies.adaptdp_t1"
            given.out.write_text(json.dumps({"command": command, "results": results}, indent=1))


if __name__ == "__main__":
    main()
