"""Write the measured results of auto into its page and that of secure sums.

The text around the numbers is written by hand and is not changed.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from experiments.studies import (
    auto_combinations,
    auto_grid,
    auto_record,
    auto_regression,
    auto_targets,
    trust,
)

RESULTS = Path("results/studies")
PAGES = (Path("docs/explanation/auto.md"), Path("docs/explanation/secure-sums.md"))
_MARK = re.compile(
    r"(<!-- auto-(?P<name>[a-z]+): begin -->\n).*?(<!-- auto-(?P=name): end -->)", re.DOTALL
)


def rows_of(name: str) -> list[dict[str, Any]]:
    """The results of a benchmark; none if it has not been run."""
    path = RESULTS / f"auto-{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def whole_of(name: str) -> list[dict[str, Any]]:
    """The rows of a benchmark that is one file; none if it has not been run."""
    path = RESULTS / f"auto-{name}.json"
    found: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    return found


def main() -> None:
    """Write both pages."""
    targets, grid, tried = (rows_of(name) for name in ("targets", "grid", "combinations"))
    fitted, by_record = (whole_of(name) for name in ("regression", "record"))
    parts = {
        "targets": auto_targets.table(targets),
        "grid": auto_grid.table(grid) if grid else "Not run yet.",
        "combinations": auto_combinations.table(tried) if tried else "Not run yet.",
        "regression": auto_regression.table(fitted) if fitted else "Not run yet.",
        "record": auto_record.table(by_record) if by_record else "Not run yet.",
        "trust": trust.table(whole_of("trust")) if whole_of("trust") else "Not run yet.",
    }
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(
            _MARK.sub(lambda m: f"{m[1]}{parts[m['name']]}\n{m[3]}", text), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
