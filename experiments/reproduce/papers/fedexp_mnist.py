"""DP-FedEXP on MNIST over 1,000 clients: Table 4 and the right half of Figure 2 of paper 003."""

from __future__ import annotations

from functools import partial

from experiments.reproduce.entry import Entry, Figure, Line, Printed, Quantity, Stage
from experiments.reproduce.papers.fedexp import (
    AVG,
    CENTRAL,
    CLAIMED,
    DELTA,
    EXP,
    FIGURE3,
    LOCAL,
    ROUNDS,
    SCAFFOLD,
    UNIT,
    synthetic,
)
from experiments.reproduce.summary import better

_TABLE4: dict[tuple[str, str], tuple[float, float, float, float]] = {
    # printed mean, standard deviation, local step, clip radius (Table 2 as far as it is readable,
    # but for the radius of LOCAL, AVG: see the finding)
    (LOCAL, EXP): (80.24, 0.94, 0.03, 0.3),
    (LOCAL, AVG): (78.69, 1.26, 0.1, 0.3),
    (LOCAL, SCAFFOLD): (66.89, 2.29, 0.03, 0.1),
    (UNIT, EXP): (79.65, 1.23, 0.03, 0.3),
    (UNIT, AVG): (78.40, 1.18, 0.03, 0.3),
    (UNIT, SCAFFOLD): (56.83, 3.95, 0.03, 0.1),
    (CENTRAL, EXP): (94.57, 0.19, 0.1, 0.3),
    (CENTRAL, AVG): (92.88, 0.29, 0.1, 1.0),
    (CENTRAL, SCAFFOLD): (86.61, 0.52, 0.1, 0.3),
}
_LARGE = {"name": "cnn", "start": "torch"}
_SMALL = {"name": "small-cnn", "activation": "none", "start": "torch"}
_PIXELS = {"name": "standard", "mean": 0.1307, "scale": 0.3081}
_HONEST = {f"task.{key}": value for key, value in _SMALL.items()} | {"train.rounds": 20}


def _mnist(row: str, method: str) -> Line:
    mean, std, step, clip = _TABLE4[row, method]
    like = synthetic(row, method)
    stages: tuple[Stage, ...] = (None, 8.0)
    controls = {"controls": "shortened"} if (row, method) == (CENTRAL, SCAFFOLD) else {}
    return Line(
        row=row,
        method=method,
        config={
            "data": {
                "name": "mnist",
                "split": "dirichlet",
                "clients": 1000,
                "alpha": 0.3,
                "equal_sizes": True,
            },
            "features": [_PIXELS],
            "task": _LARGE if row == CENTRAL else _SMALL,
            "privacy": like.config["privacy"],
            "algorithm": {
                **like.config["algorithm"],
                "local_steps": 10,
                "local_lr": step,
                "clip": clip,
                **controls,
            },
            "train": {"rounds": ROUNDS},
        },
        printed=Printed(mean, std),
        honest={**like.honest, **_HONEST},
        stages=(None, 1.0, 2.0, 8.0) if row == CENTRAL else stages,
        claimed=CLAIMED[row] if row != CENTRAL else "15.261 / 15.258",
    )


TABLE4 = Entry(
    name="fedexp/table4",
    title="Test accuracy on MNIST over 1,000 clients (Table 4)",
    claim="DP-FedEXP is more accurate than DP-FedAvg on MNIST.",
    quantity=Quantity(
        metric="test/accuracy",
        label="test accuracy, last 5 rounds, %",
        over="mean of last",
        count=5,
        scale=100.0,
        useless=15.0,  # guessing has 10
    ),
    lines=tuple(_mnist(row, method) for row, method in _TABLE4),
    delta=DELTA,
    seeds=3,
    looks=1,
    keep=("test/accuracy", "server/step_size"),
    judge=partial(better, first=EXP, second=AVG),
    needs=("mnist",),
    figures=(
        Figure(
            name="accuracy",
            title="As printed",
            kind="rounds",
            metrics={"test/accuracy": ""},
            ylabel="test accuracy",
        ),
    ),
    finding=(
        "What the paper does not say was found by trying, on one seed of the same test set. Pixels"
        " are standardised and weights start as PyTorch's layers do: with plain pixels and a wider"
        " start (He's) DP-SCAFFOLD, LDP (Gaussian), ended at 61.6, 37.6 and 52.1 % with three"
        " seeds. The pairs of step and radius are read from a table that is garbled in the copy of"
        " the paper that we have; with the radius of 0.1 that it seems to give for DP-FedAvg, LDP"
        " (Gaussian), the model moves too little in 50 rounds (single runs with either start and"
        " either pixels ended between 49 and 69 %), so its radius here is 0.3, the next one of the"
        " paper's grid."
        " Whether the averages are over models of single rounds or of the last two iterates is not"
        " stated; we take the returned model of each round. The small network of the local rows has"
        " no activation behind its convolutions: the paper's Table 3 lists none there, and with a"
        " relu its only second filter can start dead. DP-SCAFFOLD keeps a client's control without"
        " the noise of its message; with it the noise of one round, ten times as long as the"
        " radius, fills the next update, and nothing was learnt. How its control treats the clip,"
        " which the paper does not say either, decides the central row: shortened like the messages"
        ' (`controls = "shortened"`) it has 93.5 % for a printed 86.61; summed from clipped'
        " changes, the default, which finds the optimum of a convex problem where the other does"
        " not (there is a test), it had 73.0 % (74.0, 78.4, 66.4), for it comes too late for a"
        " network's gradients. The rule was changed after these had been seen, and as 93.5 is far"
        " above the printed number, which rule the paper has stays open. The local rows keep the"
        " default."
        " The honest budgets take the paper's steps and radii, 20 rounds, and the small network in"
        " every row, for noise grows with the numbers of a message; the local rows are run at"
        " epsilon 8 alone. In the central row DP-FedEXP gains from less noise up to epsilon 2. At 8"
        " it is far behind DP-FedAvg (69.2 against 80.7): its step grows beyond 15 in some rounds,"
        " and from round 10 on accuracy swings between 38 and 85 %. Where nobody is trusted, the"
        " noise of a round's mean is at epsilon 8 many times as long as any update: PrivUnit learns"
        " nothing, and with Gaussian noise DP-FedEXP's step is 1 in most rounds and up to 6 in a"
        " few; that DP-FedAvg is ahead there comes most likely from the larger local step that the"
        " paper gives it (0.1 against 0.03), which was not tried for both."
    ),
    minutes=240,
)

FIGURE2_MNIST = TABLE4.view(
    name="fedexp/figure2-mnist",
    title="Test accuracy over the rounds on MNIST (right half of Figure 2)",
    claim="DP-FedEXP is ahead of DP-FedAvg in all rounds.",
    figures=TABLE4.figures,
)

FIGURE3_MNIST = TABLE4.view(
    name="fedexp/figure3-mnist",
    title="Global step sizes over the rounds on MNIST (right half of Figure 3)",
    claim="none on MNIST; the figure shows the steps.",
    figures=FIGURE3.figures,
)

ENTRIES = (TABLE4, FIGURE2_MNIST, FIGURE3_MNIST)
