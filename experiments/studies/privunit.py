"""The time of PrivUnit messages against Gaussian ones, and their error.

    python -m experiments.studies.privunit

1,000 messages of dimension 5,046 (the larger network of DP-FedEXP, arXiv:2504.09850), drawn as in
the simulator: compiled, one key each. The goal is at most three times the time of the Gaussian.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import jax
import jax.numpy as jnp
from jax import Array

from tacit.mechanisms import Gaussian, Mechanism, PrivUnit
from tacit.mechanisms.privunit import cap_of

MESSAGES, DIMENSION, REPEATS = 1000, 5046, 15


def sampler(mechanism: Mechanism) -> Callable[[Array, Array], Array]:
    def one(key: Array, value: Array) -> Array:
        return mechanism.vector(mechanism.noised(key, value, 1.0, 0))

    return jax.jit(jax.vmap(one))


def seconds(draw: Callable[[Array, Array], Array], keys: Array, values: Array) -> float:
    begun = perf_counter()
    jax.block_until_ready(draw(keys, values))
    return perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/studies/privunit.json"))
    given = parser.parse_args()
    keys = jax.random.split(jax.random.key(0), MESSAGES)
    values = jax.random.normal(jax.random.key(1), (MESSAGES, DIMENSION))
    values = values / jnp.linalg.norm(values, axis=1, keepdims=True)
    draws = {"gaussian": sampler(Gaussian(0.7)), "privunit": sampler(PrivUnit())}
    for draw in draws.values():
        seconds(draw, keys, values)
    # Alternate in every repeat, so that other load affects both equally.
    times = [
        {name: seconds(draw, keys, values) for name, draw in draws.items()} for _ in range(REPEATS)
    ]
    medians = {name: statistics.median(t[name] for t in times) for name in draws}
    ratio = statistics.median(t["privunit"] / t["gaussian"] for t in times)
    caps = {rule: cap_of(DIMENSION, 2.0, 2.0, rule)._asdict() for rule in ("exact", "A")}
    content = {
        "command": "python -m experiments.studies.privunit",
        "messages": MESSAGES,
        "dimension": DIMENSION,
        "median_seconds": medians,
        "median_ratio": ratio,
        "caps_at_eps_2": caps,
    }
    print(f"{medians}, ratio {ratio:.2f}", flush=True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
