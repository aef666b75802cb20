"""The protocol between the driver and a side: one JSON object per line, on stdin and stdout.

    {"do": "setup", "work": "W1", "tiny": false}      prepare and warm up
    {"do": "run", "rounds": 5}                        run rounds; answers with a reading
    {"do": "check", "work": "W1", "tiny": false,      the model after rounds without noise, as
     "rounds": 2}                                     one vector; in a separate process
    {"do": "quit"}

A side that fails answers {"error": ...}. All output of the libraries goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from abc import ABC, abstractmethod
from typing import Any

from benchmarks.speed.usage import Meter, timed
from benchmarks.speed.works import WORKS, Floats, Work, silent, tiny


class Side(ABC):
    """A simulator that can run rounds of one work."""

    fixed_rounds: int | None = None  # for a side that can only run a fixed number at a time
    clips = True  # False for a side without differential privacy

    @abstractmethod
    def __init__(self, work: Work) -> None:
        """Build everything for the work: data, model, compiled programs."""

    @abstractmethod
    def run(self, rounds: int, meter: Meter) -> None:
        """Run rounds; start the meter just before the first and stop it after the last."""

    @abstractmethod
    def params(self) -> Floats:
        """The model as one vector in the common layout."""

    def about(self) -> dict[str, Any]:
        """Choices of this side that readers should know."""
        return {}

    def close(self) -> None:  # noqa: B027
        """Stop everything that is running."""


def serve(make: type[Side], versions: tuple[str, ...]) -> None:
    """Answer the driver until it says quit."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    side: Side | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "quit":
            break
        try:
            if asked["do"] == "setup":
                side, answer = _set_up(make, _work(asked), versions)
            elif asked["do"] == "run":
                assert side is not None, "a side must be set up before it runs"
                meter = Meter()
                side.run(asked["rounds"], meter)
                answer = {"rounds": asked["rounds"], **meter.reading}  # the reading may override
            else:
                answer = _checked(make, _work(asked), asked["rounds"])
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    if side is not None:
        side.close()


def _work(asked: dict[str, Any]) -> Work:
    chosen = WORKS[asked["work"]]
    return tiny(chosen) if asked.get("tiny") else chosen


def _set_up(make: type[Side], work: Work, versions: tuple[str, ...]) -> tuple[Side, dict[str, Any]]:
    def ready() -> Side:
        side = make(work)
        side.run(side.fixed_rounds or 1, Meter())
        return side

    side, reading = timed(ready)
    answer = {
        "setup": reading,
        "fixed_rounds": side.fixed_rounds,
        "about": side.about(),
        "versions": _versions(versions),
    }
    return side, answer


def _checked(make: type[Side], work: Work, rounds: int) -> dict[str, Any]:
    side = make(silent(work))
    side.run(rounds, Meter())
    params = side.params()
    side.close()
    return {"clips": side.clips, "params": [float(value) for value in params]}


def _versions(names: tuple[str, ...]) -> dict[str, str]:
    from importlib.metadata import version

    found = {name: version(name) for name in names}
    return {"python": ".".join(map(str, sys.version_info[:3])), **found}
