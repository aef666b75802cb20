"""A two-layer LSTM built of Flax layers. Flax is optional: ``pip install tacit-fl[flax]``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.errors import ConfigError
from tacit.tasks.adapters import require
from tacit.tasks.base import HostRecords, Params, Record, Ridge, require_positive
from tacit.tasks.initial import Weights, draw
from tacit.tasks.metrics import accuracy, defined


@dataclass(frozen=True, kw_only=True)
class LSTM(Ridge):
    """A two-layer LSTM that predicts the next character or word.

    ``x`` is a row of token numbers; ``y`` the token that follows each (``every``), or the one that
    follows the last. Positions whose target is ``pad`` do not count. The defaults are those of
    DP-ScaffNew's Reddit experiment.
    """

    classes: int
    length: int
    embedding: int = 256
    hidden: int = 256
    layers: int = 2
    every: bool = True
    pad: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(
            classes=self.classes,
            length=self.length,
            embedding=self.embedding,
            hidden=self.hidden,
            layers=self.layers,
        )

    @classmethod
    def for_data(cls, shape: tuple[int, ...], classes: int, **options: Any) -> Self:
        """``classes`` is the size of the vocabulary, ``shape`` the length of a row of tokens."""
        if len(shape) != 1:
            raise ConfigError(f"a record of text is a row of tokens, not of shape {shape}.")
        return cls(classes=classes, length=shape[0], **options)

    def init(self, key: Array) -> Params:
        """LeCun's normal kernels and embeddings, zero biases."""
        shapes = jax.eval_shape(self._first_params)
        return draw(key, jax.tree.map_with_path(_weights, shapes))

    def output(self, params: Params, record: Record) -> Array:
        """Scores over the vocabulary, at every position or after the last."""
        x = jnp.asarray(record["x"]).reshape(1, self.length).astype(jnp.int32)
        for name, layer in self._layers().items():
            if name == "head" and not self.every:
                x = x[:, -1]
            x = jnp.asarray(layer.apply({"params": params[name]}, x))
        return x[0]

    def loss(self, params: Params, record: Record) -> Array:
        """Mean cross-entropy over the positions of one record that count."""
        scores = self.output(params, record)
        target = jnp.asarray(record["y"]).reshape(scores.shape[:-1]).astype(jnp.int32)
        picked = jnp.take_along_axis(scores, target[..., None], axis=-1)[..., 0]
        losses = jax.nn.logsumexp(scores, axis=-1) - picked
        counts = jnp.ones_like(losses) if self.pad is None else (target != self.pad) * 1.0
        return jnp.sum(losses * counts) / jnp.maximum(jnp.sum(counts), 1)

    def metrics(self, outputs: NDArray[np.floating], records: HostRecords) -> dict[str, float]:
        """The share of positions that are predicted right, those that do not count left out."""
        scores = outputs.reshape(-1, self.classes)
        target = np.ravel(records["y"])
        counts = np.ones(len(target), bool) if self.pad is None else target != self.pad
        return defined(accuracy=accuracy(scores[counts], target[counts]))

    def _layers(self) -> dict[str, Any]:
        """The Flax layers by name, in the order in which a batch of rows passes through them."""
        nn = require("flax.linen", "flax")
        kind = {"param_dtype": jnp.result_type(float)}
        return {
            "embedding": nn.Embed(self.classes, self.embedding, **kind),
            **{
                f"lstm{i}": nn.RNN(nn.OptimizedLSTMCell(self.hidden, **kind))
                for i in range(self.layers)
            },
            "head": nn.Dense(self.classes, **kind),
        }

    def _first_params(self) -> Params:
        """Flax's own initial parameters, of which only the shapes are used."""
        x = jnp.zeros((1, self.length), jnp.int32)
        params: dict[str, Any] = {}
        for name, layer in self._layers().items():
            x, variables = layer.init_with_output(jax.random.key(0), x)
            params[name] = variables["params"]
        return params


def _weights(path: tuple[Any, ...], like: Any) -> Weights:
    kind = path[-1].key
    if kind == "bias":
        return Weights(like.shape)
    inputs = like.shape[-1] if kind == "embedding" else math.prod(like.shape[:-1])
    return Weights(like.shape, spread=1 / math.sqrt(inputs))
