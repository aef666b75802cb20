"""AdaptDP-FedAvg: the complete grids (Table 3), more clients (Table 4) and a network (Table 5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from experiments.reproduce.entry import Entry, Line, Printed, changed
from experiments.reproduce.papers.adaptdp import (
    ADAPT,
    AVG,
    DELTA,
    LOSS,
    TABLE2_T1,
    TABLE2_T2,
    TABLE2_T3,
    TABLE2_T4,
    printed_line,
)
from experiments.reproduce.papers.adaptdp_tests import LEVELS, T1, T2, T3, T4, Test
from experiments.reproduce.summary import better

Losses = tuple[float, ...]  # of DP-FedAvg at the three levels, then of AdaptDP-FedAvg

# (step, radius) -> losses
_TABLE3: dict[str, dict[tuple[float, float], Losses]] = {
    T1.name: {
        (0.1, 0.5): (3.88, 3.89, 3.91, 3.88, 3.92, 3.93),
        (0.1, 1): (8.11e-6, 3.24e-5, 9.01e-5, 3.34e-7, 4.72e-6, 2.34e-5),
        (0.1, 3): (6.77e-5, 2.71e-4, 7.53e-4, 5.02e-7, 3.81e-6, 1.82e-5),
        (0.1, 5): (1.88e-4, 7.52e-4, 2.09e-3, 2.48e-6, 1.82e-5, 5.30e-5),
        (0.3, 0.5): (6.73e-6, 2.69e-5, 7.62e-5, 4.29e-6, 9.13e-5, 1.14e-4),
        (0.3, 1): (2.80e-5, 1.12e-4, 3.15e-4, 3.96e-6, 1.69e-4, 2.56e-4),
        (0.3, 3): (2.52e-4, 1.01e-3, 2.83e-3, 3.69e-6, 1.66e-4, 2.49e-4),
        (0.3, 5): (2.80e-3, 2.80e-3, 7.86e-3, 3.94e-6, 1.61e-4, 2.40e-4),
        (0.5, 0.5): (1.36e-5, 5.44e-5, 1.61e-4, 1.37e-7, 1.77e-4, 2.27e-4),
        (0.5, 1): (5.08e-5, 2.04e-4, 6.19e-4, 1.36e-5, 6.20e-4, 8.91e-4),
        (0.5, 3): (4.57e-4, 1.84e-3, 5.59e-3, 1.18e-5, 6.80e-4, 1.09e-3),
        (0.5, 5): (1.27e-3, 5.10e-3, 1.55e-2, 7.85e-6, 5.99e-4, 8.85e-4),
    },
    T2.name: {
        (0.01, 0.1): (0.315, 0.316, 0.314, 0.315, 0.317, 0.314),
        (0.01, 0.5): (0.314, 0.316, 0.314, 0.314, 0.316, 0.314),
        (0.03, 0.05): (0.313, 0.314, 0.314, 0.312, 0.313, 0.314),
        (0.03, 0.1): (0.321, 0.313, 0.313, 0.315, 0.312, 0.313),
        (0.03, 0.5): (0.315, 0.312, 0.314, 0.315, 0.314, 0.314),
        (0.1, 0.05): (0.315, 0.314, 0.314, 0.314, 0.313, 0.315),
        (0.1, 0.1): (0.315, 0.314, 0.313, 0.315, 0.312, 0.316),
        (0.1, 0.5): (0.316, 0.314, 0.315, 0.315, 0.312, 0.316),
    },
    T3.name: {
        (0.1, 0.05): (6.91e-4, 5.96e-4, 5.62e-4, 4.49e-4, 3.49e-4, 5.70e-4),
        (0.1, 0.1): (1.54e-1, 2.86e-4, 4.06e-4, 3.27e-4, 2.22e-4, 2.51e-4),
        (0.1, 0.5): (7.80e-2, 7.98e-5, 1.28e-1, 2.63e-4, 2.03e-4, 9.16e-5),
        (0.3, 0.05): (4.84e-5, 5.57e-5, 7.79e-4, 4.25e-5, 3.38e-5, 4.02e-5),
        (0.3, 0.1): (4.57e-2, 3.10e-2, 9.31e-2, 4.30e-5, 3.97e-5, 4.96e-5),
        (0.3, 0.5): (2.97e-3, 4.40e-4, 6.32e-2, 2.04e-4, 4.04e-5, 8.36e-5),
    },
    T4.name: {
        (0.03, 0.05): (1.58e-1, 1.30e-1, 1.45e-1, 1.25e-1, 1.25e-1, 1.37e-1),
        (0.03, 0.1): (1.38e-1, 1.05e-1, 1.28e-1, 9.65e-2, 1.09e-1, 1.45e-1),
        (0.03, 0.5): (2.06e-2, 3.39e-2, 8.64e-1, 1.03e-2, 1.97e-2, 7.84e-1),
        (0.1, 0.05): (2.39e-1, 1.23e-1, 1.52e-1, 1.62e-1, 1.04e-1, 2.04e-1),
        (0.1, 0.1): (1.97e-1, 4.82e-2, 1.60e-1, 1.54e-1, 8.07e-2, 1.78e-1),
        (0.1, 0.5): (3.26e-2, 9.57e-3, 9.94e-1, 4.11e-4, 2.30e-3, 9.48e-1),
        (0.3, 0.05): (2.02e-2, 4.23e-2, 5.94e-1, 2.55e-2, 7.45e-2, 1.27e-1),
        (0.3, 0.1): (1.52e-2, 3.94e-2, 1.80e-1, 5.96e-5, 2.94e-4, 8.10e-1),
        (0.3, 0.5): (1.37e-1, 3.14e-1, 8.15e-1, 4.05e-4, 3.53e-3, 2.97e-1),
    },
}
_TABLE3_FINDINGS = {
    T1.name: (
        "We reproduce the printed losses of DP-FedAvg within a factor of 1.5 in 32 of 36 cells. The"
        " losses of 3.9 at step 0.1 and radius 0.5 (both methods) are those of models that had not"
        " converged after the last round, so the paper started further from the optimum; our start,"
        " at a distance of 9.7, converges. The value 2.80e-03 is printed for step 0.3 and radius 5"
        " at both Lv.1 and Lv.2, although half the noise should give a fourth of the loss: probably"
        " an error in the table. The losses of AdaptDP-FedAvg agree within a factor of 1.6 at step"
        " 0.1 with radii 3 and 5; at other points ours are between 4 times higher and 150 times"
        " lower. The printed ones hardly depend on the largest radius at steps 0.3 and 0.5. A lower"
        " limit of the radius would explain this; the paper does not give one."
    ),
    T2.name: (
        "The printed losses are between 0.312 and 0.321 at every step and radius. Ours depend on"
        " both, from 0.379 at step 0.01 and radius 0.1 to 0.693 at step 0.1 and radius 0.05, where"
        " no measurement is below the initial loss: with clipping of single records, training"
        " converges to another point, far from the minimum of the loss, and larger steps come"
        " closer to that point. The note on Table 2 explains this: the printed numbers are similar"
        " to those of clipped batch means, which hardly depend on the radius."
    ),
    T3.name: (
        "The two methods differ by less than one percent at every point: the gradients of the"
        " records stay larger than these radii, so the measured radius stays at the largest allowed"
        " value (adaptdp/figure2-mnist) and both methods clip in the same way. The noise hardly"
        " matters at such epsilons. The note on Table 2 explains why the printed losses cannot be"
        " reached."
    ),
    T4.name: (
        "At equal step and radius the two methods differ by less than one percent everywhere, as on"
        " T3 and probably for the same reason. So where AdaptDP-FedAvg is better in Tables 2 and 4,"
        " the reason is the larger steps and radii that the paper chose for it, not the measured"
        " radius."
    ),
}
# clients -> losses
_TABLE4: dict[str, dict[int, Losses]] = {
    T1.name: {
        4: (4.44e-6, 1.78e-5, 4.93e-5, 2.00e-7, 2.49e-6, 1.23e-5),
        6: (3.05e-6, 1.22e-5, 3.38e-5, 1.39e-7, 1.72e-6, 7.76e-6),
    },
    T3.name: {
        4: (3.79e-5, 4.28e-5, 7.53e-5, 3.09e-5, 3.38e-5, 4.11e-5),
        6: (4.28e-4, 1.99e-3, 4.29e-3, 1.19e-3, 1.60e-3, 4.51e-3),
    },
    T4.name: {
        4: (4.96e-5, 5.75e-2, 5.98e-2, 4.92e-5, 5.75e-2, 5.86e-2),
        6: (4.04e-5, 5.55e-2, 1.09e-1, 3.88e-5, 5.52e-2, 1.08e-1),
    },
}


def _printed(losses: Losses, level: int, method: str) -> Printed:
    return Printed(losses[level + (0 if method == AVG else 3)])


def _cell(test: Test, step: float, radius: float, level: int, method: str) -> Line:
    line = printed_line(test, level, method)
    name = "clip" if method == AVG else "max_radius"
    settings = {"algorithm.local_lr": step, f"algorithm.{name}": float(radius)}
    return replace(
        line,
        row=f"step {step:g}, radius {radius:g}, {LEVELS[level]}",
        config=changed(line.config, settings),
        printed=_printed(_TABLE3[test.name][step, radius], level, method),
    )


def _clients(test: Test, count: int, level: int, method: str) -> Line:
    """As many records per client as with two clients."""
    line = printed_line(test, level, method)
    more = {"data.clients": count}
    if "take" in test.data:
        more["data.take"] = count * test.silo.records
    return replace(
        line,
        row=f"{count} clients, {LEVELS[level]}",
        config=changed(line.config, more),
        printed=_printed(_TABLE4[test.name][count], level, method),
    )


def _entry(table2: Entry, number: int, lines: Iterable[Line], **more: Any) -> Entry:
    """Another table of the same test, as printed; the honest budgets are with Table 2."""
    return Entry(
        name=table2.name.replace("table2", f"table{number}"),
        quantity=LOSS,
        lines=tuple(lines),
        delta=DELTA,
        seeds=3,
        budgets=(),
        looks=table2.looks,
        judge=partial(better, first=ADAPT, second=AVG),
        needs=table2.needs,
        **more,
    )


_COLUMNS = tuple((level, method) for level in range(len(LEVELS)) for method in (AVG, ADAPT))


def _table3(test: Test, table2: Entry, minutes: float) -> Entry:
    points = _TABLE3[test.name]
    return _entry(
        table2,
        3,
        (_cell(test, *point, *column) for point in points for column in _COLUMNS),
        title=f"Training loss at every point of the grid, {test.name} (Table 3)",
        claim=f"AdaptDP-FedAvg is better at equal step and radius ({test.name}).",
        finding=(
            "The data and the honest budgets are described with Table 2."
            f" {_TABLE3_FINDINGS.get(test.name, '')}"
        ).strip(),
        minutes=minutes,
    )


def _table4(test: Test, table2: Entry, minutes: float) -> Entry:
    counts = _TABLE4[test.name]
    return _entry(
        table2,
        4,
        (_clients(test, count, *column) for count in counts for column in _COLUMNS),
        title=f"Training loss with four and six clients, {test.name} (Table 4)",
        claim=f"AdaptDP-FedAvg is better with four and six clients as well ({test.name}).",
        finding="Each client holds 1,500 records, as with two clients, and uses the hyperparameters"
        " that the paper chose for two clients. The honest budgets are with Table 2.",
        minutes=minutes,
    )


_TABLE5: Losses = (8.12e-5, 1.24e-4, 4.40e-5, 1.35e-4, 9.13e-5, 2.69e-5)


def _network(level: int, method: str) -> Line:
    line = printed_line(T3, level, method)
    name = "clip" if method == AVG else "max_radius"
    own = {"algorithm.local_lr": 0.3, f"algorithm.{name}": 0.05}
    config = {**changed(line.config, own), "task": {"name": "cnn"}}
    return replace(line, config=config, printed=_printed(_TABLE5, level, method))


TABLE5 = Entry(
    name="adaptdp/table5",
    title="Training loss of a network that is not convex (Table 5)",
    claim="AdaptDP-FedAvg is better with a network that is not convex (MNIST).",
    quantity=LOSS,
    lines=tuple(_network(*column) for column in _COLUMNS),
    delta=DELTA,
    seeds=3,
    budgets=(),
    looks=10,
    judge=partial(better, first=ADAPT, second=AVG),
    needs=("mnist",),
    finding=(
        "The paper trains a MobileNet. Here it is a small convolutional network, because its"
        " per-record gradients take minutes instead of hours; so only the order of the methods can"
        " be compared. Our loss ends near 1.2, because 1,500 steps of at most 0.015 do not change"
        " these weights further, and both methods differ by less than one percent, as on T3 with"
        " the frozen layer. In the paper's own numbers AdaptDP-FedAvg is worse at Lv.1. Table 6"
        " (time and memory of a round) is `experiments/studies/adaptdp_runtime.py`."
    ),
    minutes=15,
)

ENTRIES = (
    _table3(T1, TABLE2_T1, 20),
    _table3(T2, TABLE2_T2, 30),
    _table3(T3, TABLE2_T3, 15),
    _table3(T4, TABLE2_T4, 20),
    _table4(T1, TABLE2_T1, 1),
    _table4(T3, TABLE2_T3, 10),
    _table4(T4, TABLE2_T4, 10),
    TABLE5,
)
