"""The feature maps by name. Each is fixed before training, and says what it assumes.

A map takes the records' ``x`` of any number of records and gives new features, record by record.
One that is learnt (``projection``, ``centre``) is learnt on generated images that have gone through
the maps before it, so it still knows no private record.
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
        """The map for records of this raw shape that went through ``before`` first.

        ``digest`` names everything that comes before, to find what was learnt earlier.
        """
        del before, shape, digest
        return self


@dataclass(frozen=True, kw_only=True)
class Unit(FeatureMap):
    """Every record at norm 1."""

    assumes: ClassVar[str] = "the length of a record says nothing about its target"

    def apply(self, x: Features) -> Features:
        """x / |x|."""
        return unit_rows(x)


@dataclass(frozen=True, kw_only=True)
class Ranges(FeatureMap):
    """Numbers from their PUBLIC range to [-1, 1]; what lies outside is put on its edge."""

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
    """Numbers minus a PUBLIC mean, over a PUBLIC scale; nothing is put on an edge."""

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
    """Numbers to a power below 1, with their sign: a few large ones do not fill a unit record."""

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
    """A projection learnt on generated glyphs: "lda" tells classes apart, "pca" whitens."""

    kind: Literal["lda", "pca"] = "lda"
    dimensions: int = 128
    learnt: Learnt | None = None
    assumes: ClassVar[str] = "what tells generated stroke glyphs apart also tells records apart"

    def apply(self, x: Features) -> Features:
        """(x - mean) @ matrix."""
        if self.learnt is None:
            raise ConfigError("the projection is learnt when the maps are put together.")
        return apply_learnt(self.learnt, x)

    def settled(self, before: Before, shape: tuple[int, ...], digest: str) -> FeatureMap:
        """The projection learnt on glyphs of the images' size, or read from the cache."""
        found = learn(self.kind, self.dimensions, before, image_shape(shape), digest)
        return Projection(kind=self.kind, dimensions=self.dimensions, learnt=found)


@dataclass(frozen=True, kw_only=True)
class Centre(FeatureMap):
    """Minus the mean of the same features of generated glyphs."""

    learnt: Learnt | None = None
    assumes: ClassVar[str] = "the mean of generated glyphs is near the mean of the records"

    def apply(self, x: Features) -> Features:
        """x - mean."""
        if self.learnt is None:
            raise ConfigError("the centre is learnt when the maps are put together.")
        flat = np.asarray(x, np.float32).reshape(len(x), -1)
        return flat - np.asarray(self.learnt.mean, np.float32)

    def settled(self, before: Before, shape: tuple[int, ...], digest: str) -> FeatureMap:
        """The centre of glyphs of the images' size."""
        return Centre(learnt=centre_of(before, image_shape(shape), digest))


@dataclass(frozen=True, kw_only=True)
class Network(FeatureMap):
    """Your own frozen network: ``path = "package.module:function"`` from records to features."""

    path: str
    assumes: ClassVar[str] = "the network was trained on public data only"

    def apply(self, x: Features) -> Features:
        """What the function gives, one row a record."""
        found = np.asarray(self._function()(x))
        if len(found) != len(x) or found.dtype.kind != "f" or not np.isfinite(found).all():
            raise ConfigError(
                f"the function {self.path!r} must give one finite row of floats for each record."
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
        raise ConfigError(f"records of {shape[0]} numbers are no square images.")
    return side, side


def as_images(x: Features) -> NDArray[np.float32]:
    """Gray images (records, height, width); colours are averaged."""
    height, width = image_shape(x.shape[1:])
    images = np.asarray(x, np.float32).reshape(len(x), height, width, -1)
    return np.asarray(images.mean(axis=3), np.float32)
