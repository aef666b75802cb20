"""A multilayer perceptron for classification; by default the 200 sigmoid units of dynamic LDP."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
from jax import Array

from tacit.tasks.base import ByRecord, Params, Record, flat, require_positive, width
from tacit.tasks.by_layer import Study, layered, tap, tapped_slopes
from tacit.tasks.classifier import Classifier
from tacit.tasks.initial import Weights, draw

Activation = Literal["sigmoid", "relu", "tanh", "none"]
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "sigmoid": jax.nn.sigmoid,
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "none": lambda x: x,  # for networks whose only bend is the pooling
}


@dataclass(frozen=True, kw_only=True)
class MLP(Classifier):
    """Dense layers of the given widths, an activation between them, a score for each class."""

    features: int
    hidden: tuple[int, ...] = (200,)
    activation: Activation = "sigmoid"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(features=self.features)
        for units in self.hidden:
            require_positive(hidden=units)

    @classmethod
    def for_data(cls, shape: tuple[int, ...], classes: int, **options: Any) -> Self:
        """As many inputs as ``x`` has numbers, as many outputs as there are classes."""
        return cls(features=width(shape), classes=classes, **options)

    def init(self, key: Array) -> Params:
        """Weights that keep the size of signals for this activation, and zero biases."""
        sizes = (self.features, *self.hidden, self.classes)
        pairs = enumerate(itertools.pairwise(sizes))
        return draw(key, {f"layer{i}": dense_plan(*pair, self.activation) for i, pair in pairs})

    def output(self, params: Params, record: Record) -> Array:
        """One score for each class."""
        x = flat(record, params["layer0"]["w"])
        for i in range(len(self.hidden)):
            x = ACTIVATIONS[self.activation](dense(params[f"layer{i}"], x))
        return dense(params[f"layer{len(self.hidden)}"], x)

    def by_record(self, params: Params, records: Record) -> ByRecord:
        """The slopes in every layer's outputs, and what the layer had read, are all it takes."""
        read, slopes = tapped_slopes(partial(self._study, params, records), records)
        return layered(params, read, slopes, data="layer0")

    def _study(self, params: Params, records: Record, taps: Mapping[str, Array]) -> Study:
        """Scores, what every layer reads, and what it makes with its tap."""
        read: dict[str, Array] = {}
        made: dict[str, Array] = {}
        x = jnp.asarray(records["x"])
        x = x.reshape(x.shape[0], -1).astype(params["layer0"]["w"].dtype)
        for i in range(len(self.hidden) + 1):
            name = f"layer{i}"
            read[name] = x if i == 0 else ACTIVATIONS[self.activation](x)
            x = tap(made, taps, name, dense(params[name], read[name]))
        return x, read, made


def dense_plan(inputs: int, outputs: int, activation: Activation) -> dict[str, Weights]:
    """He's normal weights for relu, Glorot's for the others."""
    variance = 2 / inputs if activation == "relu" else 2 / (inputs + outputs)
    return {"w": Weights((inputs, outputs), math.sqrt(variance)), "b": Weights((outputs,))}


def dense(layer: Params, x: Array) -> Array:
    """``x @ w + b``."""
    z: Array = x @ layer["w"] + layer["b"]
    return z
