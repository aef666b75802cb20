"""DP-ScaffNew (anonymous, under review): paper 004."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tacit.reproduce.entry import Entry, Figure, Line, Quantity, Stage
from tacit.reproduce.summary import Answer, Cell, Summary, Verdict, difference

_DELTA = 1e-5
_NEW, _AVG = "DP-ScaffNew", "DP-FedAvg"
_ACCURACY = Quantity(metric="test/accuracy", label="test accuracy, %", scale=100.0)


def _printed_noise(communications: int, epsilon: float) -> float:
    """sigma / C of the paper's theorem with its unspecified constant v taken as 1."""
    return math.sqrt(communications * math.log(1 / _DELTA)) / epsilon


def _config(
    problem: dict[str, Any], method: str, steps: int, iterations: int, clip: float, step: float
) -> dict[str, Any]:
    rounds = max(1, iterations // steps)
    if method == _NEW:
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
        "privacy": {"noise": _printed_noise(rounds, 3.3), "delta": _DELTA},
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


_CIFAR: dict[str, Any] = {
    "data": {"name": "cifar10-features", "split": "iid", "clients": 500, "take": 10_000},
    "task": {"name": "multinomial", "l2": 1e-4},
}
_CLIPS = (0.1, 1.0, 10.0)
_SMALL = (0.01, *_CLIPS)
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200)
_LENGTHS = (10, 30, 100, 300, 1000)


def _named(method: str, clip: float) -> str:
    return f"{method}, clip {clip:g}"


def _interior(clips: tuple[float, ...], summary: Summary) -> list[Verdict]:
    """Where the best row of a sweep lies, for each clip; and at the best clip: clearly inside?"""
    verdicts = []
    for stage in (None, *summary.entry.budgets):
        found = [_sweep_of(summary, _named(_NEW, clip), stage) for clip in clips]
        sweeps = [sweep for sweep in found if sweep]
        if len(sweeps) < len(clips):
            verdicts.append(Verdict(stage, "not run", ""))
            continue
        tops = [max(sweep, key=lambda point: point[1].mean) for sweep in sweeps]
        number = max(range(len(tops)), key=lambda n: tops[n][1].mean)
        sweep, top = sweeps[number], tops[number]
        ends = sweep[0], sweep[-1]
        gaps = [difference(top[1], end[1]) for end in ends]
        clear = all(gap > 2 * error for gap, error in gaps)
        answer: Answer = "yes" if clear else "not clear" if top not in ends else "no"
        text = "; ".join(
            f"clip {clip:g}: best at {best[0]:g} ({best[1].mean:.1f} %)"
            for clip, best in zip(clips, tops, strict=True)
        )
        curve = ", ".join(f"{cell.mean:.1f} at {x:g}" for x, cell in sweep)
        text += f"; over the sweep at clip {clips[number]:g}: {curve}"
        verdicts.append(Verdict(stage, answer, text, f"best at {top[0]:g}"))
    return verdicts


def _sweep_of(summary: Summary, method: str, stage: Stage) -> list[tuple[float, Cell]]:
    lines = [line for line in summary.entry.lines if line.method == method]
    cells = [(line.x or 0.0, summary.cell(line.row, method, stage)) for line in lines]
    found = [(x, cell) for x, cell in cells if cell is not None and not cell.failed]
    return found if len(found) == len(lines) else []


def _line(row: str, x: float, method: str, clip: float, config: dict[str, Any]) -> Line:
    claimed = "(3.3, 1e-5), v not given"
    return Line(row=row, x=x, method=_named(method, clip), config=config, claimed=claimed)


def _entry(
    name: str,
    title: str,
    lines: tuple[Line, ...],
    what: str,
    clips: tuple[float, ...] = _CLIPS,
    **more: Any,
) -> Entry:
    return Entry(
        name=name,
        title=title,
        claim=f"There is an interior optimum in {what}.",
        quantity=_ACCURACY,
        lines=lines,
        delta=_DELTA,
        judge=partial(_interior, clips),
        figures=(
            Figure(
                name="sweep",
                title=f"Test accuracy over {what}",
                xlabel=what.removeprefix("the number of "),
                ylabel="test accuracy, %",
                log="x",
            ),
        ),
        **more,
    )


def _over_steps(
    problem: dict[str, Any], lr: float, clips: tuple[float, ...] = _CLIPS
) -> tuple[Line, ...]:
    return tuple(
        _line(
            f"{steps} local steps",
            steps,
            method,
            clip,
            _config(problem, method, steps, 200, clip, lr),
        )
        for steps in _STEPS
        for method in (_NEW, _AVG)
        for clip in clips
    )


def _over_iterations(
    problem: dict[str, Any], lr: float, clips: tuple[float, ...] = _CLIPS
) -> tuple[Line, ...]:
    return tuple(
        _line(f"T = {total}", total, method, clip, _config(problem, method, 10, total, clip, lr))
        for total in _LENGTHS
        for method in (_NEW, _AVG)
        for clip in clips
    )


_NOTE = (
    "The paper's noise contains a constant v that it does not give; its stage takes epsilon 3.3 and"
    " v = 1, which is about six times too little variance, and the true epsilon of the row says so."
)
_OURS = (
    " The paper gives neither the clients nor the clip of this experiment. We first took five, like"
    " its other experiments; there seeds differ by more than settings do"
    " (scaffnew/figure12-five-clients), so here, chosen after that, are 500 clients of 12 or 13"
    " records. The clip of 0.01 was added after 0.1, then the smallest, had come out best."
)
_STAND_IN = (
    " The paper trains a convolutional network for 10,000 minibatch steps, five clients and clips"
    " of 10, 50 and 100; here it is softmax regression on public features, 200 full-batch steps on"
    " 20 records of each of 500 clients, and clips of 0.1, 1 and 10: comparable in kind alone."
)

_TOO_NOISY = (
    " In this stand-in there is no optimum inside: a message has 12,810 numbers, and with the noise"
    " of epsilon 8 for one communication the mean of 500 messages is off by six radii, so every"
    " further communication adds more noise than signal and the best is a single one. The optimum"
    " inside needs more clients or fewer numbers, as on mushrooms (scaffnew/figure12)."
)

FIGURE12 = _entry(
    "scaffnew/figure12",
    "Local steps on mushrooms (Figure 12, left)",
    _over_steps(_mushrooms(500), 2.0, _SMALL),
    "the number of local steps",
    _SMALL,
    seeds=5,
    needs=("mushrooms",),
    finding=_NOTE + _OURS,
    minutes=20,
)
FIVE = _entry(
    "scaffnew/figure12-five-clients",
    "Local steps on mushrooms with five clients",
    _over_steps(_mushrooms(5), 2.0),
    "the number of local steps (five clients)",
    seeds=3,
    budgets=(),
    needs=("mushrooms",),
    finding=f"{_NOTE} Seeds differ by more than settings do: look at the spreads.",
    minutes=5,
)
FIGURE12_T = _entry(
    "scaffnew/figure12-iterations",
    "Total iterations on mushrooms (Figure 12, right)",
    _over_iterations(_mushrooms(500), 2.0, _SMALL),
    "the number of iterations T",
    _SMALL,
    seeds=5,
    needs=("mushrooms",),
    finding=f"Ten local steps. {_NOTE}{_OURS}",
    minutes=15,
)
FIGURE2_CIFAR10 = _entry(
    "scaffnew/figure2-cifar10",
    "Local steps on CIFAR-10 at several clips (Figures 2, 6 and 7)",
    _over_steps(_CIFAR, 0.1),
    "the number of local steps",
    seeds=3,
    needs=("cifar10-features",),
    finding=_NOTE + _STAND_IN + _TOO_NOISY,
    minutes=45,
)
FIGURE3_CIFAR10 = _entry(
    "scaffnew/figure3-cifar10",
    "Total iterations on CIFAR-10 at several clips (Figures 3 and 10)",
    _over_iterations(_CIFAR, 0.1),
    "the number of iterations T",
    seeds=3,
    needs=("cifar10-features",),
    finding=_NOTE + _STAND_IN,
    minutes=20,
)

ENTRIES = (FIGURE2_CIFAR10, FIGURE3_CIFAR10, FIGURE12, FIGURE12_T, FIVE)
