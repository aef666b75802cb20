"""One client's share of the noise of a secure sum, as whole numbers on a public grid.

A client rounds its bounded value to the grid and adds a discrete Gaussian with parameter 2^bits
steps. The sum of the shares of c honest clients is, for all that anybody can do with it, the
Gaussian mechanism on the sum of the rounded values (docs/explanation/secure-sums.md):

    1. A sum of c discrete Gaussians of parameter s is one of parameter s sqrt(c).
    2. A discrete Gaussian of parameter s is a normal number of variance s^2 - h^2, rounded at
       random without a look at the data.

Both hold up to factors of 1 + 2^-400 on every probability, as s is at least 2^6 steps and h is 4.
So the step is such that c shares together have the variance that is charged, and h^2 steps more:

    step = sigma (1 + slack) / sqrt(c 4^bits - h^2)

``slack`` covers that rounding to the grid moves neighbours apart by up to sqrt(d) steps, as in
``rounded``. The numbers are summed modulo 2^32 where the grid that allows costs less than 2^-9 of
the noise, else modulo 2^64. No sum of honest clients can overflow: the bounds of all values and the
largest draws of all clients together are below half the modulus.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.mechanisms.normals import REACH, Words, discrete_normals

H: Final = 4.0  # steps; see the proof
_LEAST_BITS, _MOST_BITS = 6, 50
_FINE, _ROUGH = 22, 12
_MOST = 2**51  # steps: up to here every whole number is a float


@dataclass(frozen=True)
class Grid:
    """The grid of one field: its step, the width of a share, the modulus, the largest sum."""

    step: float
    bits: int  # a share has the parameter 2^bits steps
    modulus: int  # as a power of two
    largest: int  # that the sum of all honest clients can be, in steps

    def share(self, values: NDArray[Any], words: Words | None = None) -> NDArray[np.int64]:
        """Bounded values on the grid, with this client's share of the noise."""
        scaled = np.nan_to_num(np.asarray(values, np.float64).reshape(-1) / self.step, nan=0.0)
        # A bounded value is inside; an error here would tell something of the data.
        whole = np.rint(np.clip(scaled, -_MOST, _MOST)).astype(np.int64)
        return whole + discrete_normals(whole.size, self.bits, words)

    def value(self, total: NDArray[np.int64]) -> NDArray[np.float64]:
        """An opened sum in the units of the values."""
        return total.astype(np.float64) * self.step


@dataclass(frozen=True, kw_only=True)
class Summands:
    """What is public about a sum: numbers in each value, bound, noise, clients, carriers."""

    numbers: int
    radius: float  # of one unit
    reach: float  # the largest sum of all values
    level: float  # noise over radius
    clients: int
    carriers: int  # honest clients that are in every sum
    slack: float = 0.0  # of sums of records in floating point

    def grid(self, modulus: int) -> Grid | None:
        """The finest grid with this modulus; None if it is too rough."""
        if not 0 < self.level < math.inf:
            raise TacitError(f"the noise is {self.level}; it must be positive.")
        fine = self._bits(_FINE)
        for bits in range(fine, self._bits(_ROUGH) - 1, -1):
            grid = self._with(bits, modulus)
            fits = grid.largest < 2 ** (modulus - 1) and self.reach / grid.step < _MOST
            if fits and bits <= _MOST_BITS:
                return grid
            if modulus == 64:
                break
        return None

    def _bits(self, digits: int) -> int:
        """The least bits with which rounding costs 2^-digits of the radius."""
        bits = _LEAST_BITS
        while self._rounding(bits) > 2.0**-digits:
            bits += 1
        return bits

    def _rounding(self, bits: int) -> float:
        """sqrt(d) + 1 steps, over the radius."""
        return (math.sqrt(self.numbers) + 1) * self.level / (math.sqrt(self.carriers) * 2.0**bits)

    def _with(self, bits: int, modulus: int) -> Grid:
        # Half of it is for the value itself, the rest for a release of a value with its norm.
        slack = 5 * self._rounding(bits) + self.slack
        sigma = self.level * self.radius * (1 + slack)
        step = sigma / math.sqrt(self.carriers * 4.0**bits - H * H)
        noise = self.clients * int(REACH) * 2**bits
        largest = math.ceil(self.reach / step * (1 + 2.0**-40)) + self.clients + noise
        return Grid(step, bits, modulus, largest)


def grids(fields: dict[str, Summands]) -> dict[str, Grid]:
    """The grids of all fields of a secure sum, with one modulus."""
    for modulus in (32, 64):
        found = {name: field.grid(modulus) for name, field in fields.items()}
        if all(grid is not None for grid in found.values()):
            return {name: grid for name, grid in found.items() if grid is not None}
    raise TacitError(
        "the numbers of this secure sum do not fit 64 bits: release fewer numbers, or use less"
        " noise."
    )
