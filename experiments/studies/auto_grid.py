"""Results of auto on tasks not used for its design, with budgets from 0.5 to 8.

    TACIT_DATA=... python -m experiments.studies.auto_grid
    python -m experiments.studies.auto_grid --tasks digits --budgets 2 8
    python -m experiments.studies.auto_grid --table

At each grid point (task, clients, budget, protection) auto runs without any settings. Every other
method of Tacit with the same protection runs with many settings, drawn at random from wide ranges.
Its best setting is chosen by the test accuracy itself: an oracle that no real user has. Auto and
the best settings then run on new seeds, and these are compared. Every run has a ledger in its own
folder, whose guarantee must equal that of the plan and stay within the budget. The results of a
grid point are written when it is finished, so the work can be interrupted and continued.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tacit.accounting import Budget, Ledger
from tacit.algorithm import Algorithm
from tacit.algorithms import (
    ISRLDP,
    AdaptDPFedAvg,
    Auto,
    AutoLocal,
    DPFedAvg,
    DPFedEXP,
    DPNormFedAvg,
    DPScaffNew,
    DPScaffold,
    RecordDPFedAvg,
)
from tacit.data import federate
from tacit.data.federation import Federation
from tacit.errors import TacitError
from tacit.record_maps import unit_rows, with_x
from tacit.run.loop import Settings
from tacit.run.parallel import over_cores
from tacit.run.run import Run
from tacit.tasks.registry import make as make_task

DELTA = 1e-5
AT_THE_END = 10**6  # rounds between two measurements
BUDGETS = (0.5, 2.0, 8.0)
FRESH = (1, 2, 3)
Draw = np.random.Generator
Make = Callable[[Draw], Algorithm]

# The numbers of clients of each task; two classes are split iid, more classes by Dirichlet(0.3). At
# record level, clients are silos: a tenth as many.
TASKS: dict[str, tuple[int, ...]] = {
    "digits": (50, 150, 500),
    "breast-cancer": (20, 60, 200),
    "mushrooms": (100, 400, 1500),
    "a9a": (200, 1000, 5000),
    "w8a": (200, 1000, 5000),
    "phishing": (100, 500, 2000),
    "bank-marketing": (200, 1000, 5000),
    "cifar10": (500, 2000, 5000),
}


def numbers(task: str, kind: str) -> tuple[int, ...]:
    """The numbers of clients, or of silos."""
    return tuple(n // 10 for n in TASKS[task]) if kind == "record" else TASKS[task]


def _log(low: float, high: float) -> Callable[[Draw], float]:
    return lambda rng: float(np.exp(rng.uniform(math.log(low), math.log(high))))


def _steps(rng: Draw) -> int:
    return int(rng.choice([1, 5, 20]))


CENTRAL: dict[str, Make] = {
    "dp-fedavg": lambda r: DPFedAvg(
        local_steps=_steps(r),
        local_lr=_log(0.05, 5)(r),
        clip=_log(0.02, 2)(r),
        server_lr=_log(0.3, 10)(r),
        server_momentum=float(r.choice([0.0, 0.8])),
    ),
    "dp-norm-fedavg": lambda r: DPNormFedAvg(
        local_steps=_steps(r),
        local_lr=_log(0.05, 5)(r),
        server_ratio=_log(0.05, 50)(r),
        server_momentum=float(r.choice([0.0, 0.8])),
    ),
    "dp-fedexp": lambda r: DPFedEXP(
        local_steps=_steps(r),
        local_lr=_log(0.05, 5)(r),
        clip=_log(0.02, 2)(r),
        relation="zero-out",
    ),
}
LOCAL: dict[str, Make] = {
    "dp-fedexp": lambda r: DPFedEXP(
        trust="local", local_steps=_steps(r), local_lr=_log(0.05, 5)(r), clip=_log(0.02, 2)(r)
    ),
    "dp-fedexp-privunit": lambda r: DPFedEXP(
        trust="local-privunit",
        local_steps=_steps(r),
        local_lr=_log(0.05, 5)(r),
        clip=_log(0.02, 2)(r),
    ),
    "dp-scaffnew": lambda r: DPScaffNew(
        lr=_log(0.05, 2)(r), local_steps=_steps(r), clip=_log(0.02, 2)(r)
    ),
}
RECORD: dict[str, Make] = {
    "dp-fedavg-record": lambda r: RecordDPFedAvg(
        local_steps=_steps(r),
        local_lr=_log(0.05, 5)(r),
        clip=_log(0.05, 3)(r),
        batches="full",
        relation="zero-out",
    ),
    "adaptdp-fedavg": lambda r: AdaptDPFedAvg(local_steps=_steps(r), local_lr=_log(0.05, 5)(r)),
    "dp-scaffold": lambda r: DPScaffold(
        local_steps=_steps(r), local_lr=_log(0.05, 5)(r), clip=_log(0.05, 3)(r)
    ),
    "isrl-dp": lambda r: ISRLDP(clip=_log(0.05, 3)(r), smoothness=_log(0.1, 10)(r)),
}
PROTECTIONS: dict[str, tuple[Algorithm, dict[str, Make]]] = {
    "central": (Auto(), CENTRAL),
    "local": (AutoLocal(centre="private"), LOCAL),
    "record": (Auto(protects="record"), RECORD),
}


@dataclass(frozen=True)
class Place:
    """One grid point, with its results from earlier runs."""

    task: str
    clients: int
    epsilon: float
    kind: str
    tried: int
    known: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """The key that identifies the grid point."""
        return self.task, self.clients, self.epsilon, self.kind


@lru_cache(maxsize=8)
def federation(task: str, clients: int, seed: int, unit: bool) -> Federation:
    """The clients of a seed; ``unit`` scales every record to norm 1."""
    skewed = task in ("digits", "cifar10")
    split: dict[str, Any] = {"split": "dirichlet", "alpha": 0.3} if skewed else {"split": "iid"}
    data = federate(task, **split, clients=clients, seed=seed)
    if not unit:
        return data
    test = data.test
    return replace(
        data,
        records=with_x(data.records, unit_rows(data.records["x"])),
        test=None if test is None else with_x(test, unit_rows(test["x"])),
    )


def run(algorithm: Algorithm, place: Place, seed: int, setting: Any) -> dict[str, Any]:
    """One run with its ledger; accuracy of the returned model on the public test set."""
    data = federation(place.task, place.clients, seed, unit=setting.get("unit", False))
    budget = Budget(place.epsilon, DELTA)
    name = "logistic" if data.classes == 2 else "multinomial"
    model = make_task(name, shape=data.records["x"].shape[1:], classes=data.classes)
    begun = perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        planned = Run.of(
            algorithm,
            model,
            data,
            rounds=setting.get("rounds"),
            budget=budget,
            settings=Settings(seed=seed, eval_every=AT_THE_END, oracle=False),
        )
        result = planned.train(folder)
        spent = Ledger.read(Path(folder) / "ledger.jsonl").guarantee(DELTA)
    verified = spent.epsilon == result.guarantee.epsilon <= place.epsilon * (1 + 1e-9)
    return {
        "accuracy": 100 * result.metrics["test/accuracy"],
        "epsilon_spent": spent.epsilon,
        "verified": verified,
        "rounds": result.rounds,
        "seconds": perf_counter() - begun,
    }


def settings_of(method: str, make: Make, count: int) -> Iterator[tuple[Algorithm, dict[str, Any]]]:
    """Random settings of a method, the same at every grid point."""
    rng = np.random.default_rng(abs(hash_of(method)))
    for number in range(count):
        algorithm = make(rng)
        yield (
            algorithm,
            {
                "number": number,
                "rounds": int(rng.choice([20, 50, 100])),
                "unit": bool(rng.random() < 0.5),
            },
        )


def hash_of(text: str) -> int:
    """A hash of a name that is the same in every process."""
    return int.from_bytes(text.encode(), "big") % 2**31


def work(place: Place) -> list[dict[str, Any]]:
    """Auto and the best setting of every other method at one grid point."""
    rows = [json.loads(line) for line in place.known]
    found = {json.dumps(row["key"]): row for row in rows}

    def get(method: str, algorithm: Algorithm, setting: dict[str, Any], seed: int) -> float:
        key = [*place.key, method, setting.get("number", 0), seed]
        row = found.get(json.dumps(key))
        if row is None:
            try:
                row = {"key": key, **run(algorithm, place, seed, setting)}
            except TacitError as error:
                row = {"key": key, "accuracy": 0.0, "verified": True, "error": str(error)}
            rows.append(row)
        return float(row["accuracy"])

    auto, others = PROTECTIONS[place.kind]
    for seed in FRESH:
        get("auto", auto, {}, seed)
    for method, make in others.items():
        drawn = list(settings_of(method, make, place.tried))
        searched = [get(method, algorithm, setting, 0) for algorithm, setting in drawn]
        algorithm, setting = drawn[int(np.argmax(searched))]
        for seed in FRESH:
            get(method, algorithm, setting, seed)
    return rows


def compared(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """(grid point, auto, best other, which, as good) for every finished grid point."""
    found: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    for row in rows:
        *here, method, _, seed = row["key"]
        if seed in FRESH:
            found.setdefault(tuple(here), {}).setdefault(method, []).append(row["accuracy"])
    answer = []
    for here, methods in sorted(found.items()):
        others = {m: statistics.fmean(v) for m, v in methods.items() if m != "auto"}
        if "auto" not in methods or not others:
            continue
        best = max(others, key=lambda m: others[m])
        spreads = [statistics.variance(methods[m]) for m in ("auto", best)]
        error = math.sqrt(sum(spreads) / len(FRESH))
        auto = statistics.fmean(methods["auto"])
        good = auto >= others[best] - max(1.0, error)
        answer.append((here, auto, others[best], best, good))
    return answer


def sentence(rows: list[dict[str, Any]]) -> str:
    """The share of the grid where auto is as good, and the number of ledgers that verify."""
    places = compared(rows)
    if not places:
        return ""
    tasks = len({here[0] for here, *_ in places})
    good, ahead = sum(p[4] for p in places), sum(p[1] >= p[2] for p in places)
    return (
        f"The grid has {tasks} other tasks and {len(places)} points. The best other method at each"
        " point has settings chosen by an oracle; auto has no settings. Auto is within one"
        f" percentage point or one standard error of it, or better, at {good} points"
        f" ({100 * good / len(places):.0f} %), and at least as accurate at {ahead}."
        f" Ledgers that verify: {sum(r['verified'] for r in rows)} of {len(rows)} runs."
    )


def table(rows: list[dict[str, Any]]) -> str:
    """Auto and the best other method at every grid point."""
    lines = ["| task | clients | epsilon | kind | auto | best other | which | as good |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    lines += [
        f"| {' | '.join(map(str, here))} | {auto:.2f} | {other:.2f} | {best}"
        f" | {'yes' if good else 'no'} |"
        for here, auto, other, best, good in compared(rows)
    ]
    return "\n".join([*lines, "", sentence(rows)])


def main() -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/studies/auto-grid.jsonl"))
    parser.add_argument("--tasks", nargs="*", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--budgets", nargs="*", type=float, default=list(BUDGETS))
    parser.add_argument("--kinds", nargs="*", choices=list(PROTECTIONS), default=["central"])
    parser.add_argument("--tried", type=int, default=16, help="settings per other method")
    parser.add_argument("--sizes", type=int, default=3, help="numbers of clients, largest first")
    parser.add_argument("--jobs", type=int, help="processes; default: one per core")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    if given.table:
        print(table([json.loads(line) for line in lines]))
        return
    known: dict[str, list[str]] = {}
    for line in lines:
        known.setdefault(json.dumps(json.loads(line)["key"][:4]), []).append(line)
    places = [
        Place(task, clients, epsilon, kind, given.tried)
        for kind in given.kinds
        for task in given.tasks
        for clients in numbers(task, kind)[-given.sizes :]
        for epsilon in given.budgets
    ]
    due = [replace(p, known=tuple(known.get(json.dumps(p.key), ()))) for p in places]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    for done, rows in over_cores(work, due, given.jobs):
        with given.out.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows[len(done.known) :])
        print(table(rows).splitlines()[2], flush=True)


if __name__ == "__main__":
    main()
