"""Small convolutional networks.

``CNN``: convolution, activation and max pooling in turn, then dense layers. The defaults are the
network of DP-FedEXP's central experiments on 28 x 28 images (4 and 8 filters of 4 x 4, dense 128 to
32 to 10: 5,046 parameters); filters (2, 1) and no hidden layer give its small network (237). The
paper's table names no pooling and one activation: 2 x 2 max pooling is the choice that leads to its
128 inputs, and relu follows each convolution here.

``MobileNet``: depthwise separable convolutions with group normalisation. Batch normalisation mixes
records and has no per-record gradient, so no network here has it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
from jax import Array

from tacit.errors import ConfigError
from tacit.tasks.base import Params, Record, require_positive, width
from tacit.tasks.classifier import Classifier
from tacit.tasks.conv import Padding, conv2d, depthwise2d, max_pool, output_size
from tacit.tasks.initial import Weights, draw
from tacit.tasks.mlp import ACTIVATIONS, Activation, dense, dense_plan


@dataclass(frozen=True, kw_only=True)
class ImageClassifier(Classifier):
    """A classifier of images (height, width, channels), stored so or flat in that order."""

    image: tuple[int, int, int]

    @classmethod
    def for_data(cls, shape: tuple[int, ...], classes: int, **options: Any) -> Self:
        """Images as the data states them; ``image`` states the shape of flat records."""
        image = image_shape(shape, options.pop("image", None))
        return cls(image=image, classes=classes, **options)

    def picture(self, record: Record, like: Array) -> Array:
        """One record's ``x`` as an image in the precision of ``like``."""
        return jnp.asarray(record["x"]).reshape(self.image).astype(like.dtype)


@dataclass(frozen=True, kw_only=True)
class CNN(ImageClassifier):
    """Convolutions with pooling, then dense layers, then one score for each class."""

    filters: tuple[int, ...] = (4, 8)
    kernel: int = 4
    pool: int = 2
    hidden: tuple[int, ...] = (32,)
    activation: Activation = "relu"
    padding: Padding = "valid"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(kernel=self.kernel, pool=self.pool)
        for name, sizes in (("filters", self.filters), ("hidden", self.hidden)):
            for size in sizes:
                require_positive(**{name: size})
        self._flat_size()

    def init(self, key: Array) -> Params:
        """Weights that keep the size of signals, and zero biases."""
        channels = (self.image[2], *self.filters)
        sizes = (self._flat_size(), *self.hidden, self.classes)
        plan = {
            f"conv{i}": conv_plan(self.kernel, *pair)
            for i, pair in enumerate(itertools.pairwise(channels))
        }
        for i, pair in enumerate(itertools.pairwise(sizes)):
            plan[f"dense{i}"] = dense_plan(*pair, self.activation)
        return draw(key, plan)

    def output(self, params: Params, record: Record) -> Array:
        """One score for each class."""
        act = ACTIVATIONS[self.activation]
        x = self.picture(record, params["dense0"]["w"])
        for i in range(len(self.filters)):
            layer = params[f"conv{i}"]
            x = act(conv2d(x, layer["w"], padding=self.padding) + layer["b"])
            x = max_pool(x, self.pool)
        x = jnp.ravel(x)
        for i in range(len(self.hidden)):
            x = act(dense(params[f"dense{i}"], x))
        return dense(params[f"dense{len(self.hidden)}"], x)

    def _flat_size(self) -> int:
        rows, columns, channels = self.image
        for count in self.filters:
            rows = output_size(rows, self.kernel, 1, self.padding) // self.pool
            columns = output_size(columns, self.kernel, 1, self.padding) // self.pool
            channels = count
            if min(rows, columns) < 1:
                raise ConfigError(
                    f"images of {self.image[0]} x {self.image[1]} are too small for "
                    f"{len(self.filters)} convolutions of {self.kernel} with pooling "
                    f"{self.pool}: take fewer filters, a smaller kernel or padding 'same'."
                )
        return rows * columns * channels


@dataclass(frozen=True, kw_only=True)
class MobileNet(ImageClassifier):
    """A small MobileNet: blocks of (channels, stride), depthwise then pointwise, group norm.

    A stand-in for the MobileNet of AdaptDP-FedAvg's non-convex test, small enough for a CPU.
    """

    stem: int = 16
    blocks: tuple[tuple[int, int], ...] = ((32, 1), (64, 2), (64, 1), (128, 2))
    groups: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(stem=self.stem, groups=self.groups)
        for channels, stride in (*self.blocks, (self.stem, 1)):
            require_positive(channels=channels, stride=stride)
            if channels % self.groups:
                raise ConfigError(
                    f"{channels} channels do not divide into {self.groups} groups: "
                    "choose groups that divide stem and every block."
                )

    def init(self, key: Array) -> Params:
        """He's weights, unit scales and zero biases."""
        plan = {"stem": normed_conv_plan(3, self.image[2], self.stem)}
        channels = self.stem
        for i, (count, _) in enumerate(self.blocks):
            depth = Weights((3, 3, channels), math.sqrt(2 / 9))
            plan[f"depth{i}"] = {"w": depth, **norm_plan(channels)}
            plan[f"point{i}"] = normed_conv_plan(1, channels, count)
            channels = count
        return draw(key, {**plan, "head": dense_plan(channels, self.classes, "tanh")})

    def output(self, params: Params, record: Record) -> Array:
        """One score for each class."""
        x = self.picture(record, params["head"]["w"])
        x = conv2d(x, params["stem"]["w"], stride=2, padding="same")
        x = jax.nn.relu(group_norm(params["stem"], x, self.groups))
        for i, (_, stride) in enumerate(self.blocks):
            depth, point = params[f"depth{i}"], params[f"point{i}"]
            x = depthwise2d(x, depth["w"], stride=stride)
            x = jax.nn.relu(group_norm(depth, x, self.groups))
            x = conv2d(x, point["w"], padding="same")
            x = jax.nn.relu(group_norm(point, x, self.groups))
        return dense(params["head"], jnp.mean(x, axis=(0, 1)))


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


def conv_plan(kernel: int, inputs: int, outputs: int) -> dict[str, Weights]:
    """He's normal kernel and a zero bias."""
    spread = math.sqrt(2 / (kernel * kernel * inputs))
    return {"w": Weights((kernel, kernel, inputs, outputs), spread), "b": Weights((outputs,))}


def norm_plan(channels: int) -> dict[str, Weights]:
    """Unit scale and zero shift for each channel."""
    return {"scale": Weights((channels,), centre=1.0), "shift": Weights((channels,))}


def normed_conv_plan(kernel: int, inputs: int, outputs: int) -> dict[str, Weights]:
    """A kernel whose bias is the shift of the norm that follows."""
    return {"w": conv_plan(kernel, inputs, outputs)["w"], **norm_plan(outputs)}


def group_norm(layer: Params, x: Array, groups: int) -> Array:
    """Normalise groups of channels within one record (Wu and He 2018), then scale and shift."""
    rows, columns, channels = x.shape
    parts = x.reshape(rows * columns, groups, channels // groups)
    mean = jnp.mean(parts, axis=(0, 2), keepdims=True)
    spread = jnp.mean(jnp.square(parts - mean), axis=(0, 2), keepdims=True)
    normed = ((parts - mean) / jnp.sqrt(spread + 1e-5)).reshape(x.shape)
    out: Array = normed * layer["scale"] + layer["shift"]
    return out
