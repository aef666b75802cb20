"""Small convolutional networks.

``CNN``: convolution, activation and max pooling in turn, then dense layers. The defaults are the
network of DP-FedEXP's central experiments on 28 x 28 images (4 and 8 filters of 4 x 4, dense 128 to
32 to 10: 5,046 parameters); filters (2, 1) and no hidden layer give its small network (237). The
paper's table names no pooling and one activation: 2 x 2 max pooling is the choice that leads to its
128 inputs, and relu follows each convolution here. A lone filter behind a relu may start dead; with
``activation = "none"`` the pooling is the small network's only bend. ``start = "torch"`` begins
with the smaller weights, and the biases, of PyTorch's layers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
from jax import Array

from tacit.errors import ConfigError
from tacit.tasks.base import ByRecord, Params, Record, require_positive, width
from tacit.tasks.by_layer import Study, layered, tap, tapped_slopes
from tacit.tasks.classifier import Classifier, softmax_loss
from tacit.tasks.conv import Padding, conv2d, max_pool, output_size
from tacit.tasks.conv_batch import blocks, kernel_gradients, patches, pooled
from tacit.tasks.initial import Weights, draw
from tacit.tasks.mlp import ACTIVATIONS, Activation, dense, dense_plan


@dataclass(frozen=True, kw_only=True)
class CNN(Classifier):
    """Convolutions with pooling, then dense layers, then one score for each class.

    Images are (height, width, channels), stored so or flat in that order.
    """

    image: tuple[int, int, int]
    filters: tuple[int, ...] = (4, 8)
    kernel: int = 4
    pool: int = 2
    hidden: tuple[int, ...] = (32,)
    activation: Activation = "relu"
    padding: Padding = "valid"
    start: Literal["he", "torch"] = "he"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(kernel=self.kernel, pool=self.pool)
        for name, sizes in (("filters", self.filters), ("hidden", self.hidden)):
            for size in sizes:
                require_positive(**{name: size})
        self._flat_size()

    @classmethod
    def for_data(cls, shape: tuple[int, ...], classes: int, **options: Any) -> Self:
        """Images as the data states them; ``image`` states the shape of flat records."""
        image = image_shape(shape, options.pop("image", None))
        return cls(image=image, classes=classes, **options)

    def init(self, key: Array) -> Params:
        """Weights that keep the size of signals and zero biases, or all as small as PyTorch's."""
        channels = (self.image[2], *self.filters)
        sizes = (self._flat_size(), *self.hidden, self.classes)
        plan = {
            f"conv{i}": conv_plan(self.kernel, *pair)
            for i, pair in enumerate(itertools.pairwise(channels))
        }
        for i, pair in enumerate(itertools.pairwise(sizes)):
            plan[f"dense{i}"] = dense_plan(*pair, self.activation)
        if self.start == "torch":
            plan = {name: _like_torch(layer) for name, layer in plan.items()}
        return draw(key, plan)

    def output(self, params: Params, record: Record) -> Array:
        """One score for each class."""
        act = ACTIVATIONS[self.activation]
        x = jnp.asarray(record["x"]).reshape(self.image).astype(params["dense0"]["w"].dtype)
        for i in range(len(self.filters)):
            layer = params[f"conv{i}"]
            x = act(conv2d(x, layer["w"], padding=self.padding) + layer["b"])
            x = max_pool(x, self.pool)
        x = jnp.ravel(x)
        for i in range(len(self.hidden)):
            x = act(dense(params[f"dense{i}"], x))
        return dense(params[f"dense{len(self.hidden)}"], x)

    def outputs(self, params: Params, records: Record) -> Array:
        """The scores of a batch; on a CPU in a form made for batches."""
        if jax.default_backend() != "cpu":
            return super().outputs(params, records)
        return self._study(params, records)[0]

    def losses(self, params: Params, records: Record) -> Array:
        """Cross-entropy of each record of a batch."""
        return jax.vmap(softmax_loss)(self.outputs(params, records), records)

    def by_record(self, params: Params, records: Record) -> ByRecord:
        """The slopes in every layer's outputs, and what the layer had read, are all it takes."""

        read, slopes = tapped_slopes(partial(self._study, params, records), records)
        kernels = {
            name: kernel_gradients(read[name], slopes[name], params[name]["w"].shape, self.pool)
            for name in read
            if name.startswith("conv")
        }
        return layered(params, read, slopes, kernels, axis=1)

    def _study(
        self, params: Params, records: Record, taps: Mapping[str, Array] | None = None
    ) -> Study:
        """Scores, what every layer reads, and what it makes; ``taps`` are added to the latter."""
        act = ACTIVATIONS[self.activation]
        read: dict[str, Array] = {}
        made: dict[str, Array] = {}
        tapped = partial(tap, made, taps or {})
        x = jnp.asarray(records["x"]).reshape(-1, *self.image).astype(params["dense0"]["w"].dtype)
        x = jnp.moveaxis(jnp.moveaxis(x, 0, -1), 2, 0)  # channels first, the batch last
        for i in range(len(self.filters)):
            name = f"conv{i}"
            kernel = params[name]["w"]
            read[name] = patches(x, kernel.shape, self.pool, self.padding)
            best = pooled(tapped(name, blocks(read[name], kernel, self.pool)), self.pool)
            biased = best + params[name]["b"][:, None, None, None]
            x = act(tapped(f"{name} bias", biased))  # it grows, so it may follow the maximum
        x = jnp.moveaxis(x, 0, 2).reshape(-1, x.shape[-1])
        for i in range(len(self.hidden) + 1):
            name = f"dense{i}"
            read[name] = x if i == 0 else act(x)
            x = tapped(name, _columns(params[name], read[name]))
        return x.T, read, made

    def _flat_size(self) -> int:
        rows, columns, channels = self.image
        for count in self.filters:
            rows = output_size(rows, self.kernel, self.padding) // self.pool
            columns = output_size(columns, self.kernel, self.padding) // self.pool
            channels = count
            if min(rows, columns) < 1:
                raise ConfigError(
                    f"images of {self.image[0]} x {self.image[1]} are too small for "
                    f"{len(self.filters)} convolutions of {self.kernel} with pooling "
                    f"{self.pool}: take fewer filters, a smaller kernel or padding 'same'."
                )
        return rows * columns * channels


def _columns(layer: Params, x: Array) -> Array:
    """A dense layer of a batch in columns (numbers, records), as the convolutions leave it."""
    z: Array = layer["w"].T @ x + layer["b"][:, None]
    return z


def image_shape(
    shape: tuple[int, ...], stated: tuple[int, int, int] | None
) -> tuple[int, int, int]:
    """(height, width, channels) of a record: as stated, or read off the shape of ``x``."""
    if stated is not None:
        if width(shape) != width(stated):
            raise ConfigError(
                f"image is {list(stated)}, that is {width(stated)} numbers, "
                f"but a record has {width(shape)}."
            )
        return stated
    if len(shape) == 3:
        return shape[0], shape[1], shape[2]
    if len(shape) == 2:
        return shape[0], shape[1], 1
    side = math.isqrt(width(shape))
    if len(shape) == 1 and side * side == shape[0]:
        return side, side, 1
    raise ConfigError(
        f"records of shape {shape} are no images: state image = [height, width, channels]."
    )


def _like_torch(layer: dict[str, Weights]) -> dict[str, Weights]:
    """Weights and biases with a variance of 1 / (3 inputs), that of PyTorch's uniform start."""
    spread = 1 / math.sqrt(3 * math.prod(layer["w"].shape[:-1]))
    return {name: Weights(weights.shape, spread) for name, weights in layer.items()}


def conv_plan(kernel: int, inputs: int, outputs: int) -> dict[str, Weights]:
    """He's normal kernel and a zero bias."""
    spread = math.sqrt(2 / (kernel * kernel * inputs))
    return {"w": Weights((kernel, kernel, inputs, outputs), spread), "b": Weights((outputs,))}
