"""Measure one work: all its sides are started, and measured alternately.

Sides take turns within a repetition, so that a slow minute of the machine affects all of them. The
first request of a side determines how many rounds fill the time of a measurement.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.speed import reference
from benchmarks.speed.worker import SideError, Worker
from benchmarks.speed.works import WORKS, Work, flat, silent, start, tiny

CHECK_ROUNDS = 2
_MOST_ROUNDS = 2000


@dataclass(frozen=True)
class Effort:
    """The number and duration of the measurements."""

    repeats: int = 5
    seconds: float = 5.0  # of one measurement; a round that takes longer is one measurement
    limit: float = 900.0  # for one answer of a side
    tiny: bool = False
    check: bool = True


def measure(
    name: str, sides: list[str], effort: Effort, keep: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Measure all sides of a work; ``keep`` gets the results after every repetition."""
    work = tiny(WORKS[name]) if effort.tiny else WORKS[name]
    found: dict[str, Any] = {
        "title": work.title,
        "parameters": work.parameters,
        "gflop": work.flops / 1e9,
        "tiny": effort.tiny,
        "sides": {},
        "failed": {},
    }
    if effort.check:
        found["difference"] = differences(name, sides, effort, found["failed"])
    with contextlib.ExitStack() as stack:
        ready: dict[str, tuple[Worker, int]] = {}
        for side in sides:
            try:
                worker = stack.enter_context(Worker(side, effort.limit))
                ready[side] = worker, _set_up(worker, name, effort, found["sides"])
            except SideError as failure:
                found["failed"][side] = str(failure)
        for _ in range(effort.repeats):
            for side, (worker, rounds) in list(ready.items()):
                try:
                    reading = worker.ask("run", rounds=rounds)
                except SideError as failure:
                    found["failed"][side] = str(failure)
                    del ready[side]
                    continue
                found["sides"][side]["readings"].append(reading)
            summarise(found)
            keep(found)
    return found


def _set_up(worker: Worker, name: str, effort: Effort, sides: dict[str, Any]) -> int:
    answer = worker.ask("setup", work=name, tiny=effort.tiny)
    sides[worker.side] = {**answer, "readings": []}
    if answer["fixed_rounds"]:
        return int(answer["fixed_rounds"])
    first = worker.ask("run", rounds=1)
    each = first["wall"] / first["rounds"]
    if each < effort.seconds / 4:  # short measurements needed more warm-up
        first = worker.ask("run", rounds=_rounds(each, effort.seconds / 4))
        each = first["wall"] / first["rounds"]
    return _rounds(each, effort.seconds)


def _rounds(each: float, seconds: float) -> int:
    return max(1, min(_MOST_ROUNDS, math.ceil(seconds / max(each, 1e-9))))


def summarise(found: dict[str, Any]) -> None:
    """Medians and quartiles per round, and the speed-up of the first side."""
    for side in found["sides"].values():
        if side["readings"]:
            side["per_round"] = {
                what: quartiles([r[what] / r["rounds"] for r in side["readings"]])
                for what in ("wall", "cpu")
            }
            side["peak_mib"] = max(r["peak_mib"] for r in side["readings"])
            side["others"] = quartiles(
                [(r["others_cpu"] + r["stolen_cpu"]) / r["wall"] for r in side["readings"]]
            )
    ours = found["sides"].get("tacit", {}).get("per_round")
    if ours is None:
        return
    found["ratios"] = {
        name: {
            what: side["per_round"][what]["median"] / ours[what]["median"]
            for what in ("wall", "cpu")
        }
        for name, side in found["sides"].items()
        if name != "tacit" and "per_round" in side
    }


def quartiles(values: list[float]) -> dict[str, float]:
    """The median and the interquartile range."""
    if len(values) == 1:
        return {"low": values[0], "median": values[0], "high": values[0]}
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"low": low, "median": median, "high": high}


def differences(
    name: str, sides: list[str], effort: Effort, failed: dict[str, str]
) -> dict[str, float]:
    """The distance of each side's model to the plain reference after rounds without noise."""
    work = silent(tiny(WORKS[name]) if effort.tiny else WORKS[name])
    expected: dict[bool, Any] = {}
    found: dict[str, float] = {}
    for side in sides:
        try:
            with Worker(side, effort.limit) as worker:
                answer = worker.ask("check", work=name, tiny=effort.tiny, rounds=CHECK_ROUNDS)
        except SideError as failure:
            failed[side] = str(failure)
            continue
        clips = answer["clips"]
        if clips not in expected:
            expected[clips] = flat(reference.trained(work, CHECK_ROUNDS, clips=clips))
        found[side] = relative(np.array(answer["params"]), expected[clips], work)
    return found


def relative(params: Any, expected: Any, work: Work) -> float:
    """The distance between two models, divided by the distance that the reference moved."""
    way = np.linalg.norm(expected - flat(start(work)))
    return float(np.linalg.norm(params - expected) / way)
