"""First-order scattering of images: local energies of oriented wavelets (Bruna and Mallat, 2013).

Each image is convolved with Morlet wavelets of 2 scales and 8 orientations; the modulus is blurred
and sampled on an 8 x 8 grid. The blurred image itself is channel 17. The wavelets are fixed, so
nothing is learnt. ``local_contrast`` divides each channel by the local energy and takes a square
root, so that faint and bold strokes get similar values.

Assumption: images of a known size, in which shapes matter more than absolute brightness.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tacit.errors import ConfigError

Images = NDArray[np.float32]  # (records, height, width), gray

SCALES, ORIENTATIONS, GRID = 2, 8, 8
CHANNELS = SCALES * ORIENTATIONS + 1
_CHUNK = 128  # images at once, small enough for the processor cache


def scattering(images: Images) -> Images:
    """(records, 17, 8, 8): channel 0 is the blurred image, then all orientations of each scale."""
    _, height, width = images.shape
    side = padded_side(height, width)
    parts = [
        _scattered(images[start : start + _CHUNK], side) for start in range(0, len(images), _CHUNK)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, CHANNELS, GRID, GRID), np.float32)


def padded_side(height: int, width: int) -> int:
    """The side of the square that contains an image, a multiple of the grid."""
    if min(height, width) < GRID:
        raise ConfigError(f"scattering needs images of at least {GRID} x {GRID} pixels.")
    return -(-max(height, width) // GRID) * GRID


def local_contrast(maps: Images, *, floor: float = 0.1) -> Images:
    """The square root of each entry divided by the local energy in all channels of its kind.

    ``floor`` is in units of the mean energy of the image, so flat regions stay near 0.
    """
    waves, blurred = maps[:, 1:], maps[:, :1]
    return np.concatenate([_contrasted(blurred, floor), _contrasted(waves, floor)], axis=1)


def _contrasted(maps: Images, floor: float) -> Images:
    energy = np.sqrt(np.mean(maps**2, axis=1, keepdims=True))
    around = _box(energy)
    level = np.mean(energy, axis=(2, 3), keepdims=True)
    ratio: Images = np.maximum(maps, 0) / (around + floor * level + 1e-9)
    return np.asarray(np.sqrt(ratio), np.float32)


def _box(energy: Images) -> Images:
    """The mean over 3 x 3 neighbours, with repeated borders."""
    wide = np.pad(energy, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    size = energy.shape[2]
    total = sum(wide[:, :, i : i + size, j : j + size] for i in range(3) for j in range(3))
    return np.asarray(np.asarray(total) / 9, np.float32)


def _scattered(images: Images, side: int) -> Images:
    square = np.zeros((len(images), side, side), np.float32)
    top, left = (side - images.shape[1]) // 2, (side - images.shape[2]) // 2
    square[:, top : top + images.shape[1], left : left + images.shape[2]] = images
    waves, blur = filters(side)
    sampled = np.empty((len(images), CHANNELS, GRID, GRID), np.float32)
    sampled[:, 0] = blur @ square @ blur.T
    spectrum = fft.fft2(square)
    for number, wave in enumerate(waves, 1):
        modulus = np.abs(fft.ifft2(spectrum * wave))
        sampled[:, number] = blur @ modulus @ blur.T
    return sampled


@functools.lru_cache(maxsize=8)
def filters(side: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The wavelets in the Fourier domain, and the blur of one axis to the grid."""
    omega = 2 * np.pi * np.fft.fftfreq(side)
    wy, wx = np.meshgrid(omega, omega, indexing="ij")
    waves = [
        _morlet(wx, wy, 0.8 * 2**j, 0.75 * np.pi / 2**j, math.pi * k / ORIENTATIONS)
        for j in range(SCALES)
        for k in range(ORIENTATIONS)
    ]
    step = side / GRID
    places = (np.arange(GRID) + 0.5) * step - 0.5
    blur = np.exp(-0.5 * ((np.arange(side)[None, :] - places[:, None]) / (0.5 * step)) ** 2)
    blur /= blur.sum(axis=1, keepdims=True)
    return np.stack(waves).astype(np.float32), blur.astype(np.float32)


def _morlet(
    wx: NDArray[np.float64], wy: NDArray[np.float64], sigma: float, xi: float, angle: float
) -> NDArray[np.float64]:
    """A Gaussian around the frequency xi, corrected so that a constant image gives 0."""
    along = wx * math.cos(angle) + wy * math.sin(angle)
    across = (-wx * math.sin(angle) + wy * math.cos(angle)) / 0.5  # slant: waves are elongated

    def bump(shift: float) -> NDArray[np.float64]:
        # Frequencies are periodic, so the copies on both sides are added.
        copies = [
            np.exp(-0.5 * sigma**2 * ((along - shift + a) ** 2 + across**2))
            for a in (-2 * np.pi, 0.0, 2 * np.pi)
        ]
        return np.sum(copies, axis=0)

    wave, ground = bump(xi), bump(0.0)
    found: NDArray[np.float64] = wave - wave[0, 0] / ground[0, 0] * ground
    return found
