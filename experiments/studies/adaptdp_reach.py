"""The smallest training loss of AdaptDP-FedAvg's T3 and T4 for a given norm of the weights.

    TACIT_DATA=... python -m experiments.studies.adaptdp_reach

Clipped steps limit the norm of the weights (rounds x steps x step size x radius), whatever the
noise. Non-private fits with decreasing regularisation show the smallest loss for each norm, and the
test accuracy of such a fit.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from experiments.reproduce.catalogue import ENTRIES
from experiments.reproduce.prepared import prepare

FREEDOMS = (1.0, 10.0, 1e3, 1e4)


def fits(name: str) -> dict[str, Any]:
    """Weights, losses and test accuracies on the features of a test."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    entry = ENTRIES[name]
    line = entry.lines[0]
    problem = prepare(line.config, entry.delta)
    found = problem.plan.task.unfrozen()
    assert found is not None and problem.federation.test is not None
    (x, y), (x_test, y_test) = (
        (np.asarray(found[1](part)["x"], np.float64), np.asarray(part["y"]))
        for part in (problem.federation.records, problem.federation.test)
    )
    rows = []
    for freedom in FREEDOMS:
        model = LogisticRegression(C=freedom, max_iter=600, tol=1e-6).fit(x, y)
        rows.append(
            {
                "freedom": freedom,
                "weights": float(np.linalg.norm(model.coef_)),
                "training loss": float(log_loss(y, model.predict_proba(x))),
                "test accuracy": 100 * float(model.score(x_test, y_test)),
            }
        )
    chosen = line.config["algorithm"]
    reach = line.config["train"]["rounds"] * chosen["local_steps"] * chosen["local_lr"]
    return {
        "features": list(x.shape),
        "mean norm": float(np.linalg.norm(x, axis=1).mean()),
        "reach": reach * chosen["clip"],
        "fits": rows,
    }


def main() -> None:
    """Both tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/studies/adaptdp-reach.json"))
    given = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*failed to converge.*")
    found: dict[str, Any] = {"command": "python -m experiments.studies.adaptdp_reach"}
    found |= {name: fits(f"adaptdp/table2-{name}") for name in ("t3", "t4")}
    given.out.write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
