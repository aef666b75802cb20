"""DP-NormFedAvg on images (arXiv:2106.07094, Table 2)."""

from __future__ import annotations

from functools import partial
from typing import Any

from experiments.reproduce.entry import Entry, Figure, Grid, Line, Printed, Quantity
from experiments.reproduce.papers.norm import BOUNDS, CLIP, NORM
from experiments.reproduce.summary import better

_ACCURACY = Quantity(
    metric="test/accuracy",
    label="test accuracy, last 5 rounds, %",
    over="mean of last",
    count=5,
    scale=100.0,
)
_COMPARED = ["epsilon 5", "epsilon 2", "honest budgets"]
_CLAIMED = "the same epsilon, rounds not given"


_GRID: Grid = {
    "algorithm.local_lr": (0.004, 0.02, 0.1, 0.5),
    "algorithm.scale": (15.625, 62.5),
}

# The smallest of the paper's radii was chosen nearly always, so honest budgets also try a smaller.
_WIDER: Grid = {**_GRID, "algorithm.scale": (3.90625, 15.625, 62.5)}


def _images(data: str, clients: int, method: str, epsilon: float, rounds: int) -> dict[str, Any]:
    return {
        "data": {"name": data, "split": "shards", "clients": clients, "labels_per_client": 5},
        "task": {"name": "multinomial", "l2": 1e-4},
        "privacy": {"epsilon": epsilon, "delta": 1e-5},
        "algorithm": {
            "name": "dp-norm-fedavg",
            "bound": BOUNDS[method],
            "scale": 62.5,
            "local_steps": 20,
            "local_lr": 0.02,
            "decay": 0.99,
            "server_ratio": 0.5,
            "server_momentum": 0.8,
            "cohort_rate": 0.2,
        },
        "train": {"rounds": rounds},
    }


def _table2(
    data: str, clients: int, printed: dict[tuple[str, float], tuple[float, float]], rounds: int
) -> tuple[Line, ...]:
    lines = [
        Line(
            row=f"epsilon {epsilon:g}",
            method=method,
            config=_images(data, clients, method, epsilon, rounds),
            printed=Printed(*numbers),
            grid=_GRID,
            stages=(None,),
            claimed=_CLAIMED,
        )
        for (method, epsilon), numbers in printed.items()
        if method in BOUNDS
    ]
    lines += [
        Line(
            row="honest budgets",
            method=method,
            config=_images(data, clients, method, 5.0, rounds),
            grid=_WIDER,
            stages=(1.0, 8.0),
        )
        for method in BOUNDS
    ]
    plain = _images(data, clients, CLIP, 5.0, rounds)
    plain["privacy"] = "none"
    plain["algorithm"] |= {"scale": 1e6}
    return (
        *lines,
        Line(
            row="no privacy",
            method="FedAvg",
            config=plain,
            printed=Printed(*printed["FedAvg", float("inf")]),
            grid={"algorithm.local_lr": (0.02, 0.1, 0.4, 1.6)},
            stages=(None,),
        ),
    )


_FMNIST = {
    (CLIP, 5.0): (75.59, 0.04),
    (NORM, 5.0): (77.72, 0.10),
    (CLIP, 2.0): (57.42, 0.08),
    (NORM, 2.0): (58.32, 0.12),
    ("FedAvg", float("inf")): (83.43, 0.02),
}
_CIFAR10 = {
    (CLIP, 5.0): (82.63, 0.13),
    (NORM, 5.0): (84.21, 0.19),
    (CLIP, 2.0): (81.64, 0.15),
    (NORM, 2.0): (82.53, 0.24),
    ("FedAvg", float("inf")): (85.64, 0.06),
}

TABLE2_FMNIST = Entry(
    name="norm/table2-fmnist",
    title="Test accuracy on Fashion-MNIST over 3,000 clients (Table 2a)",
    claim="Normalising is more accurate than clipping on Fashion-MNIST.",
    quantity=_ACCURACY,
    lines=_table2("fashion-mnist", 3000, _FMNIST, 100),
    delta=1e-5,
    seeds=3,
    budgets=(1.0, 8.0),
    looks=1,
    judge=partial(better, first=NORM, second=CLIP, rows=_COMPARED),
    needs=("fashion-mnist",),
    finding=(
        "The paper does not give the number of rounds, and this decides the noise. We use 100,"
        " after which the step has decayed to 0.37 of the first. The grids are thinned. Without"
        " privacy we come close to the printed accuracy (83.29 against 83.43). With privacy the"
        " printed ones are far below what exact noise for the stated budgets gives (2.0 on the sum"
        " at epsilon 5 and 4.2 at 2, in units of C), and no number of rounds explains it: the step"
        " shrinks by 0.99 per round, so more than about 300 rounds change little; 500 rounds would"
        " need noise of 4.1 and 9.0, and with 7.6 (the column of epsilon 1) both methods still"
        " reach nearly 80 %. The paper's noise was several times what its budgets need: see"
        " norm/table2-fmnist-noise. Most chosen steps are inside the grid (it was widened after the"
        " first results were seen), but the chosen radius is nearly always the smallest that the"
        " paper tries (15.625). So the honest budgets also try a fourth of it, which brings"
        " clipping closer (1.5 points behind without it at epsilon 1, 0.3 with it), because below"
        " the norm of every update the two methods are equal. Clipping uses this corner of the grid"
        " (radius 3.9, step 0.5) at both budgets."
    ),
    minutes=20,
)

TABLE2_CIFAR10 = Entry(
    name="norm/table2-cifar10",
    title="Test accuracy on CIFAR-10 features over 5,000 clients (Table 2b)",
    claim="Normalising is more accurate than clipping on CIFAR-10 features.",
    quantity=_ACCURACY,
    lines=_table2("cifar10-features", 5000, _CIFAR10, 100),
    delta=1e-5,
    seeds=3,
    budgets=(1.0, 8.0),
    looks=1,
    judge=partial(better, first=NORM, second=CLIP, rows=_COMPARED),
    needs=("cifar10-features",),
    finding=(
        "The paper uses 512 features of a ResNet-18; ours are 1,280 of another public ImageNet"
        " network (EfficientNet-Lite0), so only the order of the methods can be compared. There are"
        " 100 rounds, as on Fashion-MNIST, and with exact noise for the stated budgets both methods"
        " are within 1.3 points of the printed accuracies. FedAvg uses the largest step of its"
        " grid. As on Fashion-MNIST, a radius below the paper's smallest (also tried at the honest"
        " budgets) brings clipping closer: 0.25 points behind at epsilon 1 (0.8 without it). At"
        " epsilon 8 normalising keeps its advantage (1.35 points), because there a radius of 62.5"
        " is best for it."
    ),
    minutes=30,
)


# In the theorem the noise is proportional to 1 / epsilon: the second is 5 / 2 times the first.
_NOISES = (16.0, 40.0)


def _noised(method: str, noise: float) -> Line:
    config = _images("fashion-mnist", 3000, method, 5.0, 100)
    config["privacy"] = {"noise": noise, "delta": 1e-5}
    return Line(
        row=f"noise {noise:g}",
        method=method,
        config=config,
        grid=_GRID,
        x=noise,
    )


NOISE_FMNIST = Entry(
    name="norm/table2-fmnist-noise",
    title="Which noise gives the printed accuracies on Fashion-MNIST",
    claim="The printed accuracies are those of the stated budgets.",
    quantity=_ACCURACY,
    lines=tuple(_noised(method, noise) for noise in _NOISES for method in BOUNDS),
    delta=1e-5,
    seeds=3,
    budgets=(),
    looks=1,
    needs=("fashion-mnist",),
    figures=(
        Figure(
            name="noise",
            title="Test accuracy over the noise on the sum, in units of C",
            xlabel="noise",
            ylabel="test accuracy, %",
            log="x",
        ),
    ),
    finding=(
        "With 100 rounds the accuracies printed for epsilon 5 correspond to a noise of about 16,"
        " which truly gives an epsilon of 0.44; those printed for epsilon 2 correspond to a noise"
        " above 40, an epsilon below 0.16. The paper used far more noise than its claimed budgets"
        " need. At such noise the two bounds are equal: the best C is below nearly every update, so"
        " clipping is the same as normalising."
    ),
    minutes=6,
)

ENTRIES = (TABLE2_FMNIST, NOISE_FMNIST, TABLE2_CIFAR10)
