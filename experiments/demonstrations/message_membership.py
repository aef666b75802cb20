"""Was this record at the site? Asked of the site's messages by the server that receives them.

A site has 32 places. At each of them a record is there or not, by a fair coin; a blank image stands
where it is not, and contributes nothing (the model has no bias), so the relation is zero-out. The
server sends the same model in five rounds and adds up the answers: the sum S of the records'
gradients, with the noise of the method. Its test of a record with gradient g is the inner product
of S, as far as it is unexpected, with g. This is the likelihood ratio for normal noise:

    stranger   knows the record, and how gradients vary among public images
               (S - E S - g/2) V^-1 g with V the covariance of all other records plus noise
    insider    knows all other records of the site too: (S - their sum - g/2) g
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from experiments.demonstrations import rates
from experiments.demonstrations.records import Pool
from experiments.demonstrations.site import messages
from tacit.accounting import Budget, Guarantee
from tacit.algorithm import Algorithm
from tacit.algorithms import FedAvg, RecordDPFedAvg
from tacit.bounds import Clip, Unbounded
from tacit.planning import Plan, calibrate
from tacit.population import Population
from tacit.tasks.base import Params, Task
from tacit.tasks.registry import make as make_task

NAME = "message-membership"
SITES, PLACES, ROUNDS, RADIUS, DELTA = 2500, 32, 5, 1.0, 1e-5
PUBLIC = 700  # the other records are public: the attacker learns from them how gradients vary
ARMS: dict[str, float | None] = {"without privacy": None, "epsilon 8": 8.0, "epsilon 1": 1.0}
ATTACKERS = ("stranger", "insider")


def method(task: Task, epsilon: float | None) -> tuple[Algorithm, Guarantee]:
    """Plain averaging, or record-level noise that the site adds itself; five rounds in all."""
    algorithm: Algorithm = FedAvg(local_steps=1, local_lr=1.0)
    if epsilon is not None:
        algorithm = RecordDPFedAvg(
            local_steps=1, local_lr=1.0, clip=RADIUS, batches="full", relation="zero-out"
        )
    plan = Plan.of(algorithm, task, Population((PLACES,)), ROUNDS)
    if epsilon is not None:
        plan = calibrate(plan, Budget(epsilon, DELTA))
    return plan.algorithm, plan.guarantee(DELTA, noise_from="seed")


def gradients(task: Task, model: Params, pool: Pool, bound: float | None) -> rates.Floats:
    """The gradient of every record as the method counts it, one row each."""
    limit = Unbounded() if bound is None else Clip(bound)

    def one(x: jax.Array, y: jax.Array) -> Any:
        return limit(jax.grad(task.loss)(model, {"x": x, "y": y}))["w"].ravel()

    return np.asarray(jax.jit(jax.vmap(one))(pool.x, pool.y), np.float64)


def attacked(pool: Pool, name: str, *, sites: int = SITES) -> list[dict[str, Any]]:
    """Both attackers on the messages of many sites."""
    epsilon = ARMS[name]
    task = make_task("multinomial", shape=(pool.pixels,), classes=10, bias=False)
    algorithm, guarantee = method(task, epsilon)
    model = task.init(jax.random.key(0))
    known = gradients(task, model, pool, None if epsilon is None else RADIUS)
    # The deviation of the noise on the mean of all answers.
    noise = RADIUS * float(getattr(algorithm, "noise", 0.0)) / np.sqrt(ROUNDS)
    expected, inverse = _expected(known[PUBLIC:], noise)
    draws = np.random.default_rng(2)
    seeds = 100_000 * list(ARMS).index(name)  # no two arms share their noise
    there = draws.random((sites, PLACES)) < 0.5
    scores = {attacker: np.empty((sites, PLACES)) for attacker in ATTACKERS}
    for site in range(sites):
        asked = draws.permutation(PUBLIC)[:PLACES]
        present = np.where(there[site][:, None], pool.x[asked], 0).astype(np.float32)
        records: dict[str, NDArray[Any]] = {"x": present, "y": pool.y[asked]}
        told = messages(algorithm, task, records, model, rounds=ROUNDS, seed=seeds + site)
        mean = np.mean([answer["['update']['w']"].ravel() for answer in told], axis=0)
        summed = -PLACES * np.asarray(mean, np.float64)
        own = known[asked]
        scores["stranger"][site] = ((summed - expected - own / 2) @ inverse * own).sum(axis=1)
        alone = summed - (there[site] @ own - there[site][:, None] * own)
        length = np.linalg.norm(own, axis=1)
        scores["insider"][site] = ((alone - own / 2) * own).sum(axis=1) / length
    found = {attacker: rates.Scores(scores[attacker], there) for attacker in ATTACKERS}
    return [
        {
            "name": name,
            "attacker": attacker,
            "sentence": guarantee.sentence(),
            "sites": sites,
            "rates": rates.measured(found[attacker], guarantee),
            "curve": rates.curves(found[attacker], guarantee),
        }
        for attacker in ATTACKERS
    ]


def _expected(public: rates.Floats, noise: float) -> tuple[rates.Floats, NDArray[np.float64]]:
    """What a stranger expects of a sum: its mean, and the inverse of its covariance."""
    others = PLACES - 1
    # Each place contributes its gradient with probability 1/2.
    mean = public.mean(axis=0) / 2
    covariance = others * (public.T @ public / len(public) / 2 - np.outer(mean, mean))
    least = 1e-4 * float(np.trace(covariance)) / len(covariance)
    spread = covariance + (noise**2 + least) * np.eye(len(covariance))
    return others * mean, np.asarray(np.linalg.inv(spread), np.float64)


def run(pool: Pool) -> dict[str, Any]:
    """All arms."""
    return {"rows": [row for name in ARMS for row in attacked(pool, name)]}


def table(found: dict[str, Any]) -> str:
    """One line for each arm and attacker."""
    lines = [
        "| messages | the server knows | recognised, 0.1 % false alarms | 1 % | 5 % |",
        "|---|---|---|---|---|",
    ]
    knows = {"stranger": "the record", "insider": "the record and all others"}
    for row in found["rows"]:
        shown = " | ".join(rates.cells(row["rates"]))
        lines.append(f"| {row['name']} | {knows[row['attacker']]} | {shown} |")
    first = {row["name"]: row["sentence"] for row in found["rows"]}
    return (
        "\n".join(lines) + "\n\n" + "\n".join(f"- {name}: {told}" for name, told in first.items())
    )
