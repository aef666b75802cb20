"""What is not training: imports, the start of a run, the ledger, and runs side by side.

    python -m benchmarks.overheads [--out results/bench/overheads.json]

import      `import tacit` and `tacit --help`, beside an empty Python, and what they load
start       a small run through the command line, the first time and with kept programs
ledger      seconds of a round of W1 and W3 with the ledger on disk over those without
sweep       four settings over the cores beside one after the other (each using all cores)
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
    with tempfile.TemporaryDirectory() as place:
        first = seconds(SMALL, 1, TACIT_CACHE=place)
        return {"first": first, "kept": seconds(SMALL, 3, TACIT_CACHE=place)}


def ledger() -> dict[str, Any]:
    """Alternating runs of the same rounds with a folder (ledger, checkpoints) and without."""
    from benchmarks.speed.tacit_side import DELTA, algorithm_of, federation_of, task_of
    from benchmarks.speed.works import WORKS
    from tacit.algorithm import Population
    from tacit.planning import Plan
    from tacit.run.folder import RunFolder
    from tacit.run.training import Progress, Settings, run_plan
    from tacit.simulation.tuning import tuned

    found: dict[str, Any] = {}
    for name, rounds in (("W1", 40), ("W3", 200)):
        work = replace(WORKS[name], rounds=None)
        federation = federation_of(work)
        population = Population(tuple(int(n) for n in federation.sizes))
        plan = Plan(algorithm_of(work), task_of(work), population, rounds)
        simulator = tuned(plan.algorithm, plan.task, federation)
        times: dict[bool, list[float]] = {True: [], False: []}
        for number in range(11):
            for kept in (True, False):
                moments: list[float] = []

                def note(_: Progress, moments: list[float] = moments) -> None:
                    moments.append(time.perf_counter())

                settings = Settings(
                    seed=number, delta=DELTA, eval_every=rounds, oracle=False, on_progress=note
                )
                with tempfile.TemporaryDirectory() as place:
                    folder = RunFolder(Path(place) / "run") if kept else None
                    run_plan(plan, federation, settings, folder, simulator)
                if number:  # the first of each compiles
                    times[kept].append(moments[-1] - moments[0])
        ratios = [a / b for a, b in zip(times[True], times[False], strict=True)]
        quartiles = statistics.quantiles(ratios, n=4)
        found[name] = {"ratio": statistics.median(ratios), "middle_half": quartiles[::2]}
    return found


def sweep() -> dict[str, float]:
    from importlib import resources

    from tacit.run.compare import compared, varied

    text = (resources.files("tacit.examples") / "digits-dp-fedavg.toml").read_text()
    import tomllib

    variants = varied(
        {"digits": tomllib.loads(text)},
        ["algorithm.clip=0.1,0.2,0.4,0.8"],
        ["train.rounds=200", "train.oracle=false"],
    )
    found = {}
    with tempfile.TemporaryDirectory() as place:
        os.environ["TACIT_CACHE"] = place  # nobody starts with kept programs
        for name, jobs in (("over_cores", os.cpu_count() or 1), ("one_after_another", 1)):
            begun = time.perf_counter()
            list(compared(variants, 3, jobs))
            found[name] = time.perf_counter() - begun
    return {**found, "ratio": found["one_after_another"] / found["over_cores"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    found = {"command": "python -m benchmarks.overheads", "load_before": os.getloadavg()[0]}
    for part in (imports, start, ledger, sweep):
        found[part.__name__] = part()
        print(part.__name__, json.dumps(found[part.__name__]), flush=True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
