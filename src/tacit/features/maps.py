"""The feature maps by name. Each map is fixed before training and states its assumption.

A map turns ``x`` of any number of records into new features, record by record. A learnt map
(``projection``, ``centre``) is learnt on generated images to which the maps before it were applied,
so it does not depend on private records.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ConfigError
from tacit.features.projection import Learnt, apply_learnt, centre_of, learn
from tacit.features.scattering import local_contrast, scattering
from tacit.record_maps import unit_rows

Features = NDArray[np.generic]
Before = Callable[[Features], Features]


class FeatureMap(ABC):
    """A fixed map of records; concrete maps are frozen dataclasses of plain values."""

    assumes: ClassVar[str]

    @abstractmethod
    def apply(self, x: Features) -> Features:
        """The features of each record."""

    def settled(self, before: Before, shape: tuple[int, ...], digest: str) -> FeatureMap:
        """The map for records of this raw shape, after ``before`` was applied to them.

        ``digest`` identifies the maps before, as a key for the cache.
        """
        del before, shape, digest
        return self


@dataclass(frozen=True, kw_only=True)
class Unit(FeatureMap):
    """Every record scaled to norm 1."""

    assumes: ClassVar[str] = "the length of a record says nothing about its target"

    def apply(self, x: Features) -> Features:
        """x / |x|."""
        return unit_rows(x)


@dataclass(frozen=True, kw_only=True)
class Ranges(FeatureMap):
    """Scales numbers from their PUBLIC range to [-1, 1]; values outside the range are clipped."""

    low: float | tuple[float, ...] = 0.0
    high: float | tuple[float, ...] = 1.0
    assumes: ClassVar[str] = "the ranges are known without looking at the records"

    def apply(self, x: Features) -> Features:
        """2 (x - low) / (high - low) - 1, clipped."""
        low, high = np.asarray(self.low), np.asarray(self.high)
        if not (high > low).all():
            raise ConfigError("the feature map 'ranges' needs every high above its low.")
        put = np.clip(2 * (x.astype(np.float64) - low) / (high - low) - 1, -1, 1)
        return np.asarray(put, np.float32)


@dataclass(frozen=True, kw_only=True)
class Standard(FeatureMap):
    """Subtracts a PUBLIC mean and divides by a PUBLIC scale; nothing is clipped."""

    mean: float | tuple[float, ...] = 0.0
    scale: float | tuple[float, ...] = 1.0
    assumes: ClassVar[str] = "mean and scale are known without looking at the records"

    def apply(self, x: Features) -> Features:
        """(x - mean) / scale."""
        scale = np.asarray(self.scale)
        if not (np.isfinite(scale) & (scale > 0)).all():
            raise ConfigError("the feature map 'standard' needs every scale above 0.")
        return np.asarray((x.astype(np.float64) - np.asarray(self.mean)) / scale, np.float32)


@dataclass(frozen=True, kw_only=True)
class Power(FeatureMap):
    """A power below 1 of each number (with its sign), so that large numbers do not dominate."""

    exponent: float = 0.5
    assumes: ClassVar[str] = "nothing: each number is mapped alone"

    def apply(self, x: Features) -> Features:
        """sign(x) |x|^exponent."""
        if not 0 < self.exponent <= 1:
            raise ConfigError("the feature map 'power' needs an exponent above 0, at most 1.")
        numbers = x.astype(np.float64)
        return np.asarray(np.sign(numbers) * np.abs(numbers) ** self.exponent, np.float32)


@dataclass(frozen=True, kw_only=True)
class Scattering(FeatureMap):
    """First-order scattering of images, 17 x 8 x 8 numbers, with local contrast."""

    contrast: bool = True
    assumes: ClassVar[str] = "records are pictures whose shapes matter, not their brightness"

    def apply(self, x: Features) -> Features:
        """The scattering coefficients of the gray image, flat."""
        maps = scattering(as_images(x))
        if self.contrast:
            maps = local_contrast(maps)
        return maps.reshape(len(maps), -1)


@dataclass(frozen=True, kw_only=True)
class RandomFourier(FeatureMap):
    """Random Fourier features of the Gaussian kernel (Rahimi and Recht, 2007)."""

    dimensions: int = 512
    width: float = 1.0
    seed: int = 0
    assumes: ClassVar[str] = "records closer than the width are alike"

    def apply(self, x: Features) -> Features:
        """sqrt(2/D) cos(x W + b) with W of variance 1/width^2."""
        flat = np.asarray(x, np.float32).reshape(len(x), -1)
        rng = np.random.default_rng(self.seed)
        weights = rng.standard_normal((flat.shape[1], self.dimensions)) / self.width
        phases = rng.uniform(0, 2 * np.pi, self.dimensions)
        waves = np.cos(flat @ weights.astype(np.float32) + phases.astype(np.float32))
        return np.asarray(np.sqrt(2 / self.dimensions) * waves, np.float32)


@dataclass(frozen=True, kw_only=True)
class Projection(FeatureMap):
    """A projection learnt on generated glyphs: "lda" separates classes, "pca" whitens."""

    kind: Literal["lda", "pca"] = "lda"
    dimensions: int = 128
    learnt: Learnt | None = None
    assumes: ClassVar[str] = "what tells generated stroke glyphs apart also tells records apart"

    def apply(self, x: Features) -> Features:
        """(x - mean) @ matrix."""
        if self.learnt is None:
            raise ConfigError("a projection can be used only in a list of feature maps.")
        return apply_learnt(self.learnt, x)

    def settled(self, before: Before, shape: tuple[int, ...], digest: str) -> FeatureMap:
        """The projection, learnt on glyphs of the image size or read from the cache."""
        found = learn(self.kind, self.dimensions, before, image_shape(shape), digest)
        return Projection(kind=self.kind, dimensions=self.dimensions, learnt=found)


@dataclass(frozen=True, kw_only=True)
class Centre(FeatureMap):
    """Subtracts the mean of the same features of generated glyphs."""

    learnt: Learnt | None = None
    assumes: ClassVar[str] = "the mean of generated glyphs is near the mean of the records"

    def apply(self, x: Features) -> Features:
        """x - mean."""
        if self.learnt is None:
            raise ConfigError("a centre can be used only in a list of feature maps.")
        flat = np.asarray(x, np.float32).reshape(len(x), -1)
        return flat - np.asarray(self.learnt.mean, np.float32)

    def settled(self, before: Before, shape: tuple[int, ...], digest: str) -> FeatureMap:
        """The mean of glyphs of the image size."""
        return Centre(learnt=centre_of(before, image_shape(shape), digest))


@dataclass(frozen=True, kw_only=True)
class Network(FeatureMap):
    """Your own frozen network: a function ``path = "package.module:function"`` on records."""

    path: str
    assumes: ClassVar[str] = "the network was trained on public data only"

    def apply(self, x: Features) -> Features:
        """The output of the function, one row per record."""
        found = np.asarray(self._function()(x))
        if len(found) != len(x) or found.dtype.kind != "f" or not np.isfinite(found).all():
            raise ConfigError(
                f"the function {self.path!r} must return one row of finite floats per record."
            )
        return found

    def _function(self) -> Callable[[Features], Any]:
        module, sign, name = self.path.partition(":")
        try:
            function: Callable[[Features], Any] = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(f"the network {self.path!r} cannot be found ({error}).") from None
        if not sign or not callable(function):
            raise ConfigError(f"the network {self.path!r} is not of the form module:function.")
        return function


MAPS: dict[str, type[FeatureMap]] = {
    "centre": Centre,
    "network": Network,
    "projection": Projection,
    "random-fourier": RandomFourier,
    "ranges": Ranges,
    "standard": Standard,
    "power": Power,
    "scattering": Scattering,
    "unit": Unit,
}


def image_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of records of this shape; flat ones must be squares."""
    if len(shape) >= 2:
        return shape[0], shape[1]
    side = round(float(np.sqrt(shape[0])))
    if side * side != shape[0]:
        raise ConfigError(f"records of {shape[0]} numbers are not square images.")
    return side, side


def as_images(x: Features) -> NDArray[np.float32]:
    """Gray images (records, height, width); colours are averaged."""
    height, width = image_shape(x.shape[1:])
    images = np.asarray(x, np.float32).reshape(len(x), height, width, -1)
    return np.asarray(images.mean(axis=3), np.float32)
