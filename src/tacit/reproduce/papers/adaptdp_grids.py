"""AdaptDP-FedAvg's whole grid on T1 (Table 3) and more clients (Table 4): paper 000."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tacit.reproduce.entry import Entry, Line, Printed, changed
from tacit.reproduce.papers.adaptdp import ADAPT, AVG, DELTA, LOSS, TABLE2_T1, printed_line
from tacit.reproduce.papers.adaptdp_tests import LEVELS, T1
from tacit.reproduce.summary import better

# step, radius: losses of DP-FedAvg at the three levels, then of AdaptDP-FedAvg
_TABLE3: dict[tuple[float, float], tuple[float, ...]] = {
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
}
# clients: the same six
_TABLE4: dict[int, tuple[float, ...]] = {
    4: (4.44e-6, 1.78e-5, 4.93e-5, 2.00e-7, 2.49e-6, 1.23e-5),
    6: (3.05e-6, 1.22e-5, 3.38e-5, 1.39e-7, 1.72e-6, 7.76e-6),
}


def _cell(step: float, radius: float, level: int, method: str) -> Line:
    line = printed_line(T1, level, method)
    name = "clip" if method == AVG else "max_radius"
    config = changed(line.config, {"algorithm.local_lr": step, f"algorithm.{name}": float(radius)})
    losses = _TABLE3[step, radius]
    return replace(
        line,
        row=f"step {step:g}, radius {radius:g}, {LEVELS[level]}",
        config=config,
        printed=Printed(losses[level + (0 if method == AVG else 3)]),
    )


TABLE3_T1 = Entry(
    name="adaptdp/table3-t1",
    title="Training loss at every point of the grid, T1 (Table 3)",
    claim="AdaptDP-FedAvg is better at equal step and radius (T1 artificial).",
    quantity=LOSS,
    lines=tuple(
        _cell(step, radius, level, method)
        for step, radius in _TABLE3
        for level in range(3)
        for method in (AVG, ADAPT)
    ),
    delta=DELTA,
    seeds=3,
    budgets=(),
    looks=1,
    judge=partial(better, first=ADAPT, second=AVG),
    finding=f"{TABLE2_T1.finding} Honest budgets stand with Table 2.",
    minutes=20,
)


def _clients(count: int, level: int, method: str) -> Line:
    line = printed_line(T1, level, method)
    return replace(
        line,
        row=f"{count} clients, {LEVELS[level]}",
        config=changed(line.config, {"data.clients": count}),
        printed=Printed(_TABLE4[count][level + (0 if method == AVG else 3)]),
    )


TABLE4_T1 = Entry(
    name="adaptdp/table4-t1",
    title="Training loss with four and six clients, T1 (Table 4)",
    claim="AdaptDP-FedAvg is better with four and six clients as well (T1 artificial).",
    quantity=LOSS,
    lines=tuple(
        _clients(count, level, method)
        for count in _TABLE4
        for level in range(3)
        for method in (AVG, ADAPT)
    ),
    delta=DELTA,
    seeds=3,
    budgets=(),
    looks=1,
    judge=partial(better, first=ADAPT, second=AVG),
    finding="Clients hold 1,500 records each, as with two. Honest budgets stand with Table 2.",
    minutes=5,
)

ENTRIES = (TABLE3_T1, TABLE4_T1)
