"""The small files of a run's folder, each as the plain values that a table shows.

Everything may be half-written or wrong on purpose: whatever is not as expected makes the run
broken, with a sentence.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from typing import Any

from tacit.live.files import BrokenError

# What says most about a run comes first; the places with private records come last.
PLACES = ("test", "released", "oracle/held_out", "oracle")
QUALITIES = ("accuracy", "concordance", "auc", "r2", "loss")
LONGEST = 300  # characters of a text in a table


def status(data: bytes) -> dict[str, Any]:
    """``status.json``."""
    found = _object(data, "status.json")
    process = found.get("process")
    state = _text(found, "state", "status.json")
    if not isinstance(process, dict) or state not in ("running", "finished", "stopped", "failed"):
        raise BrokenError("status.json is not of a form that this version of Tacit knows.")
    return {
        "state": state,
        "kind": "deployed" if found.get("kind") == "deployed" else "simulated",
        "process": {
            "pid": int(_number(process, "pid", "status.json")),
            "began": process.get("began") if isinstance(process.get("began"), str) else None,
            "host": _text(process, "host", "status.json"),
        },
        "stoppable": found.get("stoppable") is True,
        "started": _number(found, "started", "status.json"),
        "round": int(_number(found, "round", "status.json")),
        "rounds": int(_number(found, "rounds", "status.json")),
        "epsilon": _optional(found.get("epsilon")),
        "delta": _optional(found.get("delta")),
        "said": _text(found, "said", "status.json", 500),
    }


def summary(data: bytes) -> dict[str, Any]:
    """``summary.json``."""
    found = _object(data, "summary.json")
    sure = found.get("guarantee")
    if not isinstance(sure, dict):
        raise BrokenError("summary.json has no guarantee.")
    stopped = found.get("stopped")
    return {
        "rounds": int(_number(found, "rounds", "summary.json")),
        "stopped": stopped[:LONGEST] if isinstance(stopped, str) else None,
        "guarantee": guarantee(sure, "summary.json"),
    }


def guarantee(sure: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The parts of a guarantee that are shown."""
    words = ("unit", "relation", "observer", "noise_from")
    return {
        **{word: _text(sure, word, where) for word in words},
        "epsilon": _optional(sure.get("epsilon")),  # none: infinite, nothing is guaranteed
        "delta": _number(sure, "delta", where),
        "sentence": _text(sure, "sentence", where, 4000),
        "meaning": _text(sure, "meaning", where, 2000) if "meaning" in sure else "",
        "uncharged": bool(sure.get("uncharged")),
    }


def config(data: bytes) -> dict[str, Any]:
    """``config.toml``: the method, the records, the rounds and the budget."""
    try:
        found = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise BrokenError(f"config.toml cannot be read ({str(error)[:LONGEST]}).") from None
    method, records = found.get("algorithm"), found.get("data")
    train, privacy = found.get("train"), found.get("privacy")
    named = records if isinstance(records, dict) else {}
    budget = privacy if isinstance(privacy, dict) else {}
    rounds = train.get("rounds") if isinstance(train, dict) else found.get("rounds")
    return {
        "method": _named(method),
        "dataset": str(named.get("name") or named.get("path") or "Python objects")[:LONGEST],
        "rounds": rounds if isinstance(rounds, int) else None,
        "epsilon": _optional(budget.get("epsilon")),
        "delta": _optional(budget.get("delta")),
        "python": "python" in found,
    }


def last_metrics(data: bytes) -> dict[str, float]:
    """The last value of every metric, from the end of ``metrics.csv``."""
    found: dict[str, float] = {}
    for line in reversed(lines_of(data)):
        _, metric, value = cells(line)
        if metric not in found and len(found) < 100:
            found[metric] = value
    return found


def lines_of(data: bytes) -> list[str]:
    """The whole lines of a table of metrics, or of its end."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BrokenError("metrics.csv is not text.") from None
    lines = text.splitlines()
    if lines and not text.endswith("\n"):
        raise BrokenError("metrics.csv is cut off.")
    return lines[1:]  # the header, or a line whose beginning is missing


def cells(line: str) -> tuple[int, str, float]:
    """Round, metric and value of one line."""
    parts = line.split(",")
    try:
        round_, metric, value = int(parts[0]), parts[1][:LONGEST], float(parts[2])
    except (ValueError, IndexError):
        raise BrokenError("metrics.csv has a line that is not round,metric,value.") from None
    return round_, metric, value


def quality(metrics: Mapping[str, float]) -> dict[str, Any] | None:
    """The metric that says most, and whether it looks at private records."""
    for place in PLACES:
        for name in QUALITIES:
            metric = f"{place}/{name}"
            if metric in metrics:
                value = metrics[metric]
                shown = value if math.isfinite(value) else None
                return {"metric": metric, "value": shown, "oracle": metric.startswith("oracle/")}
    return None


def _named(method: Any) -> str:
    if isinstance(method, dict):
        return str(method.get("name", ""))[:LONGEST]
    return str(method).partition("(")[0][:LONGEST] if isinstance(method, str) else ""


def _object(data: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise BrokenError(f"{where} is not JSON: it is damaged or half-written.") from None
    if not isinstance(found, dict):
        raise BrokenError(f"{where} is not a JSON object.")
    return found


def _text(found: Mapping[str, Any], name: str, where: str, longest: int = LONGEST) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise BrokenError(f"{where} has no text {name!r}.")
    return value[:longest]


def _number(found: Mapping[str, Any], name: str, where: str) -> float:
    value = _optional(found.get(name))
    if value is None:
        raise BrokenError(f"{where} has no number {name!r}.")
    return value


def _optional(value: Any) -> float | None:
    """A finite number of a reasonable size, or nothing."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) < 1e300 else None
