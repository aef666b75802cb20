"""Search every task, in both precisions, compiled and not, and write what was found.

With ``--more`` the file's rows are kept and added to, so a long search can go on another day.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any, get_args

from experiments.studies.adversarial.cases import cases, missing
from experiments.studies.adversarial.programs import TRIED
from experiments.studies.adversarial.reference import reference
from experiments.studies.adversarial.search import ALLOWED, Search
from experiments.studies.adversarial.table import table
from tacit.precision import Precision


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/studies/adversarial-models.json"))
    parser.add_argument("--seconds", type=float, default=3600, help="in total")
    parser.add_argument("--tasks", nargs="*", help="all if not given")
    parser.add_argument("--compiled", nargs="*", default=list(TRIED), choices=list(TRIED))
    parser.add_argument("--ways", nargs="*", help="of bounding; all if not given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--more", action="store_true", help="add to what the file holds")
    given = parser.parse_args()
    found = {k: v for k, v in cases().items() if given.tasks is None or k in given.tasks}
    each = [(dtype, compiled) for dtype in get_args(Precision) for compiled in given.compiled]
    kept, commands = list[dict[str, Any]](), list[str]()
    if given.more:
        before = json.loads(given.out.read_text(encoding="utf-8"))
        kept, commands = before["rows"], before["commands"]
    commands.append(f"python -m experiments.studies.adversarial {shlex.join(sys.argv[1:])}")
    end, rows = time.monotonic() + given.seconds, list[dict[str, Any]]()
    left = len(found) * sum(len(TRIED[compiled]) for _, compiled in each)
    for name, case in found.items():
        known = reference(case.task)
        for dtype, compiled in each:
            search = Search(case, dtype, compiled, known, seed=given.seed + len(rows))
            ways = None if given.ways is None else tuple(given.ways)
            search.run((end - time.monotonic()) * len(TRIED[compiled]) / left, ways)
            left -= len(TRIED[compiled])
            rows.append(search.row(name))
            write(given.out, together([*kept, *rows]), commands)
            print(*list(rows[-1].values())[:8], sep=" | ", flush=True)
    print(table({"rows": together([*kept, *rows])}))


def together(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each task, precision and compilation: the worst found, and all that was tried."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        key = row["task"], row["dtype"], row["compiled"]
        old = found.get(key, row)
        sums = {k: old[k] + row[k] for k in ("models", "seconds", "wrong sums")}
        ways = {**old["ways"], **row["ways"]}
        most = {w: max(r["ways"].get(w, 0.0) for r in (old, row)) for w in ways}
        top = max(old, row, key=lambda r: r["worst"])
        found[key] = row if old is row else {**top, **sums, "ways": most}
    return list(found.values())


def write(out: Path, rows: list[dict[str, Any]], commands: list[str]) -> None:
    """The results so far."""
    content = {
        "commands": commands,
        "seconds": round(sum(row["seconds"] for row in rows)),
        "models": sum(row["models"] for row in rows),
        "not searched": missing({row["task"] for row in rows}),
        "violations": sum(row["worst"] > ALLOWED for row in rows),
        "rows": rows,
    }
    out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
