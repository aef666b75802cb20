"""The speed of loading and splitting data: ``python -m benchmarks.data`` (MNIST: TACIT_DATA)."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np

from tacit.data import Preprocessing, federate, load, own_data
from tacit.data.splits import cuts as splits
from tacit.errors import DataError

T = TypeVar("T")

RECORDS, CLIENTS = 60_000, 10_000
MEANING = Preprocessing.from_config(
    {
        "columns": {"age": {"range": [0, 100]}, "smokes": {"categories": ["no", "yes"]}},
        "target": {"column": "ill", "classes": ["no", "yes"]},
    }
)


def main() -> None:
    print(f"{'what':<64}{'seconds':>9}{'goal':>7}")
    y = np.random.default_rng(0).integers(0, 10, RECORDS)
    ways: dict[str, Callable[[], splits.Parts]] = {
        "iid": lambda: splits.iid(RECORDS, CLIENTS),
        "dirichlet(0.1)": lambda: splits.dirichlet(y, CLIENTS, alpha=0.1),
        "dirichlet(0.1), equal sizes": lambda: splits.dirichlet(
            y, CLIENTS, alpha=0.1, equal_sizes=True
        ),
        "shards of 2 labels": lambda: splits.shards(y, CLIENTS, labels_per_client=2),
        "mixed": lambda: splits.mixed(y, CLIENTS, iid_share=0.3),
    }
    for name, way in ways.items():
        row(f"{RECORDS:,} records over {CLIENTS:,} clients, {name}", 2.0, way)
    try:
        mnist = row("load mnist, checked", 2.0, lambda: load("mnist"))
        row(
            f"mnist over {CLIENTS:,} clients, dirichlet(0.1)",
            2.0,
            lambda: federate(mnist, split="dirichlet", clients=CLIENTS, alpha=0.1),
        )
        row("load mnist by writer, 539 clients", 2.0, lambda: federate("mnist-writers"))
    except DataError as error:
        print(f"mnist left out: {error}")
    with tempfile.TemporaryDirectory() as folder:
        for i in range(CLIENTS):
            text = f"age,smokes,ill\n{i % 100},no,yes\n{i % 90},yes,no\n"
            (Path(folder) / f"{i:05d}.csv").write_text(text)
        row(f"{CLIENTS:,} tiny CSV files", 10.0, lambda: own_data(folder, MEANING), 1)


def row(what: str, goal: float, work: Callable[[], T], times: int = 3) -> T:
    """Print the best of a few runs; slower ones were delayed by the disk or other programs."""
    took = []
    for _ in range(times):
        start = perf_counter()
        result = work()
        took.append(perf_counter() - start)
    late = "" if min(took) <= goal else "  slow"
    print(f"{what:<64}{min(took):>9.2f}{goal:>7.0f}{late}")
    return result


if __name__ == "__main__":
    main()
