"""Tasks by name: what a configuration file asks for, with its options checked.

The shape of the data comes from the federation and is not repeated in the configuration.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from tacit.errors import ConfigError
from tacit.tasks.base import Task
from tacit.validation import check_names, check_types, nearest

# A class of this package, and the defaults that the name changes.
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "cifar-cnn": ("cnn:CNN", {"filters": (16, 32), "kernel": 5, "hidden": (64,)}),
    "cnn": ("cnn:CNN", {}),
    "cox-piecewise": ("survival:CoxPiecewise", {}),
    "least-squares": ("linear:LeastSquares", {}),
    "logistic": ("logistic:Logistic", {}),
    "lstm": ("lstm:LSTM", {}),
    "mlp": ("mlp:MLP", {}),
    "multinomial": ("logistic:Multinomial", {}),
    "poisson": ("counts:Poisson", {}),
    "quadratic": ("linear:Quadratic", {}),
    "random-features": ("random_features:RandomFeatures", {}),
    "small-cnn": ("cnn:CNN", {"filters": (2, 1), "hidden": ()}),
    "weibull": ("survival:Weibull", {}),
}

REFUSED = {
    "cox": (
        "Cox's partial likelihood compares each event with all records still at risk, so no "
        "record has a contribution of its own to bound: choose 'cox-piecewise' (the same "
        "hazard ratios, the baseline on a public grid of cuts) or 'weibull'."
    ),
}

# Taken from the data, never from a configuration.
_FROM_DATA = frozenset({"features", "classes", "length"})


def names() -> tuple[str, ...]:
    """The names that ``make`` knows, in alphabetical order."""
    return tuple(sorted(TASKS))


def find(name: str) -> type[Task]:
    """The class behind a name."""
    if name in REFUSED:
        raise ConfigError(REFUSED[name])
    if name not in TASKS:
        raise ConfigError(f"there is no task {name!r}{nearest(name, names())}")
    module, attribute = TASKS[name][0].split(":")
    found: type[Task] = getattr(importlib.import_module(f"tacit.tasks.{module}"), attribute)
    return found


def options(name: str) -> dict[str, Any]:
    """The options of a task with their defaults; ``None`` is taken from the data if not stated."""
    own = {
        field.name: None if field.default is dataclasses.MISSING else field.default
        for field in dataclasses.fields(find(name))  # type: ignore[arg-type]
        if field.name not in _FROM_DATA
    }
    return own | TASKS[name][1]


def make(name: str, *, shape: tuple[int, ...], classes: int = 0, **given: Any) -> Task:
    """The task of this name for records whose ``x`` has ``shape``, with ``classes`` labels.

    Args:
        name: A name of a ``[task]`` section, such as ``"logistic"`` or ``"multinomial"``.
        shape: The shape of one record's ``x``.
        classes: How many labels there are; 0 for regression.
        **given: The options of this task, as a configuration spells them.

    Returns:
        The task, for ``train``.

    >>> make("multinomial", shape=(8, 8), classes=10, l2=0.01)
    Multinomial(l2=0.01, classes=10, features=64, bias=True)
    """
    cls = find(name)
    what = f"the task {name!r}"
    check_names(what, given, options(name))
    checked = check_types(what, given, cls)
    return cls.for_data(tuple(shape), classes, **TASKS[name][1] | checked)


def spelled(task: Task) -> dict[str, Any] | None:
    """The name and options that ``make`` turns into this task; None if it has no name."""
    for name in (n for n, (_, changes) in TASKS.items() if not changes):
        if find(name) is type(task):
            own = {key: (getattr(task, key), default) for key, default in options(name).items()}
            return {"name": name} | {k: v for k, (v, default) in own.items() if v != default}
    return None
