"""DP-ScaffNew: "Balancing Privacy and Performance ...", arXiv:2304.05127."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from experiments.reproduce.entry import Entry, Figure, Line, Quantity, Stage
from experiments.reproduce.summary import Answer, Cell, Summary, Verdict, difference

DELTA = 1e-5
NEW, AVG = METHODS = "DP-ScaffNew", "DP-FedAvg"
_LEARNT = 5.0  # percentage points above random guessing
_ACCURACY = Quantity(metric="test/accuracy", label="test accuracy, %", scale=100.0)


def printed_noise(communications: int, epsilon: float, v: float = 1.0) -> float:
    """sigma / C by the paper's theorem, whose constant v the paper does not give."""
    return math.sqrt(v * communications * math.log(1 / DELTA)) / epsilon


def configured(
    problem: dict[str, Any], method: str, steps: int, iterations: int, clip: float, step: float
) -> dict[str, Any]:
    """A method with ``steps`` local steps before each communication."""
    rounds = max(1, iterations // steps)
    if method == NEW:
        algorithm = {"name": "dp-scaffnew", "lr": step, "local_steps": steps, "clip": clip}
    else:
        algorithm = {
            "name": "dp-fedavg",
            "noise_at": "message",
            "local_lr": step,
            "local_steps": steps,
            "clip": clip,
        }
    return {
        **problem,
        "privacy": {"noise": printed_noise(rounds, 3.3), "delta": DELTA},
        "algorithm": algorithm,
        "train": {"rounds": rounds, **({"block": 50} if problem["data"]["clients"] > 50 else {})},
    }


def _mushrooms(clients: int) -> dict[str, Any]:
    return {
        "data": {
            "name": "mushrooms",
            "split": "iid",
            "clients": clients,
            "reader": {"unit_rows": True},
        },
        "task": {"name": "logistic", "l2": 0.01},
    }


CLIPS = (0.1, 1.0, 10.0)
_SMALL = (0.01, *CLIPS)
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200)
_LENGTHS = (10, 30, 100, 300, 1000)


def clipped_at(clip: float) -> str:
    """The name of a sweep with this clip."""
    return f"clip {clip:g}"


def named(method: str, series: str) -> str:
    """The name of a method's sweep."""
    return f"{method}, {series}"


def _interior(names: tuple[str, ...], summary: Summary) -> list[Verdict]:
    """The best row of each sweep; and for the best sweep, whether it is clearly inside."""
    return [_where(names, summary, stage) for stage in (None, *summary.entry.budgets)]


def _where(names: tuple[str, ...], summary: Summary, stage: Stage) -> Verdict:
    sweeps = dict[str, list[tuple[float, Cell]]]()
    for name in names:
        asked = _lines_of(summary, named(NEW, name), stage)
        cells = [(line.x or 0.0, summary.cell(line.row, line.method, stage)) for line in asked]
        found = [(x, cell) for x, cell in cells if cell is not None and not cell.failed]
        if len(found) < len(asked):
            return Verdict(stage, "not run", "")
        if found:
            sweeps[name] = found
    tops = {name: max(sweep, key=lambda point: point[1].mean) for name, sweep in sweeps.items()}
    best = max(tops, key=lambda name: tops[name][1].mean)
    sweep, top = sweeps[best], tops[best]
    if not summary.entry.quantity.learnt(top[1].mean):
        text = f"the best of all sweeps is {top[1].mean:.1f} %, little better than random guessing"
        return Verdict(stage, "no", text, "nothing learnt")
    ends = sweep[0], sweep[-1]
    gaps = [difference(top[1], end[1]) for end in ends]
    clear = all(gap > 2 * error for gap, error in gaps)
    answer: Answer = "yes" if clear else "not clear" if top not in ends else "no"
    text = "; ".join(
        f"{name}: best at {place[0]:g} ({place[1].mean:.1f} %)" for name, place in tops.items()
    )
    curve = ", ".join(f"{cell.mean:.1f} at {x:g}" for x, cell in sweep)
    text += f"; over the sweep at {best}: {curve}"
    return Verdict(stage, answer, text, f"best at {top[0]:g}")


def _lines_of(summary: Summary, method: str, stage: Stage) -> list[Line]:
    entry = summary.entry
    return [line for line in entry.lines if line.method == method and stage in entry.stages(line)]


def _line(row: str, x: float, method: str, clip: float, config: dict[str, Any]) -> Line:
    claimed = "(3.3, 1e-5), v not given"
    return Line(
        row=row, x=x, method=named(method, clipped_at(clip)), config=config, claimed=claimed
    )


def sweep(
    name: str,
    title: str,
    lines: tuple[Line, ...],
    what: str,
    names: tuple[str, ...],
    guess: float,
    panels: Mapping[str, tuple[str, ...]] | None = None,
    **more: Any,
) -> Entry:
    """An entry on an interior optimum of ``what``: its sweeps, and the accuracy of guessing."""
    return Entry(
        name=name,
        title=title,
        claim=f"There is an interior optimum in {what}.",
        quantity=replace(_ACCURACY, useless=guess + _LEARNT),
        lines=lines,
        delta=DELTA,
        judge=partial(_interior, names),
        figures=(
            Figure(
                name="sweep",
                title=f"Test accuracy over {what}",
                xlabel=what.removeprefix("the number of "),
                ylabel="test accuracy, %",
                log="x",
                panels=panels or {},
            ),
        ),
        **more,
    )


def over_steps(
    problem: dict[str, Any], lr: float, clips: tuple[float, ...] = CLIPS
) -> tuple[Line, ...]:
    """Lines over the number of local steps, 200 in total, with v = 1."""
    return tuple(
        _line(
            f"{steps} local steps",
            steps,
            method,
            clip,
            configured(problem, method, steps, 200, clip, lr),
        )
        for steps in _STEPS
        for method in METHODS
        for clip in clips
    )


def _over_iterations(
    problem: dict[str, Any], lr: float, clips: tuple[float, ...] = CLIPS
) -> tuple[Line, ...]:
    return tuple(
        _line(f"T = {total}", total, method, clip, configured(problem, method, 10, total, clip, lr))
        for total in _LENGTHS
        for method in METHODS
        for clip in clips
    )


NOTE = (
    "The paper's noise contains a constant v that it does not give. The paper's stage uses epsilon"
    " 3.3 and v = 1, which is about six times too little variance; the true epsilon of the row"
    " shows this."
)
_OURS = (
    " The paper gives neither the number of clients nor the clip of this experiment. We first used"
    " five, as in its other experiments, but there seeds differ by more than settings do"
    " (scaffnew/figure12-five-clients). So here, chosen after that, are 500 clients of 12 or 13"
    " records. The clip of 0.01 was added after 0.1, then the smallest, was best."
)

FIGURE12 = sweep(
    "scaffnew/figure12",
    "Local steps on mushrooms (Figure 12, left)",
    over_steps(_mushrooms(500), 2.0, _SMALL),
    "the number of local steps (mushrooms)",
    tuple(map(clipped_at, _SMALL)),
    50.0,
    seeds=5,
    needs=("mushrooms",),
    finding=NOTE + _OURS,
    minutes=20,
)
FIVE = sweep(
    "scaffnew/figure12-five-clients",
    "Local steps on mushrooms with five clients",
    over_steps(_mushrooms(5), 2.0),
    "the number of local steps (mushrooms, five clients)",
    tuple(map(clipped_at, CLIPS)),
    50.0,
    seeds=3,
    budgets=(),
    needs=("mushrooms",),
    finding=f"{NOTE} Seeds differ by more than settings do: see the standard deviations.",
    minutes=5,
)
FIGURE12_T = sweep(
    "scaffnew/figure12-iterations",
    "Total iterations on mushrooms (Figure 12, right)",
    _over_iterations(_mushrooms(500), 2.0, _SMALL),
    "the number of iterations T (mushrooms)",
    tuple(map(clipped_at, _SMALL)),
    50.0,
    seeds=5,
    needs=("mushrooms",),
    finding=f"Ten local steps. {NOTE}{_OURS}",
    minutes=15,
)

ENTRIES = (FIGURE12, FIGURE12_T, FIVE)
