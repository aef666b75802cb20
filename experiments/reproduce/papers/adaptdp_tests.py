"""The four tests of AdaptDP-FedAvg: data, models, noise levels, and the printed results."""

from __future__ import annotations

from dataclasses import dataclass, field

from experiments.reproduce.entry import Config
from experiments.theory.adaptdp import Silo

BATCH = 100
LEVELS = ("Lv.1", "Lv.2", "Lv.3")
# noise of DP-FedAvg, and the pair of AdaptDP-FedAvg; on means, in units of C, C and G^2
Noises = tuple[float, float, float]


@dataclass(frozen=True)
class Test:
    """One of the four tests of the paper."""

    name: str
    data: Config
    task: Config
    silo: Silo
    noises: tuple[Noises, Noises, Noises]
    # selected by the paper: (C, step) of DP-FedAvg and (G, step) of AdaptDP-FedAvg
    chosen: tuple[tuple[float, float, float, float], ...]
    printed: tuple[tuple[float, float, float, float], ...]  # loss, its std, loss, its std
    steps: tuple[float, ...]
    radii: tuple[float, ...]
    train: Config = field(default_factory=dict)


T1 = Test(
    name="T1 artificial",
    data={"name": "quadratic", "clients": 2, "reader": {"dimension": 100, "scale": 1.0}},
    task={"name": "quadratic"},
    silo=Silo(1500, BATCH, 150, 20),
    noises=((0.003, 0.0042, 0.00097), (0.006, 0.0078, 0.0021), (0.01, 0.012, 0.0043)),
    chosen=((0.5, 0.3, 1, 0.1), (0.5, 0.3, 3, 0.1), (0.5, 0.3, 3, 0.1)),
    printed=(
        (6.73e-6, 0.28e-6, 3.34e-7, 0.43e-7),
        (2.69e-5, 0.21e-5, 3.81e-6, 0.15e-6),
        (7.62e-5, 0.24e-5, 1.82e-5, 0.10e-5),
    ),
    steps=(0.01, 0.03, 0.1, 0.3),
    radii=(0.2, 0.5, 1.0, 3.0, 10.0),
    train={"dtype": "float64"},
)
T2 = Test(
    name="T2 Bank Marketing",
    data={"name": "bank-marketing", "split": "iid", "clients": 2},
    task={"name": "random-features", "units": 128},
    silo=Silo(18084, BATCH, 100, 226),
    noises=((0.006, 0.0077, 0.0025), (0.01, 0.0103, 0.0078), (0.03, 0.0524, 0.010)),
    chosen=((0.05, 0.03, 0.05, 0.03), (0.5, 0.03, 0.1, 0.03), (0.05, 0.03, 0.1, 0.03)),
    printed=(
        (0.313, 0.002, 0.312, 0.002),
        (0.312, 0.017, 0.312, 0.004),
        (0.313, 0.015, 0.313, 0.013),
    ),
    steps=(0.03, 0.1, 0.3),
    radii=(0.1, 0.5, 2.0),
)
_DIGIT_NOISES = ((0.003, 0.0041, 0.0011), (0.006, 0.0093, 0.0021), (0.01, 0.013, 0.0050))
T3 = Test(
    name="T3 MNIST",
    data={"name": "mnist", "split": "iid", "clients": 2, "take": 3000},
    task={"name": "random-features", "units": 512},
    silo=Silo(1500, BATCH, 100, 15),
    noises=_DIGIT_NOISES,
    chosen=((0.05, 0.3, 0.05, 0.3), (0.05, 0.3, 0.05, 0.3), (0.1, 0.1, 0.05, 0.3)),
    printed=(
        (4.84e-5, 0.10e-5, 4.25e-5, 0.41e-5),
        (5.57e-5, 0.31e-5, 4.38e-5, 0.53e-5),
        (4.06e-4, 1.44e-4, 4.02e-5, 0.09e-5),
    ),
    steps=(0.1, 0.3),
    radii=(0.05, 0.5),
)
T4 = Test(
    name="T4 Fashion-MNIST",
    data={"name": "fashion-mnist", "split": "iid", "clients": 2, "take": 3000},
    task={"name": "random-features", "units": 512},
    silo=Silo(1500, BATCH, 100, 15),
    noises=_DIGIT_NOISES,
    chosen=((0.05, 0.3, 0.1, 0.3), (0.5, 0.03, 0.1, 0.3), (0.1, 0.03, 0.05, 0.3)),
    printed=(
        (2.02e-2, 1.97e-2, 5.96e-5, 4.51e-5),
        (3.39e-2, 1.10e-2, 2.94e-4, 2.30e-4),
        (1.28e-1, 0.22e-1, 1.27e-1, 0.05e-1),
    ),
    steps=(0.1, 0.3),
    radii=(0.05, 0.5),
)
