"""Overheads besides training: imports, the start of a run, the ledger, and parallel runs.

    python -m benchmarks.overheads [--out results/bench/overheads.json]

import      `import tacit` and `tacit --help`, compared with an empty Python, and what they load
start       a small run through the command line, the first time and with cached programs
ledger      time per round of W1 and W3 with the ledger on disk, divided by the time without
real_noise  time per round of W1 with noise from the operating system, divided by that of a seed
sweep       four settings and three seeds by `tacit compare`, compared with twelve runs in sequence
            (each using all cores, with programs cached by the first)
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

OUT = Path("results/bench/overheads.json")
SMALL = ["-m", "tacit", "run", "--example", "digits-dp-fedavg", "--json"]


def seconds(arguments: list[str], repeats: int = 5, **variables: str) -> float:
    """The median time of a command of this Python."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, *arguments],
            check=True,
            capture_output=True,
            env={**os.environ, **variables},
        )
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def imports() -> dict[str, Any]:
    empty = seconds(["-c", "pass"])
    probe = "import sys, tacit.cli; tacit.cli.run(['--help']); print('jax' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", probe], check=True, capture_output=True, text=True
    )
    return {
        "empty_python": empty,
        "import_tacit": seconds(["-c", "import tacit"]) - empty,
        "help": seconds(["-m", "tacit", "--help"]),
        "help_loads_jax": shown.stdout.strip().endswith("True"),
    }


def start() -> dict[str, float]:
    """Seconds from the start of the command to its first finished round, and to its end."""
    with tempfile.TemporaryDirectory() as place:
        found = {"first_start": first_round(place), "first": seconds(SMALL, 1, TACIT_CACHE=place)}
        found["kept_start"] = statistics.median(first_round(place) for _ in range(5))
        return {**found, "kept": seconds(SMALL, 5, TACIT_CACHE=place)}


def first_round(cache: str) -> float:
    """The time until a small run has finished its first round."""
    program = (
        "import sys; from tacit.cli import run; import tacit.run.loop as t;"
        " old = t.Payments.pay\n"
        "def pay(self, until):\n"
        "    print(until, flush=True)\n"
        "    old(self, until)\n"
        "t.Payments.pay = pay; run(sys.argv[1:])"
    )
    begun = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", program, *SMALL[2:]],
        stdout=subprocess.PIPE,
        env={**os.environ, "TACIT_CACHE": cache},
        text=True,
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if line.strip().isdigit() and int(line) > 2:  # round 1 is done
                passed = time.perf_counter() - begun
                break
        run.stdout.read()
    return passed


def ledger() -> dict[str, Any]:
    """Alternating runs of the same rounds with a folder (ledger, checkpoints) and without."""
    from benchmarks.speed.tacit_side import DELTA, algorithm_of, federation_of, task_of
    from benchmarks.speed.works import WORKS
    from tacit.planning import Plan
    from tacit.population import Population
    from tacit.run.loop import Progress, Settings
    from tacit.run.run import Run, Shared

    found: dict[str, Any] = {}
    for name, rounds in (("W1", 40), ("W3", 200)):
        work = replace(WORKS[name], rounds=None)
        federation = federation_of(work)
        population = Population(tuple(int(n) for n in federation.sizes))
        plan = Plan(algorithm_of(work), task_of(work), population, rounds)
        shared = Shared()
        times: dict[bool, list[float]] = {True: [], False: []}
        for number in range(11):
            for kept in (True, False):
                moments: list[float] = []

                def note(_: Progress, moments: list[float] = moments) -> None:
                    moments.append(time.perf_counter())

                settings = Settings(seed=number, delta=DELTA, eval_every=rounds, oracle=False)
                run = Run(plan, federation, settings, shared=shared)
                with tempfile.TemporaryDirectory() as place:
                    run.train(Path(place) / "run" if kept else None, on_progress=note)
                if number:  # the first of each compiles
                    times[kept].append(moments[-1] - moments[0])
        ratios = [a / b for a, b in zip(times[True], times[False], strict=True)]
        quartiles = statistics.quantiles(ratios, n=4)
        found[name] = {"ratio": statistics.median(ratios), "middle_half": quartiles[::2]}
    return found


def real_noise() -> dict[str, Any]:
    """Alternating blocks of rounds of W1 with noise from a seed and from the operating system."""
    import jax

    from benchmarks.speed.tacit_side import algorithm_of, federation_of, task_of
    from benchmarks.speed.works import WORKS
    from tacit.simulation.tuning import tuned

    work = WORKS["W1"]
    federation = federation_of(work)
    engines = {
        name: tuned(algorithm_of(work), task_of(work), federation, seed=seed)
        for name, seed in (("seed", 0), ("system", None))
    }
    states = {name: engine.advance(engine.init(), 0, 2) for name, engine in engines.items()}
    times: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(15):
        for name, engine in engines.items():
            jax.block_until_ready(states[name].server)
            begun = time.perf_counter()
            states[name] = engine.advance(states[name], 2 + 5 * number, 5)
            jax.block_until_ready(states[name].server)
            times[name].append(time.perf_counter() - begun)
    ratios = [a / b for a, b in zip(times["system"], times["seed"], strict=True)]
    quartiles = statistics.quantiles(ratios, n=4)
    return {"W1": {"ratio": statistics.median(ratios), "middle_half": quartiles[::2]}}


def sweep() -> dict[str, float]:
    """Four settings with three seeds each: as twelve runs, and as one comparison."""
    grid, rounds = ("0.1", "0.2", "0.4", "0.8"), "train.rounds=200"
    example, fewer = "digits-dp-fedavg", ["--set", "train.oracle=false", "--set", rounds]
    found: dict[str, float] = {}
    for name, jobs in (("over_cores", str(os.cpu_count() or 1)), ("one_process", "1")):
        with tempfile.TemporaryDirectory() as place:  # both start with an empty cache
            vary = ["--vary", f"algorithm.clip={','.join(grid)}", "--jobs", jobs, "--json"]
            found[name] = seconds(
                ["-m", "tacit", "compare", example, *vary, *fewer], 1, TACIT_CACHE=place
            )
    with tempfile.TemporaryDirectory() as place:
        found["one_after_another"] = sum(
            seconds(
                [
                    *("-m", "tacit", "run", "--example", example, "--json", *fewer),
                    *("--set", f"algorithm.clip={clip}", "--set", f"train.seed={seed}"),
                ],
                1,
                TACIT_CACHE=place,
            )
            for clip in grid
            for seed in range(3)
        )
    best = min(found["over_cores"], found["one_process"])
    return {**found, "ratio": found["one_after_another"] / best}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--only", nargs="*", help="imports, start, ledger, real_noise, sweep")
    given = parser.parse_args()
    before = json.loads(given.out.read_text()) if given.only and given.out.exists() else {}
    found = {
        **before,
        "command": "python -m benchmarks.overheads",
        "load_before": os.getloadavg()[0],
    }
    for part in (imports, start, ledger, real_noise, sweep):
        if given.only and part.__name__ not in given.only:
            continue
        found[part.__name__] = part()
        print(part.__name__, json.dumps(found[part.__name__]), flush=True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
