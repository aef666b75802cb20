"""What "epsilon 15.66 per round" looks like: the image of a client, from its messages.

As in DP-FedEXP's synthetic problem each client holds one record and fits a linear model to it, so
its update points along the record: here along an image. Each message has noise of 0.7 C on every
number. One message shows little. The mean of 50 has a seventh of the noise.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from experiments.demonstrations.reconstruction import shades, similarity
from experiments.demonstrations.records import Pool
from experiments.demonstrations.site import messages
from tacit.accounting import Budget
from tacit.algorithms import DPFedEXP
from tacit.planning import Plan, calibrate
from tacit.population import Population
from tacit.tasks.linear import LeastSquares

NAME = "printed-images"
RECORDS, SHOWN, ROUNDS, NOISE, DELTA = 100, 10, 50, 0.7, 1e-5
TARGET = 3.0  # of every record: far enough from 0 that the update has the largest length


def plans(pool: Pool) -> dict[str, Plan]:
    """The printed noise for one round and for all, and the noise that the number stands for."""
    task = LeastSquares(features=pool.pixels, factor=1.0)
    method = DPFedEXP(trust="local", noise=NOISE, clip=0.3, local_steps=20, local_lr=0.003)
    one, whole = (Plan.of(method, task, Population((1,) * 1000), n) for n in (1, ROUNDS))
    budget = Budget(one.guarantee(DELTA).epsilon, DELTA)
    return {
        "one message, printed noise": one,
        "50 messages, printed noise": whole,
        "50 messages, noise for 15.66 in all": calibrate(whole, budget),
    }


def run(pool: Pool, *, records: int = RECORDS) -> dict[str, Any]:
    """The mean of a client's messages, up to its sign, against its image."""
    rows = []
    for number, (name, plan) in enumerate(plans(pool).items()):
        model = plan.task.init(jax.random.key(0))
        found = np.empty((records, pool.pixels))
        for record in range(records):
            held = {"x": pool.x[record : record + 1], "y": np.array([TARGET], np.float32)}
            seed = 1000 * number + record
            told = messages(plan.algorithm, plan.task, held, model, rounds=plan.rounds, seed=seed)
            found[record] = np.mean([answer["['update']['w']"] for answer in told], axis=0)
        alike = similarity(pool.x[:records], found)
        rows.append(
            {
                "name": name,
                "sentence": plan.guarantee(DELTA, noise_from="seed").sentence(),
                "mean_correlation": float(alike.mean()),
                "images": shades(found[:SHOWN]),
            }
        )
    return {
        "rows": rows,
        "records": records,
        "originals": shades(pool.x[:SHOWN]),
        "side": pool.side,
    }


def table(found: dict[str, Any]) -> str:
    """One line for each row of the picture."""
    lines = ["| what the server has | mean correlation with the image |", "|---|---|"]
    lines += [f"| {r['name']} | {r['mean_correlation']:.2f} |" for r in found["rows"]]
    return (
        "\n".join(lines)
        + "\n\n"
        + "\n".join(f"- {r['name']}: {r['sentence']}" for r in found["rows"])
    )
