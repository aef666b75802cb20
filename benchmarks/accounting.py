"""The speed of the accounting: ``python -m benchmarks.accounting [--out [FILE]]``.

Three tasks with a time limit each, on one core: an exact Gaussian epsilon, the numerical
composition of 22,600 sampled releases, and the calibration of their noise.
"""

import argparse
import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

# The limits are for one core; set this before the numerical libraries start their threads.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

from tacit.accounting import (  # noqa: E402
    Budget,
    DpEvent,
    FixedSize,
    Poisson,
    Relation,
    calibrate,
    epsilon_of,
    gaussian_event,
)

RESULT = Path("results/bench/accounting.json")
RECORDS, BATCH, STEPS, DELTA = 22_605, 100, 22_600, 1e-4


@dataclass(frozen=True)
class Row:
    what: str
    result: float
    seconds: float
    limit: float
    repeats: int

    @property
    def met(self) -> bool:
        return self.seconds < self.limit


def exact(noise: float = 5.0) -> float:
    event = gaussian_event(radius=1.0, noise=noise, relation="replace-one", count=50)
    return epsilon_of(event, delta=1e-5, relation="replace-one")


def fixed_size(noise: float) -> DpEvent:
    sampling = FixedSize(sample=BATCH, population=RECORDS)
    return gaussian_event(
        radius=1.0, noise=noise, relation="replace-one", sampling=sampling, count=STEPS
    )


def poisson(noise: float) -> DpEvent:
    sampling = Poisson(rate=BATCH / RECORDS)
    return gaussian_event(
        radius=1.0, noise=noise, relation="add-remove", sampling=sampling, count=STEPS
    )


def measured(what: str, work: Callable[[], float], *, limit: float, repeats: int) -> Row:
    """The median time, without the first call (which imports modules and fills caches)."""
    result = work()
    times = []
    for _ in range(repeats):
        start = perf_counter()
        result = work()
        times.append(perf_counter() - start)
    return Row(what, result, sorted(times)[repeats // 2], limit, repeats)


def rows() -> list[Row]:
    found = [measured("exact Gaussian: epsilon", exact, limit=1e-3, repeats=201)]
    cases: list[tuple[str, Callable[[float], DpEvent], float, Relation]] = [
        ("fixed size, replace-one", fixed_size, 5.043, "replace-one"),
        ("Poisson, add-remove", poisson, 2.239, "add-remove"),
    ]
    for name, event, noise, relation in cases:
        spent = partial(spent_by, event, noise, relation)
        found.append(measured(f"{name}: epsilon of {STEPS:,}", spent, limit=2.0, repeats=5))
        found.extend(
            measured(
                f"{name}: noise for epsilon {epsilon:g}",
                partial(calibrate, event, Budget(epsilon, DELTA), relation=relation),
                limit=20.0,
                repeats=1,
            )
            for epsilon in (1.0, 8.0)
        )
    return found


def spent_by(event: Callable[[float], DpEvent], noise: float, relation: Relation) -> float:
    return epsilon_of(event(noise), delta=DELTA, relation=relation)


def show(found: list[Row]) -> None:
    print(f"{'what':<52}{'result':>12}{'measured':>14}{'limit':>10}")
    for row in found:
        mark = "" if row.met else "  MISSED"
        print(
            f"{row.what:<52}{row.result:>12.6g}{1e3 * row.seconds:>11.3f} ms"
            f"{1e3 * row.limit:>7.0f} ms{mark}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, nargs="?", const=RESULT, help=f"write JSON, by default to {RESULT}"
    )
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    found = rows()
    show(found)
    if arguments.out is not None:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        answer = {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": 1,
            "rows": [{**asdict(row), "met": row.met} for row in found],
        }
        arguments.out.write_text(json.dumps(answer, indent=2) + "\n")


if __name__ == "__main__":
    main()
