"""``tacit.train``: a run from Python objects, in one call."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

from tacit.accounting import Budget
from tacit.algorithm import Algorithm
from tacit.data.federation import Federation
from tacit.errors import ConfigError, NoPrivacyWarning
from tacit.precision import Precision
from tacit.run.loop import OnProgress, Settings
from tacit.run.result import Result
from tacit.run.run import Run
from tacit.simulation.tuning import Block
from tacit.tasks.base import Task


def train(
    algorithm: Algorithm,
    task: Task,
    federation: Federation,
    *,
    rounds: int | None = None,
    budget: Budget | None = None,
    delta: float | None = None,
    seed: int | None = None,
    eval_every: int | None = None,
    dtype: Precision | None = None,
    oracle: bool = True,
    block: Block = None,
    out: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> Result:
    """Train on one machine. With a budget the noise is calibrated to it; otherwise it is counted.

    The noise comes from the operating system. With a ``seed`` the run can be repeated: it is then a
    simulation, which protects nobody, and its guarantee says so. The guarantee of the result is for
    the whole run.

    Args:
        algorithm: The method, from ``make_algorithm`` or a class such as ``DPFedAvg``.
        task: The model and its loss, from ``make_task`` or a class of your own.
        federation: The records of the clients, from ``federate`` or ``Federation.from_clients``.
        rounds: How many rounds. A method such as ``Auto`` says itself how many it wants.
        budget: Epsilon and delta for the whole run; the noise is calibrated to it.
        delta: Without a budget, the delta at which the noise of the method is counted.
        seed: For a simulation that can be repeated. Left out, the noise is real.
        eval_every: Measure the model every so many rounds.
        dtype: ``"float32"`` or ``"float64"``.
        oracle: False looks at no private record to measure anything.
        block: How many clients are computed side by side; left out, it is chosen for this machine.
        out: A folder that keeps everything. Calling again with the same arguments continues there;
            other arguments are refused.
        on_progress: Called while the run goes on.

    Returns:
        The model, its measurements and its guarantee.
    """
    _check_kinds(algorithm, task, federation, rounds=rounds, budget=budget, delta=delta, seed=seed)
    settings = Settings(
        seed=seed,
        delta=delta or 0.0,
        eval_every=eval_every,
        dtype=dtype,
        oracle=oracle,
        block=block,
    )
    run = Run.of(algorithm, task, federation, rounds=rounds, budget=budget, settings=settings)
    planned = run.guarantee()
    if math.isinf(planned.epsilon):
        warnings.warn(planned.sentence(), NoPrivacyWarning, stacklevel=2)
    return run.train(out, on_progress=on_progress)


_MAKE = {
    "algorithm": "tacit.make_algorithm('dp-fedavg', ...) or a class such as tacit.DPFedAvg(...)",
    "task": "tacit.make_task('multinomial', shape=..., classes=...) or a task of your own",
    "federation": "tacit.federate('digits', clients=100) or tacit.Federation.from_clients(...)",
    "budget": "tacit.Budget(epsilon, delta)",
    "rounds": "a whole number",
    "delta": "a number such as 1e-5",
    "seed": "a whole number, or nothing",
}


def _check_kinds(algorithm: Any, task: Any, federation: Any, **settings: Any) -> None:
    """One sentence for a value of the wrong kind, with what makes the right one."""
    wanted: dict[str, tuple[Any, Any]] = {
        "algorithm": (algorithm, Algorithm),
        "task": (task, Task),
        "federation": (federation, Federation),
        "budget": (settings["budget"], (Budget, type(None))),
        "rounds": (settings["rounds"], (int, type(None))),
        "delta": (settings["delta"], (float, int, type(None))),
        "seed": (settings["seed"], (int, type(None))),
    }
    for name, (value, kinds) in wanted.items():
        if isinstance(value, bool) or not isinstance(value, kinds):
            shown = repr(value) if isinstance(value, (str, int, float, tuple)) else "given"
            raise ConfigError(f"{name} is {shown} ({type(value).__name__}): give {_MAKE[name]}.")
