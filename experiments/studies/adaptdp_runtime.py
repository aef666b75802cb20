"""Time and memory of a round of AdaptDP-FedAvg, against DP-FedAvg plus the measure phase.

    python -m experiments.studies.adaptdp_runtime

Two silos of 1,500 records, b = 100, K = 15, a linear model of 512 features and 10 classes (the head
of T3), and the quadratic of T1. The measure phase is also compiled as a separate program; the goal
is that AdaptDP takes at most 5 % more than the sum of both. Memory is what XLA reserves for a
program in addition to its arguments and results.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithm import Algorithm, Message, Phase, Problem
from tacit.algorithms.adaptdp_fedavg import AdaptDPFedAvg, State
from tacit.algorithms.dp_fedavg_record import RecordDPFedAvg
from tacit.data.datasets.generators import quadratic
from tacit.data.federation import Federation
from tacit.population import Population
from tacit.simulation import RunState, Simulator
from tacit.tasks.base import Task
from tacit.tasks.linear import Quadratic
from tacit.tasks.logistic import Multinomial

ROUNDS, STEPS, REPEATS = 20, 15, 15


@dataclass(frozen=True, kw_only=True)
class MeasureOnly(AdaptDPFedAvg):
    """The first phase of a round and nothing else."""

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """Measure the radius."""
        measure = super().phases(task, population)[0]

        def server(state: State, mean: Message) -> State:
            # The model must change, otherwise the compiler measures only once for all rounds.
            state = measure.server(state, mean)
            moved = jax.tree.map(lambda v: v + 1e-3 * state.radius, state.params)
            return state._replace(params=moved)

        return (replace(measure, server=server),)


def images() -> Federation:
    rng = np.random.default_rng(0)
    return Federation(
        records={
            "x": rng.standard_normal((3000, 512)).astype(np.float32) / 512**0.5,
            "y": rng.integers(0, 10, 3000),
        },
        sizes=np.array([1500, 1500]),
        names=("one", "two"),
        classes=10,
        title="features",
    )


PROBLEMS: dict[str, tuple[Task, Callable[[], Federation]]] = {
    "512 features, 10 classes": (Multinomial(features=512, classes=10, bias=False), images),
    "T1, d = 20": (Quadratic(features=20), lambda: quadratic().federation),
}
METHODS: dict[str, Algorithm] = {
    "adaptdp-fedavg": AdaptDPFedAvg(local_steps=STEPS, noise=5.0, radius_noise=20.0),
    "dp-fedavg-record": RecordDPFedAvg(local_steps=STEPS, noise=5.0),
    "measure": MeasureOnly(local_steps=STEPS, noise=5.0, radius_noise=20.0),
}


def seconds(simulator: Simulator, state: RunState) -> tuple[float, RunState]:
    begun = perf_counter()
    state = simulator.advance(state, 0, ROUNDS)
    jax.block_until_ready(state.server)
    return (perf_counter() - begun) / ROUNDS, state


def reserved(simulator: Simulator) -> int:
    state, number = simulator.init(), jnp.zeros((), jnp.int32)
    args = (state.server, state.clients, simulator.data, simulator._stream, number, number)
    run: Any = simulator._advance._shared(args)
    program = run.func.lower(*run.args, *args).compile()
    return int(program.memory_analysis().temp_size_in_bytes)


def compare(task: Task, federation: Federation) -> dict[str, object]:
    problem = Problem(task, Population(tuple(int(n) for n in federation.sizes)), ROUNDS)
    simulators = {n: Simulator(m.planned(problem), task, federation) for n, m in METHODS.items()}
    states = {n: seconds(s, s.init())[1] for n, s in simulators.items()}
    times: list[dict[str, float]] = []
    for _ in range(REPEATS):  # alternate, so that other load affects all programs equally
        row = {}
        for name, simulator in simulators.items():
            row[name], states[name] = seconds(simulator, states[name])
        times.append(row)
    ratios = [t["adaptdp-fedavg"] / (t["dp-fedavg-record"] + t["measure"]) for t in times]
    memory = {name: reserved(simulator) for name, simulator in simulators.items()}
    return {
        "milliseconds_per_round": {
            name: 1e3 * statistics.median(t[name] for t in times) for name in METHODS
        },
        "time_ratio_median": statistics.median(ratios),
        "time_ratio_quartiles": statistics.quantiles(ratios, n=4)[::2],
        "bytes_reserved": memory,
        "memory_ratio": memory["adaptdp-fedavg"] / (memory["dp-fedavg-record"] + memory["measure"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/studies/adaptdp-runtime.json"))
    given = parser.parse_args()
    results = {name: compare(task, make()) for name, (task, make) in PROBLEMS.items()}
    for name, row in results.items():
        print(f"{name}: time {row['time_ratio_median']:.3f}, memory {row['memory_ratio']:.3f}")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    content = {"command": "python -m experiments.studies.adaptdp_runtime", "results": results}
    given.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
