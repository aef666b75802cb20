"""A multilayer perceptron for classification; the default is 200 sigmoid units, as in paper 002."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
from jax import Array

from tacit.tasks.base import Params, Record, flat, require_positive, width
from tacit.tasks.classifier import Classifier
from tacit.tasks.initial import Weights, draw

Activation = Literal["sigmoid", "relu", "tanh"]
ACTIVATIONS = {"sigmoid": jax.nn.sigmoid, "relu": jax.nn.relu, "tanh": jnp.tanh}


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


def dense_plan(inputs: int, outputs: int, activation: Activation) -> dict[str, Weights]:
    """He's normal weights for relu, Glorot's for sigmoid and tanh."""
    variance = 2 / inputs if activation == "relu" else 2 / (inputs + outputs)
    return {"w": Weights((inputs, outputs), math.sqrt(variance)), "b": Weights((outputs,))}


def dense(layer: Params, x: Array) -> Array:
    """``x @ w + b``."""
    z: Array = x @ layer["w"] + layer["b"]
    return z
