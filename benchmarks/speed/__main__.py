"""Time all works with Tacit and its peers: ``python -m benchmarks.speed`` (``make bench``).

A "work" is one benchmark task, a "side" is one simulator (Tacit or a peer). Results are stored
after every repetition: ``--only W2`` measures one work again and leaves the others unchanged.
``--quick`` measures Tacit only.
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

from benchmarks.speed import environments, machine, table
from benchmarks.speed.measure import Effort, measure
from benchmarks.speed.works import WORKS

FOLDER = Path("results/bench")


def main() -> None:
    signal.signal(signal.SIGTERM, _end)
    given = _arguments()
    out = given.out or FOLDER / ("speed-quick.json" if given.quick else "speed.json")
    if not given.show:
        _measure_all(given, out)
    found = _read(out)
    print(table.text(found))


def _end(number: int, frame: object) -> None:
    """Stop all workers and exit; every finished repetition is already on disk."""
    del frame
    sys.exit(f"stopped by signal {number}; finished measurements are stored.")


def _measure_all(given: argparse.Namespace, out: Path) -> None:
    peers = _ready_peers(given)
    effort = Effort(
        repeats=given.repeats,
        seconds=given.seconds,
        limit=given.limit,
        tiny=given.tiny,
        check=not (given.quick or given.no_check),
    )
    found = _read(out) if out.exists() else {}
    found.setdefault("works", {})
    found["gemm_gflops"] = machine.gemm_peak()
    for name in given.only:
        sides = ["tacit", *(p for p in WORKS[name].peers if p in peers)]
        print(f"{name}: {', '.join(sides)} ...", flush=True)
        about = {"command": _command(), "machine": machine.describe()}

        def keep(part: dict[str, Any], name: str = name, about: Any = about) -> None:
            found["works"][name] = {**part, **about}
            _write(out, found)

        keep(measure(name, sides, effort, keep))
        for failure in found["works"][name]["failed"].values():
            print(f"  {failure}", flush=True)
    if not given.no_exact:
        from benchmarks.speed.exact import differences

        print("float64 against the plain reference ...", flush=True)
        found["exact"] = found.get("exact", {}) | differences(given.only)
    _write(out, found)


def _ready_peers(given: argparse.Namespace) -> list[str]:
    asked = [] if given.quick else [p for p in given.peers if p != "none"]
    ready = []
    for side in asked:
        failure = environments.ready(environments.peer_of(side))
        if failure is None:
            ready.append(side)
        else:
            print(failure, file=sys.stderr)
    return ready


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _write(path: Path, found: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def _command() -> str:
    return shlex.join(["python", "-m", "benchmarks.speed", *sys.argv[1:]])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.speed", description=__doc__)
    parser.add_argument("--only", type=_names(WORKS), default=list(WORKS), help="W1,W3b,...")
    peers = list(dict.fromkeys(peer for work in WORKS.values() for peer in work.peers))
    parser.add_argument(
        "--peers", type=_names([*peers, "none"]), default=peers, help=f"of {','.join(peers)}"
    )
    parser.add_argument("--repeats", type=int, default=5, help="measurements per side")
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of one measurement")
    parser.add_argument("--limit", type=float, default=900.0, help="time limit of one answer, in s")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for a quick test")
    parser.add_argument("--quick", action="store_true", help="Tacit only, in a few minutes")
    parser.add_argument("--no-exact", action="store_true", help="skip the float64 check")
    parser.add_argument("--no-check", action="store_true", help="skip the float32 check")
    parser.add_argument("--show", action="store_true", help="only show the stored results")
    parser.add_argument("--out", type=Path, help="the file with the results")
    given = parser.parse_args()
    if given.quick:
        given.repeats, given.seconds = min(given.repeats, 3), min(given.seconds, 2.0)
    return given


def _names(known: Any) -> Any:
    def names(text: str) -> list[str]:
        found = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in found if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(
                f"{unknown[0]!r} is unknown: choose from {', '.join(known)}."
            )
        return found

    return names


if __name__ == "__main__":
    main()
