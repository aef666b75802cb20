"""The configuration that names the objects of a run, so that a folder is the same for all doors.

Objects of the user's own (a task of functions, records from arrays) have no name in a
configuration. The folder of such a run says what it was, and that Python continues it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.algorithm import Algorithm
from tacit.algorithms import registry as algorithms
from tacit.data.federation import Federation
from tacit.errors import ConfigError, TacitError
from tacit.planning import Plan
from tacit.run.config import RunConfig, as_toml
from tacit.run.loop import Settings
from tacit.tasks import registry as tasks
from tacit.tasks.base import Task

PYTHON = "python"
_CONTINUE = "this run was begun by tacit.train: call it again with the same arguments and folder"


def spelled(
    algorithm: Algorithm,
    task: Task,
    federation: Federation,
    rounds: int | None,
    settings: Settings,
) -> RunConfig | None:
    """The configuration that makes these objects again; None if there is none."""
    method, model = algorithms.spelled(algorithm), tasks.spelled(task)
    if federation.source is None or method is None or model is None:
        return None
    train = {
        "rounds": rounds,
        "seed": settings.seed,
        "eval_every": settings.eval_every,
        "dtype": settings.dtype,
        "block": settings.block,
        "oracle": settings.oracle,
    }
    values = {
        **federation.source,
        "task": model,
        "algorithm": {k: v for k, v in method.items() if k != "noise"},
        "privacy": _privacy(method.get("noise", 0.0), settings),
        "train": {k: v for k, v in train.items() if v is not None},
    }
    try:
        config = RunConfig.from_dict(values)
        return config if _is_same(config, algorithm, task, federation) else None
    except TacitError:
        return None


def config_text(config: RunConfig | None, plan: Plan, settings: Settings) -> str:
    """The text of a folder's ``config.toml``."""
    if config is not None:
        return as_toml(config.as_dict())
    return as_toml(
        {
            PYTHON: _CONTINUE,
            "task": repr(plan.task),
            "algorithm": repr(plan.algorithm),
            "rounds": plan.rounds,
            "clients": plan.population.clients,
            "records": plan.population.records,
            "settings": repr(settings),
        }
    )


def refuse_python(values: Mapping[str, Any]) -> None:
    """Refuse to read the folder of a run that only Python can continue."""
    if PYTHON in values:
        raise ConfigError(f"{_CONTINUE}; a configuration cannot name its data or its model.")


def _privacy(noise: Any, settings: Settings) -> Any:
    if settings.budget is not None:
        return {"epsilon": settings.budget.epsilon, "delta": settings.budget.delta}
    return {"noise": float(noise), "delta": settings.delta} if noise else "none"


def _is_same(config: RunConfig, algorithm: Algorithm, task: Task, federation: Federation) -> bool:
    """Whether the configuration gives the same method and model, apart from a calibrated noise."""
    x = federation.records["x" if "x" in federation.records else "a"]
    again = tasks.make(
        config.task.name, shape=x.shape[1:], classes=federation.classes, **config.task.options
    )
    method = algorithms.make(config.algorithm.name, **config.algorithm.options)
    if again != task:
        return False
    if config.privacy == "none":
        return method == algorithm
    noise = 1.0 if config.privacy.noise is None else config.privacy.noise
    stated = algorithm if config.privacy.noise is not None else algorithm.with_noise(noise)
    return method.with_noise(noise) == stated
