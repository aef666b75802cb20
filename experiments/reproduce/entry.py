"""A reproduction: the printed results of a paper, its settings, and the comparison.

An :class:`Entry` is one table or figure. Its lines are methods with settings; each line is run at
several stages:

paper       the paper's own settings, rerun here, with their true guarantee
epsilon E   the same method with its noise calibrated to (E, delta) for the WHOLE run

The hyperparameters of a stage come from its grid: every point is run on the selection seed, and the
best one on the reported seeds, which are different. This choice is oracle-tuned, and the page says
so.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from tacit.errors import ConfigError

if TYPE_CHECKING:
    from experiments.reproduce.summary import Summary, Verdict
    from tacit.run import Run

Config = Mapping[str, Any]
Grid = Mapping[str, tuple[Any, ...]]
Stage = float | None  # an epsilon for the whole run, or None: the settings of the paper

SELECTION_SEED = 1_000
BUDGETS: tuple[float, ...] = (1.0, 2.0, 8.0)


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """One number of a run: a metric, and the rounds that it is taken from."""

    metric: str
    label: str
    over: Literal["last", "first", "lowest", "highest", "mean of last"] = "last"
    count: int = 5  # number of measurements for "mean of last"
    better: Literal["high", "low"] = "high"
    scale: float = 1.0
    style: str = ".2f"
    useless: float | None = None  # a value that is not better than this means nothing was learnt

    def of(self, curve: list[float]) -> float:
        """The number, from the values of the metric at all measurements."""
        if not curve:
            return float("nan")
        taken = {
            "last": curve[-1:],
            "first": curve[:1],
            "lowest": [min(curve)],
            "highest": [max(curve)],
            "mean of last": curve[-self.count :],
        }[self.over]
        return self.scale * sum(taken) / len(taken)

    def learnt(self, value: float) -> bool:
        """Whether the value is better than that of a model that learnt nothing."""
        if self.useless is None:
            return True
        return value < self.useless if self.better == "low" else value > self.useless

    def show(self, value: float) -> str:
        """The number as it is printed."""
        return format(value, self.style)


@dataclass(frozen=True)
class Printed:
    """The printed number of the paper, in the unit of the entry's quantity."""

    value: float
    std: float | None = None


@dataclass(frozen=True, kw_only=True)
class Line:
    """A method with its settings: one row of the table."""

    row: str
    method: str
    config: Config
    printed: Printed | None = None
    grid: Grid = field(default_factory=dict)  # at the paper's stage; empty: its own choice
    honest_grid: Grid | None = None  # at honest budgets; None: the same grid
    honest: Mapping[str, Any] = field(default_factory=dict)  # further changes there
    stages: tuple[Stage, ...] | None = None  # None: all of the entry's
    x: float | None = None  # position of the row on the axis of a figure
    claimed: str = ""  # the guarantee that the paper states for it

    def candidates(self, stage: Stage, delta: float) -> Iterator[tuple[dict[str, Any], Config]]:
        """Every point of the stage's grid with its configuration."""
        base = copy.deepcopy(dict(self.config))
        grid = self.grid
        if stage is not None:
            for name in ("noise", "radius_noise"):
                base["algorithm"].pop(name, None)
            base["privacy"] = {"epsilon": stage, "delta": delta}
            base = changed(base, self.honest)
            grid = self.grid if self.honest_grid is None else self.honest_grid
        for values in itertools.product(*grid.values()):
            settings = dict(zip(grid, values, strict=True))
            yield settings, changed(base, settings)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A plot of an entry: methods over rows, or metrics over the rounds of one row.

    Methods over rows get a panel for each stage, or ``panels`` of some methods at one stage.
    """

    name: str
    title: str
    kind: Literal["rows", "rounds"] = "rows"
    metrics: Mapping[str, str] = field(default_factory=dict)  # kind "rounds": metric -> label
    rows: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    panels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # title -> methods
    stage: Stage = None
    xlabel: str = "round"
    ylabel: str = ""
    log: Literal["", "x", "y", "xy"] = ""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One table or figure of a paper."""

    name: str
    title: str
    claim: str
    quantity: Quantity
    lines: tuple[Line, ...]
    delta: float
    seeds: int = 5
    budgets: tuple[float, ...] = BUDGETS
    looks: int | None = None  # measure every ``looks`` rounds; None: only at the end
    keep: tuple[str, ...] = ()  # metrics whose curves are stored for the reported seeds
    also: tuple[Quantity, ...] = ()
    redraw: bool = False  # True: every seed draws a new problem, not only new noise
    train: bool = True  # False: accounting only
    account: Callable[[Run], dict[str, float]] | None = None
    judge: Callable[[Summary], list[Verdict]] | None = None
    figures: tuple[Figure, ...] = ()
    needs: tuple[str, ...] = ()  # datasets of the catalogue
    of: str | None = None  # a view of another entry's runs
    finding: str = ""
    minutes: float = 1.0  # time for the whole entry on two cores

    @property
    def paper(self) -> str:
        """The paper's short name."""
        return self.name.split("/")[0]

    def view(
        self,
        name: str,
        title: str,
        claim: str,
        figures: tuple[Figure, ...],
        judge: Callable[[Summary], list[Verdict]] | None = None,
    ) -> Entry:
        """Another figure of the same runs."""
        return Entry(
            name=name,
            title=title,
            claim=claim,
            figures=figures,
            judge=judge,
            of=self.name,
            quantity=self.quantity,
            lines=(),
            delta=self.delta,
            needs=self.needs,
        )

    def stages(self, line: Line) -> tuple[Stage, ...]:
        """The stages of a line."""
        return (None, *self.budgets) if line.stages is None else line.stages


def part(entry: Entry, only: str = "", *, printed: bool = False) -> Entry:
    """The lines whose row or method contains ``only``; ``printed`` keeps only the paper's stage."""
    names = [f"{line.row}, {line.method}" for line in entry.lines]
    here = [only.lower() in name.lower() for name in names]
    lines = list(itertools.compress(entry.lines, here))
    if not lines:
        raise ConfigError(
            f"{entry.name} has no line with {only!r}: its lines are {'; '.join(names)}."
        )
    if printed:
        lines = [replace(line, stages=(None,)) for line in lines if None in entry.stages(line)]
    return replace(entry, lines=tuple(lines))


def changed(config: Config, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with ``section.key`` set; a value of None removes the key."""
    result = copy.deepcopy(dict(config))
    for key, value in changes.items():
        *sections, last = key.split(".")
        place = result
        for section in sections:
            place = place.setdefault(section, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return result


def stage_name(stage: Stage) -> str:
    """The name of a stage in results."""
    return "paper" if stage is None else f"epsilon {stage:g}"


def quick(entry: Entry, rounds: int = 3) -> Entry:
    """A small version of the entry for a quick test: few rounds, one seed, one grid point."""

    def small(line: Line) -> Line:
        config = copy.deepcopy(dict(line.config))
        config["train"] = {**config["train"], "rounds": min(config["train"]["rounds"], rounds)}
        algorithm = config["algorithm"]
        if algorithm.get("iterations"):
            config["algorithm"] = {**algorithm, "iterations": min(algorithm["iterations"], 20)}
        cut = {key: values[:1] for key, values in line.grid.items()}
        honest = line.honest_grid
        return replace(
            line,
            config=config,
            grid=cut,
            honest_grid=None if honest is None else {k: v[:1] for k, v in honest.items()},
        )

    kept = {(line.row, line.method): line for line in entry.lines}
    first = next(iter(kept))[0] if kept else ""
    lines = tuple(small(line) for line in kept.values() if line.row == first)
    return replace(entry, lines=lines, seeds=1, budgets=entry.budgets[-1:], looks=1)
