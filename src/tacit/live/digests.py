"""What takes long, as plain functions for another process or thread: ledgers, curves, budgets.

Epsilon is what the ledger says, for a whole prefix of it. A prefix never changes, so points of the
curve that are known stay known, and every visit adds some between them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tacit.accounting import Ledger, compose, epsilon_of
from tacit.errors import TacitError
from tacit.live import parts
from tacit.live.files import BrokenError, read

Point = tuple[int, int, float]  # charges, rounds, epsilon
_LARGEST = 400_000_000
_MOST = 300  # points of a curve
_LOOKS = 24  # of epsilon over the rounds
_KEPT = 200


def ledger(
    path: Path, root: Path, delta: float, rounds: int, known: Mapping[str, Any], looks: int
) -> dict[str, Any]:
    """What is spent, verified line by line, and at most ``looks`` new points of its curve.

    ``known`` is what this function said of the same ledger before.
    """
    try:
        read(path, _LARGEST, root, tail=True)  # refuses what is not a regular file
        found = Ledger.read(path)
        sure = found.guarantee(delta)
        told = {"noise_from": found.noise_from, "sentence": sure.sentence()}
        fields = ("unit", "relation", "observer", "epsilon", "delta")
        told |= {name: getattr(sure, name) for name in fields}
        before = known.get("points", ()) if known.get("id") == found.id else ()
        points = _points(found, delta, rounds, before, looks) if math.isfinite(sure.epsilon) else []
    except (TacitError, BrokenError) as error:
        return {"error": str(error)}
    return {
        "id": found.id,
        "charges": sum(1 for _ in found.charges),
        "guarantee": parts.guarantee(told, "the ledger"),
        "points": points,
        "more": math.isfinite(sure.epsilon) and _widest(points, points[-1][0]) is not None,
    }


def _points(
    ledger: Ledger, delta: float, last: int, known: Sequence[Point], looks: int
) -> list[Point]:
    charges = list(ledger.charges)
    rounds, done = [], 0
    for charge in charges:
        at = charge.label.get("round")
        # What is released before the first round or after the last one has a number of its own.
        done = max(done, at + 1 if isinstance(at, int) and 0 <= at < last else 0)
        rounds.append(done)

    def point(count: int) -> Point:
        if count == 0:
            return 0, 0, 0.0
        events = compose(*(charge.event for charge in charges[:count]))
        return count, rounds[count - 1], epsilon_of(events, delta=delta, relation=ledger.relation)

    total = len(charges)
    found = {p[0]: p for p in known if p[0] <= total}
    for count in (0, total):
        found.setdefault(count, point(count))
    for _ in range(looks):
        gap = _widest(list(found.values()), total)
        if gap is None:
            break
        found[gap] = point(gap)
    points = sorted(found.values())
    return points if len(points) <= _KEPT else [*points[:-1:2], points[-1]]


def _widest(points: Sequence[Point], total: int) -> int | None:
    """The middle of the widest gap between points; None if they are close enough."""
    counts = sorted(p[0] for p in points)
    gaps = [(b - a, (a + b) // 2) for a, b in pairwise(counts)]
    width, middle = max(gaps, default=(0, 0))
    return middle if width > max(1, total // _LOOKS) else None


def curves(path: Path, root: Path) -> dict[str, Any]:
    """Every metric over the rounds, with at most so many points."""
    try:
        lines = parts.lines_of(read(path, _LARGEST, root))
        found: dict[str, list[tuple[int, float | None]]] = {}
        for line in lines:
            round_, metric, value = parts.cells(line)
            if metric in found or len(found) < 60:
                shown = value if math.isfinite(value) else None
                found.setdefault(metric, []).append((round_, shown))
    except BrokenError as error:
        return {"error": str(error)}
    return {"curves": {metric: _thinned(points) for metric, points in found.items()}}


def _thinned(points: list[tuple[int, float | None]]) -> list[tuple[int, float | None]]:
    step = -(-len(points) // _MOST)
    return points if step <= 1 else [*points[:-1:step], points[-1]]


def site(folder: Path) -> dict[str, Any]:
    """What a site on this machine has spent of its budget, over all runs."""
    try:
        from tacit.deployment.setup.overview import budget_of

        found = budget_of(folder)
    except ImportError:
        return {"error": "budgets of sites need the extra: pip install 'tacit-fl[deploy]'"}
    except (TacitError, OSError) as error:
        return {"error": str(error)}
    spent = float(found.get("epsilon", 0.0))
    return {
        "name": found["name"],
        "spent": spent if math.isfinite(spent) else None,
        "spent_text": str(found["spent"]),
        "budget": float(found["budget"]),
        "delta": float(found["delta"]),
        "sentence": str(found["sentence"]),
    }


def site_names(path: Path, root: Path) -> list[str]:
    """The sites that ``federation.toml`` names; it is public."""
    import tomllib

    try:
        found = tomllib.loads(read(path, 1_000_000, root).decode())["sites"]
        return [str(name)[: parts.LONGEST] for name in found][:1000]
    except (BrokenError, ValueError, KeyError, TypeError, RecursionError):
        return []


def ready() -> None:
    """Nothing: whoever calls this has loaded everything."""


def as_json(value: Any) -> bytes:
    """One line of JSON, without NaN."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
