"""The works (benchmark tasks) as plain numbers that every side reads, and their data.

    W1   clients of few records, softmax regression, full-batch steps, clip, central noise
    W2   the same with a convolutional network of 5,046 parameters
    W3   two silos, random features: DP-SGD steps on newly drawn batches
    W3b  the same with the network of W2
    W4   dynamic local DP on a small logistic regression, every round one noisy gradient

This file needs only NumPy: each simulator imports it in its own environment. Parameters have the
same layout everywhere, that of Tacit's tasks: kernels (height, width, in, out), dense (in, out).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
Params = dict[str, Any]

FILTERS, KERNEL, POOL, HIDDEN, SIDE = (4, 8), 4, 2, 32, 28


@dataclass(frozen=True, kw_only=True)
class Work:
    """One work: clients, model, training, bound and noise."""

    name: str
    title: str
    kind: Literal["clients", "records", "local"]  # the protected unit, and where the noise is
    model: Literal["softmax", "cnn", "logistic"]
    clients: int
    cohort: int
    records: int
    features: int
    classes: int
    steps: int = 1
    batch: int | None = None
    lr: float = 0.1
    clip: float = 1.0
    noise: float = 1.0
    l2: float = 0.0
    rounds: int | None = None  # of the whole run, if the noise is allocated over it
    peers: tuple[str, ...] = ()
    seed: int = 0

    @property
    def parameters(self) -> int:
        """The number of parameters of the model."""
        return sum(leaf.size for leaf in leaves(start(self)))

    @property
    def flops(self) -> float:
        """Additions and multiplications in the matrix products of one round, in the usual form."""
        forward, backward = _flops(self)
        seen = self.cohort * self.steps * (self.batch or self.records)
        return seen * (forward + backward)


WORKS: dict[str, Work] = {
    work.name: work
    for work in (
        Work(
            name="W1",
            title="600 of 3,000 clients, softmax 784-10, 20 full-batch steps",
            kind="clients",
            model="softmax",
            clients=3000,
            cohort=600,
            records=20,
            features=784,
            classes=10,
            steps=20,
            clip=0.3,
            peers=("tacit-plain", "pfl", "pfl-threads", "fedjax", "flower"),
        ),
        Work(
            name="W2",
            title="1,000 clients of 60 images, CNN, 10 full-batch steps",
            kind="clients",
            model="cnn",
            clients=1000,
            cohort=1000,
            records=60,
            features=SIDE * SIDE,
            classes=10,
            steps=10,
            clip=0.3,
            peers=("pfl", "pfl-threads", "fedjax", "flower"),
        ),
        Work(
            name="W3",
            title="2 silos of 1,500, random features 512-10, 15 DP-SGD steps of 100",
            kind="records",
            model="softmax",
            clients=2,
            cohort=2,
            records=1500,
            features=512,
            classes=10,
            steps=15,
            batch=100,
            peers=("opacus", "opacus-threads"),
        ),
        Work(
            name="W3b",
            title="2 silos of 1,500, CNN, 15 DP-SGD steps of 100",
            kind="records",
            model="cnn",
            clients=2,
            cohort=2,
            records=1500,
            features=SIDE * SIDE,
            classes=10,
            steps=15,
            batch=100,
            peers=("opacus", "opacus-threads"),
        ),
        Work(
            name="W4",
            title="dynamic local DP, 20 workers of 100 records in 22 dimensions",
            kind="local",
            model="logistic",
            clients=20,
            cohort=20,
            records=100,
            features=22,
            classes=2,
            lr=0.25,
            clip=0.4,
            l2=0.1,
            rounds=20_000,
        ),
    )
}


def tiny(work: Work) -> Work:
    """The same work at a small size for quick tests."""
    clients = min(work.clients, 12)
    return replace(
        work,
        title=f"a small version of: {work.title}",
        clients=clients,
        cohort=min(work.cohort, 6 if work.cohort < work.clients else clients),
        records=min(work.records, 120),
        batch=min(work.batch, 20) if work.batch else None,
        steps=min(work.steps, 3),
        rounds=min(work.rounds, 200) if work.rounds else None,
    )


def silent(work: Work) -> Work:
    """A few clients, all with all records and without noise, so the result is unique."""
    clients = min(work.clients, 50 if work.model == "softmax" else 8)
    part = replace(work, clients=clients, cohort=clients, batch=None, noise=0.0)
    if work.kind == "records":  # the reference processes single records
        part = replace(part, records=min(work.records, 100), steps=min(work.steps, 5))
    return part


def data(work: Work) -> tuple[Floats, Floats]:
    """Features (clients, records, features) in float32, and labels by a linear rule."""
    rng = np.random.default_rng(work.seed)
    shape = (work.clients, work.records, work.features)
    if work.name == "W3":
        x = lifted(rng.random((*shape[:2], SIDE * SIDE), np.float32), work.features)
    elif work.model == "cnn":
        x = rng.random(shape, np.float32)
    else:
        x = rng.standard_normal(shape, np.float32) / np.float32(math.sqrt(work.features))
    rule = np.random.default_rng(work.seed + 1).standard_normal((work.features, work.classes))
    scores = (x - x.mean(dtype=np.float64)).astype(np.float32) @ rule.astype(np.float32)
    return x, np.argmax(scores, axis=-1).astype(np.int32)


def lifted(images: Floats, units: int) -> Floats:
    """Images after the frozen first layer of Tacit's random features, for seed 0."""
    layer = np.random.default_rng(0).standard_normal((images.shape[-1], units))
    return np.maximum(images @ (layer * math.sqrt(2 / units)).astype(np.float32), 0)


def start(work: Work) -> Params:
    """The initial model of every side."""
    if work.model == "logistic":
        return {"w": np.zeros(work.features)}
    if work.model == "softmax":
        return {"w": np.zeros((work.features, work.classes)), "b": np.zeros(work.classes)}
    rng = np.random.default_rng(7)
    shapes = {
        "conv0": (KERNEL, KERNEL, 1, FILTERS[0]),
        "conv1": (KERNEL, KERNEL, *FILTERS),
        "dense0": (_flat_size(), HIDDEN),
        "dense1": (HIDDEN, work.classes),
    }
    return {
        name: {
            "b": np.zeros(shape[-1]),
            "w": rng.standard_normal(shape) * math.sqrt(2 / math.prod(shape[:-1])),
        }
        for name, shape in shapes.items()
    }


def leaves(params: Params) -> list[Floats]:
    """The arrays in the order of their sorted names."""
    found: list[Floats] = []
    for _, value in sorted(params.items()):
        found += leaves(value) if isinstance(value, dict) else [np.asarray(value)]
    return found


def flat(params: Params) -> Floats:
    """All parameters as one vector."""
    return np.concatenate([np.ravel(leaf).astype(np.float64) for leaf in leaves(params)])


def _sizes() -> tuple[int, int]:
    """The side lengths of the images after each convolution with pooling."""
    first = (SIDE - KERNEL + 1) // POOL
    return first, (first - KERNEL + 1) // POOL


def _flat_size() -> int:
    return _sizes()[1] ** 2 * FILTERS[1]


def _flops(work: Work) -> tuple[float, float]:
    """Operations for one record in one step, forward and backward, without the input gradient."""
    if work.model != "cnn":
        forward = 2.0 * work.features * (work.classes if work.model == "softmax" else 1)
        return forward, forward
    first, second = SIDE - KERNEL + 1, _sizes()[0] - KERNEL + 1
    conv0 = 2.0 * first**2 * FILTERS[0] * KERNEL**2
    rest = 2.0 * second**2 * FILTERS[1] * KERNEL**2 * FILTERS[0]
    rest += 2.0 * (_flat_size() * HIDDEN + HIDDEN * work.classes)
    return conv0 + rest, conv0 + 2 * rest
