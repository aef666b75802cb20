"""Does AdaptDP-FedAvg's paper clip records or batches? The printed losses give a hint.

    TACIT_DATA=... python -m experiments.studies.adaptdp_clipping

Two silos, federated averaging without noise, on the features of T2, T3 and T4. If the radius is far
below the norm of a record's gradient, every record has the same weight: the frequent class keeps
pushing even after it is learnt, and the final loss is above that of a model that knows only the
class frequencies. Clipping the mean of a batch does not have this effect, and does not protect a
single record.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from experiments.reproduce.catalogue import ENTRIES
from experiments.reproduce.papers.adaptdp_tests import BATCH
from experiments.reproduce.prepared import prepare
from tacit import random_numbers, tree
from tacit.bounds import Clip
from tacit.tasks.base import Params, Record, Task

What = Literal["nothing", "records", "batches"]
# test, rounds, step size, radii
CASES: tuple[tuple[str, int, float, tuple[float, ...]], ...] = (
    ("t2", 100, 0.03, (0.05, 0.1, 0.5)),
    ("t3", 100, 0.3, (0.05,)),
    ("t3", 1000, 0.3, (0.05,)),
    ("t4", 100, 0.3, (0.05,)),
    ("t4", 1000, 0.3, (0.05,)),
)


def direction(task: Task, what: What, radius: float, params: Params, batch: Record) -> Params:
    """The mean gradient of a batch, with its records or the mean itself clipped."""
    if what == "records":
        found = task.by_record(params, batch)
        assert found is not None
        return tree.scale(1 / BATCH, found.combined(jnp.minimum(found.norms, radius)))
    mean = jax.grad(lambda p: jnp.mean(task.losses(p, batch)))(params)
    return Clip(radius)(mean) if what == "batches" else mean


def trained(
    task: Task, silos: Record, what: What, radius: float, step: float, steps: int, rounds: int
) -> tuple[Params, float]:
    """The last model, and the lowest training loss of twenty measurements."""
    size = silos["y"].shape[1]
    everything = _together(silos)

    def local(params: Params, key: Array, own: Record) -> Params:
        def one(current: Params, draw: Array) -> tuple[Params, None]:
            rows = random_numbers.distinct(draw, size, BATCH, BATCH)
            batch = {name: value[rows] for name, value in own.items()}
            slope = direction(task, what, radius, current, batch)
            return tree.subtract(current, tree.scale(step, slope)), None

        return lax.scan(one, params, jax.random.split(key, steps))[0]

    @jax.jit
    def round_(params: Params, key: Array) -> Params:
        every = lax.map(lambda it: local(params, *it), (jax.random.split(key, 2), silos))
        return jax.tree.map(lambda value: jnp.mean(value, axis=0), every)

    loss = jax.jit(lambda params: jnp.mean(task.losses(params, everything)))
    params, lowest = task.init(jax.random.key(0)), float("inf")
    for number in range(rounds):
        params = round_(params, jax.random.key(number))
        if (number + 1) % (rounds // 20) == 0:
            lowest = min(lowest, float(loss(params)))
    return params, lowest


def case(test: str, rounds: int, step: float, radii: tuple[float, ...]) -> list[dict[str, Any]]:
    """All kinds of clipping, at every radius."""
    entry = ENTRIES[f"adaptdp/table2-{test}"]
    problem = prepare(entry.lines[0].config, entry.delta)
    found = problem.plan.task.unfrozen()
    assert found is not None
    assert problem.federation.test is not None
    task, lift = found
    records = lift(problem.federation.records)
    other = {name: jnp.asarray(v) for name, v in lift(problem.federation.test).items()}
    size = int(problem.federation.sizes.min())
    silos = {name: _halves(np.asarray(value), size) for name, value in records.items()}
    steps = int(entry.lines[0].config["algorithm"]["local_steps"])
    first = task.by_record(task.init(jax.random.key(0)), _together(silos))
    assert first is not None
    rows = []
    kinds: list[tuple[What, float]] = [("nothing", 0.0)]
    kinds += [(what, radius) for radius in radii for what in ("records", "batches")]
    for what, radius in kinds:
        run = partial(trained, task, silos, step=step, steps=steps, rounds=rounds)
        params, lowest = run(what=what, radius=radius)
        right = jnp.argmax(task.outputs(params, other), axis=1) == other["y"]
        row = {"test": test, "rounds": rounds, "step": step, "clipped": what, "radius": radius}
        row["median gradient at the start"] = float(jnp.median(first.norms))
        rows.append({**row, "loss": lowest, "accuracy": 100 * float(jnp.mean(right))})
        print(rows[-1], flush=True)
    return rows


def _halves(values: NDArray[Any], size: int) -> Array:
    return jnp.asarray(np.stack([values[:size], values[-size:]]))


def _together(silos: Record) -> Record:
    return {name: value.reshape(-1, *value.shape[2:]) for name, value in silos.items()}


def main() -> None:
    """All cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/studies/adaptdp-clipping.json"))
    given = parser.parse_args()
    rows = [row for one in CASES for row in case(*one)]
    content = {"command": "python -m experiments.studies.adaptdp_clipping", "results": rows}
    given.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
