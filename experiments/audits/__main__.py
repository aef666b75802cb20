"""All audits: ``python -m experiments.audits`` writes results/audit/*.json and their page.

Exit code 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from experiments.audits import methods, page
from tacit.audit.canaries import one_run_audit
from tacit.audit.mechanisms import SUBJECTS, audit
from tacit.cli.run import example_text
from tacit.run import Run
from tacit.run.config import RunConfig

OUT = Path("results/audit")
EXAMPLES = ("digits-dp-fedavg", "digits-local", "digits-silos", "auto-digits", "scaffold-silos")


def mechanisms(draws: int) -> Iterator[dict[str, Any]]:
    """Every mechanism."""
    for name in SUBJECTS:
        yield audit(name, draws=draws).as_dict()


def one_run() -> Iterator[dict[str, Any]]:
    """One training with canaries of every example that needs no download."""
    import tomllib

    for name in EXAMPLES:
        run = Run.from_config(RunConfig.from_dict(tomllib.loads(example_text(name))))
        yield {**one_run_audit(run).as_dict(), "example": name}


def kept(name: str, command: str, found: Iterable[dict[str, Any]]) -> bool:
    """Write the rows to their file; whether every claim held."""
    rows: list[dict[str, Any]] = []
    for row in found:
        rows.append(row)
        word = "VIOLATION" if row["violation"] else "consistent"
        print(f"{word:10} {row['claimed']:7.3f} {row['audited']:7.3f} {row['name']}", flush=True)
    content = json.dumps({"command": command, "rows": rows}, indent=1)
    (OUT / f"{name}.json").write_text(f"{content}\n", encoding="utf-8")
    return not any(row["violation"] for row in rows)


def main() -> int:
    """Run all audits and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=50_000, help="runs on each neighbour")
    draws = parser.parse_args().draws
    OUT.mkdir(parents=True, exist_ok=True)
    command = f"python -m experiments.audits --draws {draws}"
    held = [
        kept("mechanisms", command, mechanisms(10 * draws)),
        kept("methods", command, methods.rows(draws, page.PICTURE)),
        kept("one-run", command, one_run()),
    ]
    page.write()
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
