"""Was this record used for training? Asked of the released model alone (LiRA).

Two sites train on a random half of the records, many times, with the same method. For each record
the attacker knows how sure models are of its label if the record was used, and if it was not: two
normal laws, from all models but the one under attack (the likelihood ratio attack of Carlini and
others, 2022). The score is the logarithm of their ratio. Without privacy the model is overfitted on
purpose. The place of a record that was not used is taken by another one, so the relation is
replace-one.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import norm

from experiments.demonstrations import rates
from experiments.demonstrations.records import Pool
from tacit.accounting import Budget
from tacit.algorithm import Algorithm
from tacit.algorithms import Auto, FedAvg
from tacit.data.federation import Federation
from tacit.run import Run
from tacit.run.loop import Settings
from tacit.tasks.registry import make as make_task

NAME = "model-membership"
MODELS, RECORDS, DELTA = 128, 500, 1e-5
AUTO = Auto(protects="record", noise_at="aggregate", relation="replace-one")
ARMS: dict[str, tuple[Algorithm, int | None, float | None]] = {
    "without privacy": (FedAvg(local_steps=20, local_lr=0.5), 100, None),
    "epsilon 8": (AUTO, None, 8.0),
    "epsilon 1": (AUTO, None, 1.0),
}


def federation(pool: Pool, chosen: NDArray[np.int64]) -> Federation:
    """Two sites with a half of the chosen records each."""
    half = len(chosen) // 2
    return Federation(
        records={"x": pool.x[chosen], "y": pool.y[chosen]},
        sizes=np.array([half, len(chosen) - half]),
        names=("first", "second"),
        test=pool.test,
        classes=10,
        title="members",
    )


def confidence(outputs: NDArray[Any], labels: NDArray[np.int64]) -> rates.Floats:
    """The log-odds of the true label of each record."""
    rows = np.arange(len(labels))
    others = np.array(outputs, np.float64)
    own = others[rows, labels]
    others[rows, labels] = -np.inf
    found: rates.Floats = own - logsumexp(others, axis=1)
    return found


def ratios(sure: rates.Floats, used: NDArray[np.bool_]) -> rates.Floats:
    """The log-likelihood ratio of every model and record, from all other models."""
    found = np.empty_like(sure)
    for model in range(len(sure)):
        rest = np.arange(len(sure)) != model

        def density(
            side: NDArray[np.bool_], here: int = model, others: NDArray[np.bool_] = rest
        ) -> rates.Floats:
            kept = np.where(side & others[:, None], sure, np.nan)
            spread = np.maximum(np.nanstd(kept, axis=0), 1e-6)
            law: rates.Floats = norm.logpdf(sure[here], np.nanmean(kept, axis=0), spread)
            return law

        found[model] = density(used) - density(~used)
    return found


def attacked(
    pool: Pool, name: str, *, models: int = MODELS, records: int = RECORDS
) -> dict[str, Any]:
    """Train the models of one arm, attack each of them, and compare with the bound."""
    algorithm, rounds, epsilon = ARMS[name]
    task = make_task("multinomial", shape=(pool.pixels,), classes=10)
    settings = Settings(seed=0, oracle=False, delta=DELTA, eval_every=10_000, dtype="float32")
    draws = np.random.default_rng(1)
    used = np.zeros((models, records), bool)
    sure, accuracies = np.empty((models, records)), []
    run: Run | None = None
    for model in range(models):
        chosen = np.sort(draws.permutation(records)[: records // 2])
        used[model, chosen] = True
        data = federation(pool, draws.permutation(chosen))
        if run is None:
            budget = None if epsilon is None else Budget(epsilon, DELTA)
            run = Run.of(algorithm, task, data, rounds=rounds, budget=budget, settings=settings)
        run = run.with_records(data).with_seed(model)
        result = run.train()
        asked = run.plan.algorithm.prepared({"x": pool.x[:records], "y": pool.y[:records]})
        outputs = task.outputs(result.params, {k: jnp.asarray(v) for k, v in asked.items()})
        sure[model] = confidence(np.asarray(outputs), pool.y[:records])
        accuracies.append(result.metrics["test/accuracy"])
    guarantee = result.guarantee
    scores = rates.Scores(ratios(sure, used), used)
    return {
        "name": name,
        "sentence": guarantee.sentence(),
        "models": models,
        "members": records // 2,
        "test_accuracy": float(np.mean(accuracies)),
        "rates": rates.measured(scores, guarantee),
        "curve": rates.curves(scores, guarantee),
    }


def run(pool: Pool) -> dict[str, Any]:
    """All arms."""
    return {"rows": [attacked(pool, name) for name in ARMS]}


def table(found: dict[str, Any]) -> str:
    """One line for each arm."""
    lines = [
        "| training | test accuracy | recognised, 0.1 % false alarms | 1 % | 5 % |",
        "|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        shown = " | ".join(rates.cells(row["rates"]))
        lines.append(f"| {row['name']} | {100 * row['test_accuracy']:.1f} % | {shown} |")
    said = "\n".join(f"- {r['name']}: {r['sentence']}" for r in found["rows"])
    return "\n".join(lines) + "\n\n" + said
