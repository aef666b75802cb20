"""The images that are attacked: scikit-learn's digits, or MNIST if it is on this machine.

MNIST is taken at half its resolution, because an attacker inverts a matrix of all weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data import federate

RECORDS = 1400
Images = NDArray[np.float32]


@dataclass(frozen=True)
class Pool:
    """Records to draw from, all of ten classes; ``test`` is public."""

    x: Images
    y: NDArray[np.int64]
    test: dict[str, NDArray[Any]]

    @property
    def pixels(self) -> int:
        """The numbers of one image."""
        return int(self.x.shape[1])

    @property
    def side(self) -> int:
        """Images are square."""
        return math.isqrt(self.pixels)


def pool(name: str = "digits") -> Pool:
    """Some records of a dataset of the catalogue; MNIST needs TACIT_DATA."""
    found = federate(name, clients=1)
    assert found.test is not None

    def flat(x: NDArray[Any]) -> Images:
        rows = np.asarray(x, np.float32).reshape(len(x), -1)
        side = math.isqrt(rows.shape[1])
        if side > 16:
            rows = rows.reshape(len(x), side // 2, 2, side // 2, 2).mean(axis=(2, 4))
        return rows.reshape(len(x), -1)

    x, y = found.records["x"], found.records["y"]
    order = np.random.default_rng(0).permutation(len(x))[:RECORDS]
    test: dict[str, NDArray[Any]] = {
        "x": flat(found.test["x"]),
        "y": np.asarray(found.test["y"], np.int64),
    }
    return Pool(flat(x)[order], np.asarray(y, np.int64)[order], test)
