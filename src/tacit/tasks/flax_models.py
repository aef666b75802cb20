"""Larger networks built of Flax layers: VGG-11, a small 3D U-Net and a two-layer LSTM.

The networks of DP-ScaffNew's experiments, with group normalisation or none. Flax is optional
(``pip install tacit[flax]``). A network is written once as ``forward``: a function that names each
layer and passes a value through it; the same text initialises and applies.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
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
from tacit.tasks.classifier import Classifier
from tacit.tasks.cnn import image_shape
from tacit.tasks.initial import Weights, draw
from tacit.tasks.metrics import accuracy, defined, dice

Through = Callable[[str, Any, Array], Array]  # a named layer and what passes through it


@dataclass(frozen=True, kw_only=True)
class FlaxNetwork(Ridge):
    """A network of named Flax layers."""

    @abstractmethod
    def forward(self, nn: Any, through: Through, x: Array) -> Array:
        """The network: pass ``x`` (a batch of one) through named layers of ``nn``."""

    @abstractmethod
    def example(self) -> Array:
        """A record's ``x`` of the right shape and type, to initialise with."""

    def init(self, key: Array) -> Params:
        """LeCun's normal kernels and embeddings, unit scales, zero biases."""
        shapes = jax.eval_shape(self._shapes)
        return draw(key, jax.tree.map_with_path(_weights, shapes))

    def _shapes(self) -> Params:
        nn = require("flax.linen", "flax")
        params: dict[str, Any] = {}

        def through(name: str, layer: Any, x: Array) -> Array:
            out, variables = layer.init_with_output(jax.random.key(0), x)
            params[name] = variables["params"]
            return jnp.asarray(out)

        self.forward(nn, through, self.example()[None])
        return params

    def output(self, params: Params, record: Record) -> Array:
        """What the network says of one record."""
        nn = require("flax.linen", "flax")

        def through(name: str, layer: Any, x: Array) -> Array:
            return jnp.asarray(layer.apply({"params": params[name]}, x))

        example = self.example()
        x = jnp.asarray(record["x"]).reshape(example.shape).astype(example.dtype)
        return self.forward(nn, through, x[None])[0]


def _weights(path: tuple[Any, ...], like: Any) -> Weights:
    kind = path[-1].key
    if kind in ("bias", "scale"):
        return Weights(like.shape, centre=float(kind == "scale"))
    inputs = like.shape[-1] if kind == "embedding" else math.prod(like.shape[:-1])
    return Weights(like.shape, spread=1 / math.sqrt(inputs))


@dataclass(frozen=True, kw_only=True)
class VGG11(FlaxNetwork, Classifier):
    """VGG-11 (Simonyan and Zisserman 2015): eight 3 x 3 convolutions, five poolings, dense layers.

    The last feature map is averaged, so any image of at least 32 x 32 fits; there is no dropout.
    """

    image: tuple[int, int, int]
    base: int = 64
    hidden: tuple[int, ...] = (512, 512)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(base=self.base)
        if min(self.image[:2]) < 32:
            raise ConfigError(f"VGG-11 needs images of at least 32 x 32, not {self.image[:2]}.")

    @classmethod
    def for_data(cls, shape: tuple[int, ...], classes: int, **options: Any) -> Self:
        """Images as the data states them."""
        image = image_shape(shape, options.pop("image", None))
        return cls(image=image, classes=classes, **options)

    def example(self) -> Array:
        """An image of zeros."""
        return jnp.zeros(self.image)

    def forward(self, nn: Any, through: Through, x: Array) -> Array:
        """Convolutions in five stages, then dense layers."""
        kind = {"param_dtype": x.dtype}
        for stage, (width, depth) in enumerate(((1, 1), (2, 1), (4, 2), (8, 2), (8, 2))):
            for i in range(depth):
                layer = nn.Conv(width * self.base, (3, 3), **kind)
                x = jax.nn.relu(through(f"conv{stage}_{i}", layer, x))
            x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = jnp.mean(x, axis=(1, 2))
        for i, units in enumerate(self.hidden):
            x = jax.nn.relu(through(f"dense{i}", nn.Dense(units, **kind), x))
        return through("head", nn.Dense(self.classes, **kind), x)


@dataclass(frozen=True, kw_only=True)
class UNet3D(FlaxNetwork):
    """A small 3D U-Net (Cicek et al. 2016) with group norm for masks of volumes, Dice loss.

    ``x`` is (depth, height, width[, channels]), ``y`` a mask of 0 and 1 of the same volume, the
    output one log-odds for each voxel.
    """

    volume: tuple[int, int, int, int]
    channels: tuple[int, ...] = (8, 16, 32)
    groups: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        step = 2 ** (len(self.channels) - 1)
        if not self.channels or any(side % step for side in self.volume[:3]):
            raise ConfigError(
                f"the sides of the volume {self.volume[:3]} must divide by {step} for "
                f"{len(self.channels)} levels: pad the volumes or take fewer channels."
            )
        if any(c % self.groups for c in self.channels):
            raise ConfigError(f"{self.groups} groups must divide the channels {self.channels}.")

    @classmethod
    def for_data(cls, shape: tuple[int, ...], classes: int, **options: Any) -> Self:
        """Volumes as the data states them."""
        del classes
        full = tuple(options.pop("volume", shape))
        if len(full) not in (3, 4):
            raise ConfigError(f"records of shape {shape} are no volumes (depth, height, width).")
        return cls(volume=(full[0], full[1], full[2], (*full, 1)[3]), **options)

    def example(self) -> Array:
        """A volume of zeros."""
        return jnp.zeros(self.volume)

    def forward(self, nn: Any, through: Through, x: Array) -> Array:
        """Down with pooling, up with skips, one value for each voxel."""
        kind = {"param_dtype": x.dtype}

        def block(name: str, x: Array, width: int) -> Array:
            for i in range(2):
                x = through(f"{name}_conv{i}", nn.Conv(width, (3, 3, 3), **kind), x)
                x = through(f"{name}_norm{i}", nn.GroupNorm(self.groups, **kind), x)
                x = jax.nn.relu(x)
            return x

        skips = []
        for level, width in enumerate(self.channels[:-1]):
            x = block(f"down{level}", x, width)
            skips.append(x)
            x = nn.max_pool(x, (2, 2, 2), strides=(2, 2, 2))
        x = block("bottom", x, self.channels[-1])
        for level, width in reversed(list(enumerate(self.channels[:-1]))):
            up = nn.ConvTranspose(width, (2, 2, 2), strides=(2, 2, 2), **kind)
            x = jnp.concatenate([skips[level], through(f"up{level}", up, x)], axis=-1)
            x = block(f"join{level}", x, width)
        return through("head", nn.Conv(1, (1, 1, 1), **kind), x)[..., 0]

    def loss(self, params: Params, record: Record) -> Array:
        """One minus the soft Dice overlap of this record."""
        chance = jax.nn.sigmoid(self.output(params, record))
        truth = jnp.asarray(record["y"]).reshape(chance.shape).astype(chance.dtype)
        overlap = 2 * jnp.sum(chance * truth) + 1
        return 1 - overlap / (jnp.sum(chance) + jnp.sum(truth) + 1)

    def metrics(self, outputs: NDArray[np.floating], records: HostRecords) -> dict[str, float]:
        """The mean Dice of the masks."""
        return defined(dice=dice(outputs > 0, np.asarray(records["y"], bool)))


@dataclass(frozen=True, kw_only=True)
class LSTM(FlaxNetwork):
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

    def example(self) -> Array:
        """A row of the first token."""
        return jnp.zeros(self.length, jnp.int32)

    def forward(self, nn: Any, through: Through, x: Array) -> Array:
        """Embedding, recurrent layers, scores over the vocabulary."""
        kind = {"param_dtype": jnp.result_type(float)}
        z = through("embedding", nn.Embed(self.classes, self.embedding, **kind), x)
        for i in range(self.layers):
            z = through(f"lstm{i}", nn.RNN(nn.OptimizedLSTMCell(self.hidden, **kind)), z)
        return through("head", nn.Dense(self.classes, **kind), z if self.every else z[:, -1])

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
