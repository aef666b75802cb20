"""A small MobileNet: depthwise separable convolutions with group normalisation.

Batch normalisation mixes records and has no per-record gradient, so no network here has it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from tacit.errors import ConfigError
from tacit.tasks.base import Params, Record, require_positive
from tacit.tasks.cnn import ImageClassifier, conv_plan
from tacit.tasks.conv import conv2d, depthwise2d
from tacit.tasks.initial import Weights, draw
from tacit.tasks.mlp import dense, dense_plan


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
