"""The effect of the papers' ideas within auto, at equal privacy.

    python -m experiments.studies.auto_combinations
    python -m experiments.studies.auto_combinations --table

Every variant is auto with one change, on the same clients and seeds, calibrated to the same budget.
If a variant has a parameter, the best of a few values is chosen by the test accuracy itself, so the
variant looks better here than it would be in practice.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from tacit import tree
from tacit.accounting import Budget
from tacit.algorithm import Message
from tacit.algorithms.auto import Auto
from tacit.algorithms.auto_base import State
from tacit.data import federate
from tacit.data.federation import Federation
from tacit.mechanisms import Gaussian
from tacit.planning.rounds import rounds_for
from tacit.population import Population
from tacit.release import Release
from tacit.run.loop import Settings
from tacit.run.parallel import over_cores
from tacit.run.run import Run
from tacit.sampling import PoissonCohort
from tacit.schedules.allocation import dynamic_levels
from tacit.tasks.registry import make as make_task

DELTA = 1e-5
SEEDS = (0, 1, 2)
TASKS = (("digits", 100), ("digits", 500), ("mushrooms", 400), ("a9a", 1000))
BUDGETS = (1.0, 4.0)


@dataclass(frozen=True, kw_only=True)
class Scheduled(Auto):
    """The allocation of dynamic LDP: more noise in early rounds, less later, at equal cost."""

    contraction: float = 0.97

    @property
    def release(self) -> Release:
        """The gradient, with a noise level for every round."""
        found = super().release
        if not self.noise:
            return found
        rounds = self.known.rounds
        levels = dynamic_levels(rounds, self.contraction, most=100.0)
        return replace(
            found, mechanism=Gaussian(tuple(self.noise * x / rounds**0.5 for x in levels))
        )


@dataclass(frozen=True, kw_only=True)
class Extrapolated(Auto):
    """FedEXP's step: mean squared norm (here 1) over the squared norm of the noisy mean.

    Auto's step is meant for a mean of norm 1/2; it grows if the gradients of the clients diverge.
    """

    most: float = 4.0

    def step(self, state: State, mean: Message) -> State:
        """A step that is larger if the norm of the mean is smaller."""
        size = sum(v.size for v in mean["gradient"].values())
        squared = tree.squared_norm(mean["gradient"]) - size * self.spread**2
        factor = jnp.clip(0.25 / jnp.maximum(squared, 1e-6), 1.0, self.most)
        return super().step(state, {"gradient": tree.scale(factor, mean["gradient"])})


VARIANTS: dict[str, tuple[Auto, ...]] = {
    "auto": (Auto(),),
    "dynamic allocation": tuple(Scheduled(contraction=c) for c in (0.9, 0.95, 0.98)),
    "FedEXP's step": tuple(Extrapolated(most=m) for m in (2.0, 8.0)),
    "one gradient": (Auto(local_steps=1),),
    "5 local steps": (Auto(local_steps=5),),
    "20 local steps": (Auto(local_steps=20),),
    "no floor": (Auto(floor=0.0),),
    "a floor of 0.05": (Auto(floor=0.05),),
    "a floor of 0.2": (Auto(floor=0.2),),
    "a radius (a floor of 0.5 or 1)": (Auto(floor=0.5), Auto(floor=1.0)),
    "Poisson cohorts of a third": (Auto(clients_per_round=PoissonCohort(1 / 3)),),
    "no momentum": (Auto(momentum=0.0),),
    "label prior": (Auto(prior=True),),
    "average of the last 20": (Auto(average_rounds=20),),
    "kappa 0.5": (Auto(kappa=0.5),),
    "kappa 1": (Auto(kappa=1.0),),
    "kappa 2": (Auto(kappa=2.0),),
    "no centre": (Auto(centre="public"),),
    "a hidden layer of 64": (Auto(), Auto(kappa=0.3), Auto(kappa=3.0)),
}


@lru_cache(maxsize=4)
def federation(task: str, clients: int, seed: int) -> Federation:
    """The clients of a seed; with more than two classes the labels are skewed."""
    skewed = task in ("digits", "mnist")
    split: dict[str, Any] = {"split": "dirichlet", "alpha": 0.3} if skewed else {"split": "iid"}
    return federate(task, **split, clients=clients, seed=seed)


@dataclass(frozen=True)
class Work:
    """One variant at one grid point, with all seeds."""

    task: str
    clients: int
    epsilon: float
    variant: str
    number: int


def run(work: Work) -> dict[str, Any]:
    """The accuracies of all seeds."""
    found = []
    for seed in SEEDS:
        data = federation(work.task, work.clients, seed)
        population = Population(tuple(int(n) for n in data.sizes))
        name = "logistic" if data.classes == 2 else "multinomial"
        options: dict[str, Any] = {}
        if work.variant == "a hidden layer of 64":
            name, options = "mlp", {"hidden": (64,)}
        shape = data.records["x"].shape[1:]
        task = make_task(name, shape=shape, classes=data.classes, **options)
        algorithm, budget = VARIANTS[work.variant][work.number], Budget(work.epsilon, DELTA)
        rounds = rounds_for(Auto(), task, population, budget)
        settings = Settings(seed=seed, eval_every=rounds, oracle=False)
        planned = Run.of(algorithm, task, data, rounds=rounds, budget=budget, settings=settings)
        result = planned.train()
        assert result.guarantee.epsilon <= work.epsilon * (1 + 1e-9)
        found.append(100 * result.metrics["test/accuracy"])
    key = [work.task, work.clients, work.epsilon, work.variant, work.number]
    return {"key": key, "accuracies": found}


def table(rows: list[dict[str, Any]]) -> str:
    """The best value of each variant by task and budget, and its mean gain over auto."""
    places = [(t, n, e) for t, n in TASKS for e in BUDGETS]
    best: dict[tuple[Any, ...], float] = {}
    for row in rows:
        *here, variant, _ = row["key"]
        mean = statistics.fmean(row["accuracies"])
        best[*here, variant] = max(mean, best.get((*here, variant), 0.0))
    header = ["variant", *(f"{t} {n}, {e:g}" for t, n, e in places), "gain"]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for variant in VARIANTS:
        values = [best.get((*place, variant)) for place in places]
        gains = [v - best[*p, "auto"] for p, v in zip(places, values, strict=True) if v is not None]
        shown = ["" if v is None else f"{v:.2f}" for v in values]
        gain = f"{statistics.fmean(gains):+.2f}" if gains else ""
        lines.append("| " + " | ".join([variant, *shown, gain]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/studies/auto-combinations.jsonl"))
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    rows = [json.loads(line) for line in lines]
    if not given.table:
        known = {json.dumps(row["key"]) for row in rows}
        due = [
            Work(task, clients, epsilon, variant, number)
            for task, clients in TASKS
            for epsilon in BUDGETS
            for variant, algorithms in VARIANTS.items()
            for number in range(len(algorithms))
            if json.dumps([task, clients, epsilon, variant, number]) not in known
        ]
        given.out.parent.mkdir(parents=True, exist_ok=True)
        for _, row in over_cores(run, due, given.jobs):
            rows.append(row)
            with given.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(*row["key"], [round(a, 2) for a in row["accuracies"]], flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
