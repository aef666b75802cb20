"""DP-ScaffNew on images: Figures 2, 3, 6, 7 and 10 of arXiv:2304.05127."""

from __future__ import annotations

from typing import Any

from experiments.reproduce.entry import Entry, Line, changed
from experiments.reproduce.papers.scaffnew import (
    CLIPS,
    METHODS,
    NOTE,
    clipped_at,
    configured,
    named,
    over_steps,
    printed_noise,
    sweep,
)

_V = 1e-5  # the constant v of the paper's noise, which the paper does not give
_BEST, _TOTAL = 100, 1_000
_STEPS = (5, 10, 20, 50, _BEST, 200, 500, _TOTAL)
_LENGTHS = (_BEST, 200, 500, _TOTAL, 2_000, 5_000)
_EPSILONS = _FIRST, *_ = 3.3, 2.0, 1.0, 0.5
_THEIR_CLIPS = _USUAL, *_ = 10.0, 50.0, 100.0
_SWEEPS = (
    *((_USUAL, epsilon) for epsilon in _EPSILONS),
    *((clip, _FIRST) for clip in _THEIR_CLIPS[1:]),
)
_FIVE: dict[str, Any] = {
    "data": {
        "name": "cifar10-features",
        "split": "dirichlet",
        "alpha": 0.1,
        "equal_sizes": True,
        "clients": 5,
    },
    "task": {"name": "multinomial"},
}
_MANY: dict[str, Any] = {
    "data": {"name": "cifar10-features", "split": "iid", "clients": 500, "take": 10_000},
    "task": {"name": "multinomial", "l2": 1e-4},
}


def _series(clip: float, epsilon: float) -> str:
    return f"{clipped_at(clip)}, claimed {epsilon:g}"


def _lines(row: str, x: int, steps: int, total: int) -> tuple[Line, ...]:
    """Both methods at every clip and claimed epsilon; the usual clip at honest budgets too."""
    lines = []
    for method in METHODS:
        for clip, epsilon in _SWEEPS:
            config = configured(_FIVE, method, steps, total, clip, 0.1)
            noise = printed_noise(config["train"]["rounds"], epsilon, _V)
            changes = {"algorithm.batch_size": 64, "privacy.noise": noise}
            lines.append(
                Line(
                    row=row,
                    x=x,
                    method=named(method, _series(clip, epsilon)),
                    config=changed(config, changes),
                    honest={"algorithm.clip": 1.0},
                    stages=None if (clip, epsilon) == (_USUAL, _FIRST) else (None,),
                    claimed=f"({epsilon:g}, 1e-5), v not given",
                )
            )
    return tuple(lines)


_PANELS = {
    f"{method}, {what}, as printed": tuple(named(method, _series(*which)) for which in chosen)
    for what, chosen in (
        ("claimed epsilons", _SWEEPS[: len(_EPSILONS)]),
        ("clips", (_SWEEPS[0], *_SWEEPS[len(_EPSILONS) :])),
    )
    for method in METHODS
}
_STAND_IN = (
    "Five clients, minibatches of 64, clips of 10, 50 and 100 and claimed epsilons of 3.3, 2, 1 and"
    " 0.5 are from the paper. Three things differ: softmax regression on public features instead of"
    " a convolutional network, 1,000 steps of 0.1 instead of 10,000 of 0.01, and clients with few"
    " classes each (Dirichlet 0.1) instead of a random split. With five clients of 10,000 random"
    " images and a linear model, averaging once at the end is best, so there is no optimum to find."
    " An optimum was not clear with 5,000 or 25,000 clients at an honest epsilon of 8 either (these"
    f" trials were not kept). The paper does not give the constant v of its noise. {_V:g} is our"
    " choice: of 1e-6, 1e-5 and 1e-4, it is the one with both optima inside the sweep, on another"
    " seed. The true epsilon of the rows shows its effect. With it, the paper's order holds for"
    " DP-ScaffNew: a smaller claimed epsilon needs more local steps and fewer iterations (for"
    " DP-FedAvg only the former). That a larger clip needs more local steps holds for DP-FedAvg"
    " only. The honest budgets use a clip of 1: with the noise of five clients on 12,810 numbers,"
    " nothing is learnt at any of them."
)
_TOO_NOISY = (
    " This is softmax regression on public features: 200 full-batch steps on 20 records of each of"
    " 500 clients, and clips of 0.1, 1 and 10. There are many more clients than the paper's five,"
    " so that honest noise is averaged over more messages. Still there is no interior optimum: a"
    " message has 12,810 numbers, and with the noise of epsilon 8 for one communication the mean of"
    " 500 messages has an error of six radii. From the second communication on, the control"
    " variates contain the noise of each client, which dominates its next clipped message. So every"
    " further communication adds more noise than signal, and a single one is best. An interior"
    " optimum needs more clients or fewer numbers, as on mushrooms (scaffnew/figure12)."
)


def _five_clients(
    name: str, title: str, lines: tuple[Line, ...], what: str, finding: str = _STAND_IN
) -> Entry:
    names = tuple(_series(*which) for which in _SWEEPS)
    more: dict[str, Any] = {"seeds": 3, "needs": ("cifar10-features",), "minutes": 15}
    return sweep(name, title, lines, what, names, 10.0, _PANELS, finding=finding, **more)


FIGURE2 = _five_clients(
    "scaffnew/figure2-cifar10",
    "Local steps on CIFAR-10 at several clips and budgets (Figures 2, 6 and 7)",
    tuple(
        line for steps in _STEPS for line in _lines(f"{steps} local steps", steps, steps, _TOTAL)
    ),
    "the number of local steps (CIFAR-10)",
)
FIGURE3 = _five_clients(
    "scaffnew/figure3-cifar10",
    "Total iterations on CIFAR-10 at several clips and budgets (Figures 3 and 10)",
    tuple(line for total in _LENGTHS for line in _lines(f"T = {total}", total, _BEST, total)),
    "the number of iterations T (CIFAR-10)",
    f"{_BEST} local steps. {_STAND_IN}",
)
MANY = sweep(
    "scaffnew/figure2-cifar10-500-clients",
    "Local steps on CIFAR-10 with 500 clients",
    over_steps(_MANY, 0.1),
    "the number of local steps (CIFAR-10, 500 clients)",
    tuple(map(clipped_at, CLIPS)),
    10.0,
    seeds=3,
    needs=("cifar10-features",),
    finding=NOTE + _TOO_NOISY,
    minutes=45,
)

ENTRIES = (FIGURE2, FIGURE3, MANY)
