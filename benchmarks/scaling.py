"""The growth of time and memory of a round with clients, dimension, local steps and cohort.

    python -m benchmarks.scaling [--only clients,cohort] [--most 10000]

Every point runs in a separate process, so that its peak memory is measured separately. It uses the
public interface with noise and ledger. The results are written to ``results/bench/scaling.json``
and plotted by ``benchmarks.speed.page``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.speed import machine, picture
from benchmarks.speed.works import Work

OUT = Path("results/bench/scaling.json")
REPEATS, SECONDS, LIMIT = 3, 1.5, 600

BASE = Work(
    name="scaling",
    title="softmax regression 50-10, clients of 5 records, 5 local steps",
    kind="clients",
    model="softmax",
    clients=1000,
    cohort=100,
    records=5,
    features=50,
    classes=10,
    steps=5,
)


def points() -> dict[str, list[tuple[int, Work]]]:
    """The works of every curve."""
    small = replace(BASE, model="logistic", classes=2, clients=20, cohort=20, records=2)
    return {
        "clients, all take part": [
            (n, replace(BASE, clients=n, cohort=n)) for n in (10, 100, 1000, 10_000, 100_000)
        ],
        "clients, 100 take part": [
            (n, replace(BASE, clients=n)) for n in (100, 1000, 10_000, 100_000)
        ],
        "cohort of 10,000": [
            (n, replace(BASE, clients=10_000, cohort=n)) for n in (10, 100, 1000, 10_000)
        ],
        "dimension": [
            (d, replace(small, features=d)) for d in (100, 1000, 10_000, 100_000, 1_000_000)
        ],
        "local steps": [(k, replace(BASE, steps=k)) for k in (1, 3, 10, 30, 100)],
    }


def point(work: Work) -> dict[str, float]:
    """Time and memory of one work; called in a separate process."""
    from benchmarks.speed.measure import quartiles
    from benchmarks.speed.tacit_side import TacitSide
    from benchmarks.speed.usage import Meter, peak_memory

    before = peak_memory()
    side = TacitSide(work)
    readings = []
    rounds = 1
    for number in range(REPEATS + 2):
        meter = Meter()
        side.run(rounds, meter)
        each = meter.reading["wall"] / meter.reading["rounds"]
        rounds = max(1, min(2000, math.ceil(SECONDS / each)))
        if number > 1:  # the first compiles, the second determines the number of rounds
            readings.append(meter.reading)
    spread = quartiles([r["wall"] / r["rounds"] for r in readings])
    return {
        "seconds": spread["median"],
        "low": spread["low"],
        "high": spread["high"],
        "cpu": quartiles([r["cpu"] / r["rounds"] for r in readings])["median"],
        "others": quartiles([r["others_cpu"] / r["wall"] for r in readings])["median"],
        "peak_mib": peak_memory(),
        "imports_mib": before,
        "records_mib": work.clients * work.records * (work.features + 1) * 4 / 2**20,
    }


def slope(curve: list[dict[str, float]], what: str) -> float:
    """The growth exponent over the last decade of a curve: 1 is linear, 0 is constant."""
    first, last = curve[-2], curve[-1]
    return math.log(last[what] / first[what]) / math.log(last["value"] / first["value"])


def _in_own_process(work: Work) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scaling", "--point", json.dumps(asdict(work))]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT, check=False, env=os.environ
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no result within {LIMIT} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no reason given"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def draw(found: dict[str, Any], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    curves = found["curves"]
    figure = Figure(figsize=(2.6 * len(curves), 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, len(curves), squeeze=False)
    for column, (name, curve) in enumerate(curves.items()):
        sound = [p for p in curve["points"] if "failed" not in p]
        values = [p["value"] for p in sound]
        time, memory = grid[0, column], grid[1, column]
        time.plot(values, [p["seconds"] for p in sound], "o-", color="#00695c", markersize=4)
        time.set_yscale("log")
        memory.plot(values, [p["peak_mib"] for p in sound], "o-", color="#00695c", markersize=4)
        own = [p["imports_mib"] + p["records_mib"] for p in sound]
        memory.plot(values, own, ":", color="#c62828", label="imports + records")
        memory.set_ylim(bottom=0)
        for axes in (time, memory):
            axes.set_xscale("log")
            axes.tick_params(labelsize=7)
            for place in ("top", "right"):
                axes.spines[place].set_visible(False)
        time.set_title(name, fontsize=9)
    grid[0, 0].set_ylabel("seconds per round", fontsize=8)
    grid[1, 0].set_ylabel("peak memory, MiB", fontsize=8)
    grid[1, 0].legend(frameon=False, fontsize=7)
    picture.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="curves whose names start with this, comma-separated")
    parser.add_argument("--most", type=float, default=float("inf"), help="skip values above this")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--point", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.point:
        values = json.loads(given.point)
        print(json.dumps(point(Work(**{**values, "peers": tuple(values["peers"])}))))
        return
    found = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    found |= {"command": "python -m benchmarks.scaling", "machine": machine.describe()}
    found.setdefault("curves", {})
    wanted = tuple((given.only or "").split(","))
    for name, works in points().items():
        if not name.startswith(wanted):
            continue
        curve: list[dict[str, Any]] = []
        for value, work in works:
            if value <= given.most:
                curve.append({"value": value, **_in_own_process(work)})
                print(name, curve[-1], flush=True)
        sound = [p for p in curve if "failed" not in p]
        found["curves"][name] = {"points": curve}
        if len(sound) > 1:
            found["curves"][name] |= {
                "time_exponent": slope(sound, "seconds"),
                "memory_exponent": slope(sound, "peak_mib"),
            }
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
