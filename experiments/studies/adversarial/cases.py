"""The tasks under attack, small, each with the columns of one record."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

from tacit.tasks import (
    from_equinox,
    from_functions,
    from_linen,
    from_nnx,
    make,
    names,
    softmax_loss,
)
from tacit.tasks.base import Task

Values = np.ndarray[Any, Any]
FEATURES, CLASSES = 5, 3
SMALL: dict[str, dict[str, Any]] = {
    "least-squares": {"bias": True, "l2": 0.1},
    "quadratic": {},
    "quadratic, matrices": {"shape": (4, 3)},
    "logistic": {"classes": 2, "l2": 0.1},
    "multinomial": {"classes": CLASSES, "l2": 0.1},
    "multinomial, no bias": {"classes": CLASSES, "bias": False},
    "multinomial, wide": {"shape": (64,), "classes": 10},
    "random-features": {"classes": CLASSES, "units": 6},
    "poisson": {},
    "cox-piecewise": {"cuts": (1.0, 2.5)},
    "weibull": {"l2": 0.1},
    "weibull, exponential": {"exponential": True},
    "mlp": {"classes": CLASSES, "hidden": (4,)},
    "mlp, relu": {"classes": CLASSES, "hidden": (4, 3), "activation": "relu"},
    "mlp, tanh": {"classes": CLASSES, "hidden": (4, 3), "activation": "tanh"},
    "mlp, wide": {"shape": (64,), "classes": 10, "hidden": (32,)},
    "cnn": {"shape": (8, 8), "classes": CLASSES, "filters": (2, 2), "kernel": 2, "hidden": (3,)},
    "small-cnn": {"shape": (8, 8), "classes": CLASSES, "kernel": 2, "activation": "none"},
    "cifar-cnn": {"shape": (8, 8, 2), "classes": CLASSES, "filters": (2, 3), "padding": "same"},
    "lstm": {"shape": (2,), "classes": CLASSES, "embedding": 3, "hidden": 2, "layers": 1},
}
COLUMNS: dict[str, dict[str, tuple[int, ...]]] = {
    "cox-piecewise": {"x": (FEATURES,), "time": (), "event": ()},
    "lstm": {"x": (2,), "y": (2,)},
    "poisson": {"x": (FEATURES,), "y": (), "exposure": ()},
    "quadratic, matrices": {"a": (4, 3), "center": (4,)},
    "weibull": {"x": (FEATURES,), "time": (), "event": ()},
}


class Case(NamedTuple):
    """A task, and one record whose values only tell shapes and kinds."""

    task: Task
    like: dict[str, Values]


def cases() -> dict[str, Case]:
    """All tasks of the registry, and of functions, Flax and Equinox where they are installed."""
    found = {name: _named(name) for name in SMALL if name != "lstm" or _installed("flax")}
    own, like = found["mlp, tanh"]
    found["functions"] = Case(from_functions(own.init, own.loss), like)
    if _installed("flax"):
        found["linen"], found["nnx"] = Case(_linen(), like), Case(_nnx(), like)
    if _installed("equinox"):
        found["equinox"] = Case(_equinox(), like)
    return found


def missing(found: Iterable[str]) -> list[str]:
    """Tasks that were not searched, for instance for want of a library."""
    known = {*names(), "functions", "linen", "nnx", "equinox"}
    return sorted(known - {name.split(",")[0] for name in found})


def _named(name: str) -> Case:
    kind, given = name.split(",")[0], {"shape": (FEATURES,), **SMALL[name]}
    shapes = COLUMNS.get(name, COLUMNS.get(kind, {"x": given["shape"], "y": ()}))
    whole = ("x", "y") if kind == "lstm" else ("y",) if "classes" in given else ()
    like = {k: np.ones(shape, int if k in whole else float) for k, shape in shapes.items()}
    return Case(make(kind, **given), like)


def _installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def _linen() -> Task:
    nn = importlib.import_module("flax.linen")
    module = nn.Sequential([nn.Dense(4), nn.LayerNorm(), nn.tanh, nn.Dense(CLASSES)])
    return from_linen(module, softmax_loss, shape=(FEATURES,))


def _nnx() -> Task:
    nnx = importlib.import_module("flax.nnx")

    def build(rngs: Any) -> Any:
        return nnx.Sequential(
            nnx.Linear(FEATURES, 4, rngs=rngs), nnx.relu, nnx.Linear(4, CLASSES, rngs=rngs)
        )

    return from_nnx(build, softmax_loss)


def _equinox() -> Task:
    eqx = importlib.import_module("equinox")
    return from_equinox(
        lambda key: eqx.nn.MLP(FEATURES, CLASSES, 4, 1, activation=jax.nn.tanh, key=key),
        softmax_loss,
    )
