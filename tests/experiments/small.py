"""An entry that runs in seconds: two methods on a small quadratic."""

from functools import partial
from typing import Any

from experiments.reproduce.entry import Entry, Figure, Line, Printed, Quantity
from experiments.reproduce.summary import better


def config(clip: float, rounds: int = 3) -> dict[str, Any]:
    return {
        "data": {"name": "quadratic", "clients": 2, "reader": {"dimension": 3, "records": 20}},
        "task": {"name": "quadratic"},
        "privacy": {"noise": 0.5, "delta": 1e-4},
        "algorithm": {
            "name": "dp-fedavg-record",
            "batches": "full",
            "local_steps": 1,
            "local_lr": 0.3,
            "clip": clip,
        },
        "train": {"rounds": rounds},
    }


def line(method: str, clip: float, grid: dict[str, tuple[float, ...]] | None = None) -> Line:
    return Line(
        row="row",
        method=method,
        config=config(clip),
        grid=grid or {},
        printed=Printed(1.0, 0.1),
        x=1.0,
        claimed="nothing",
    )


ENTRY = Entry(
    name="small/entry",
    title="A small entry",
    claim="First is better than second.",
    quantity=Quantity(metric="oracle/loss", label="training loss", better="low"),
    lines=(line("first", 0.5, {"algorithm.clip": (0.1, 0.5)}), line("second", 0.1)),
    delta=1e-4,
    seeds=2,
    budgets=(8.0,),
    looks=1,
    keep=("oracle/loss",),
    judge=partial(better, first="first", second="second"),
    figures=(
        Figure(name="rows", title="Rows"),
        Figure(name="panels", title="Panels", panels={"One of them": ("second",)}),
        Figure(name="r", title="Rounds", kind="rounds", metrics={"oracle/loss": ""}),
    ),
)
