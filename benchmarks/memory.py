"""Peak memory of a round over 10,000 clients of a model with 100,000 parameters (limit: 4 GB).

python -m benchmarks.memory --out results/bench/memory.json
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import jax
import numpy as np

from tacit.algorithms import DPFedAvg
from tacit.data.federation import Federation
from tacit.simulation import Simulator
from tacit.tasks.logistic import Multinomial

CLIENTS, FEATURES, CLASSES, LIMIT = 10_000, 1_000, 100, 4.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/bench/memory.json"))
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    federation = Federation(
        records={
            "x": rng.standard_normal((2 * CLIENTS, FEATURES), dtype=np.float32),
            "y": rng.integers(0, CLASSES, 2 * CLIENTS),
        },
        sizes=np.full(CLIENTS, 2),
        names=tuple(str(i) for i in range(CLIENTS)),
        classes=CLASSES,
    )
    task = Multinomial(features=FEATURES, classes=CLASSES, bias=False)
    simulator = Simulator(DPFedAvg(noise=1.0), task, federation)
    state = simulator.advance(simulator.init(), 0, 1)
    jax.block_until_ready(state.server.params)
    begun = time.perf_counter()
    jax.block_until_ready(simulator.advance(state, 1, 1).server.params)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    result = {
        "command": "python -m benchmarks.memory",
        "clients": CLIENTS,
        "parameters": FEATURES * CLASSES,
        "peak_gib": peak,
        "limit_gib": LIMIT,
        "seconds_per_round": time.perf_counter() - begun,
    }
    print(f"peak {peak:.2f} GiB (limit {LIMIT}), {result['seconds_per_round']:.2f} s per round")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
