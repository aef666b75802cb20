"""The speed of ledger appends and opens: ``python -m benchmarks.ledger [--charges 100000]``."""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from dp_accounting import dp_event

from tacit.accounting.ledger import Ledger

EVENT = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.3))
SINGLE = 1_000
BATCH = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--charges", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=None, help="where to write (a real disk)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        run(Path(folder) / "run.ledger", arguments.charges)


def run(path: Path, charges: int) -> None:
    print(f"{'what':<44}{'seconds':>10}{'per charge':>14}")
    with Ledger.create(path, unit="client", relation="add-remove", observer="the public") as ledger:
        row("charge, one fsync each", SINGLE, lambda: append_singly(ledger, 0, SINGLE))
        rest = charges - 2 * SINGLE
        row(f"charge_all by {BATCH}", rest, lambda: append_in_batches(ledger, SINGLE, rest))
        row(
            f"charge, one fsync each, after {charges - SINGLE:,}",
            SINGLE,
            lambda: append_singly(ledger, charges - SINGLE, SINGLE),
        )
        row(f"done_all by {BATCH}", charges, lambda: finish_in_batches(ledger, charges))
    row("open, every line checked", charges, lambda: Ledger.open(path).close())
    ledger = Ledger.read(path)
    row("first find, which builds the index", charges, lambda: ledger.find(run="a", round=7))
    row("next find", 1, lambda: ledger.find(run="a", round=8))
    row("spent", 1, ledger.spent)
    print(f"{2 * charges + 1:,} lines, {path.stat().st_size / 1e6:.1f} MB")


def append_singly(ledger: Ledger, first: int, count: int) -> None:
    for number in range(first, first + count):
        ledger.charge(EVENT, run="a", round=number, phase="step", attempt=0)


def append_in_batches(ledger: Ledger, first: int, count: int) -> None:
    for start in range(first, first + count, BATCH):
        ledger.charge_all(
            (EVENT, {"run": "a", "round": number, "phase": "step", "attempt": 0})
            for number in range(start, min(start + BATCH, first + count))
        )


def finish_in_batches(ledger: Ledger, charges: int) -> None:
    for start in range(0, charges, BATCH):
        ledger.done_all(range(start, min(start + BATCH, charges)))


def row(what: str, count: int, work: Callable[[], object]) -> None:
    start = perf_counter()
    work()
    seconds = perf_counter() - start
    print(f"{what:<44}{seconds:>10.3f}{1e6 * seconds / count:>11.1f} us")


if __name__ == "__main__":
    main()
