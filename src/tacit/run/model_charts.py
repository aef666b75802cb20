"""Charts of a trained model: which labels it mistakes, and how its clients fare."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.evaluation import Evaluator
from tacit.report.charts import Chart, lines, matrix, spread
from tacit.run.config import RunConfig
from tacit.run.folder import RunFolder, load_model
from tacit.run.prelude import restored
from tacit.run.run import Run

_GROUPS, _FEWEST = 10, 5


def model_charts(folder: Path, run: Run | None, *, oracle: bool) -> Iterator[Chart]:
    """The charts that need the records; none where they cannot be brought back.

    ``run`` is the run itself, where it has just been trained. ``oracle`` allows a look at private
    records: a simulation that has looked at them may, a deployment may not.
    """
    try:
        if run is None:
            run = Run.from_config(RunConfig.load(folder / "config.toml").anchored(folder))
        federation = run.federation
        if run.plan.prelude is not None:
            federation = restored(run.plan, federation, RunFolder(folder))
        model = _model(run, folder)
    except (TacitError, OSError, KeyError, ValueError):
        return  # other data, or none, is on this machine
    if federation.classes < 2:
        return
    evaluator = Evaluator(run.plan.algorithm, run.plan.task, run.dtype)
    if federation.test is not None:
        public = federation.test_from == "public"
        if public or oracle:
            outputs = evaluator.outputs(model, federation.test)
            answers = _labels(outputs)
            labels = np.asarray(federation.test["y"], int)
            counts = np.zeros((federation.classes, federation.classes), int)
            np.add.at(counts, (labels, answers), 1)
            yield matrix(
                "confusion",
                "Which labels are mistaken",
                counts,
                [str(label) for label in range(federation.classes)],
                "Records of the test set; the colour is the share of the true label.",
                not public,
            )
            shares = run.plan.task.probabilities(outputs)
            if shares is not None:
                yield _calibration(shares, labels, not public)
    if oracle and federation.clients > 2:
        right = _labels(evaluator.outputs(model, federation.records)) == federation.records["y"]
        ends = np.cumsum(federation.sizes)
        each = [float(part.mean()) for part in np.split(right, ends[:-1])]
        yield spread(
            "clients",
            "How the clients fare",
            each,
            "accuracy on a client's own records",
            "One model serves all; some clients have little use of it.",
        )


def _calibration(shares: NDArray[Any], labels: NDArray[Any], oracle: bool) -> Chart:
    """How often the model is right where it claims some probability, in groups of equal width."""
    claimed, right = shares.max(axis=1), shares.argmax(axis=1) == labels
    groups = np.minimum((claimed * _GROUPS).astype(int), _GROUPS - 1)
    found = [
        (float(claimed[at].mean()), float(right[at].mean()))
        for at in (groups == group for group in range(_GROUPS))
        if at.sum() >= _FEWEST
    ]
    ends = [1 / shares.shape[1], 1.0]
    return lines(
        "calibration",
        "Is it as right as it claims?",
        {"model": found} if found else {},
        across="probability that the model gives its answer",
        up="share of right answers",
        others={"exact": [(end, end) for end in ends]},
        note=(
            f"Test records in groups of similar probability, groups below {_FEWEST} left out."
            " Below the dotted line it claims too much."
        ),
        marked=True,
        low=0.0,
        high=1.0,
        oracle=oracle,
    )


def _model(run: Run, folder: Path) -> Any:
    import jax

    like = jax.eval_shape(run.plan.task.init, jax.random.key(0))
    return load_model(folder / "model.npz", like)


def _labels(outputs: NDArray[Any]) -> NDArray[np.int64]:
    if outputs.ndim > 1 and outputs.shape[1] > 1:
        return np.argmax(outputs, axis=1)
    return np.asarray(np.ravel(outputs) > 0, np.int64)
