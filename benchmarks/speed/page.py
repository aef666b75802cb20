"""Write the measured numbers into ``docs/explanation/speed.md``, between its markers.

The text around the numbers is written by hand and is not changed. Run it with
``python -m benchmarks.speed.page``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks import scaling as curves
from benchmarks.speed import picture, table

PAGE = Path("docs/explanation/speed.md")
RESULTS = Path("results/bench")
_MARK = re.compile(r"(<!-- (?P<name>[a-z]+): begin -->\n).*?(<!-- (?P=name): end -->)", re.DOTALL)


def main() -> None:
    speed, scaling, overheads = (
        _read(RESULTS / f"{name}.json") for name in ("speed", "scaling", "overheads")
    )
    parts = {
        "works": _works(speed),
        "goals": _goals(speed),
        "checks": _checks(speed),
        "machine": _machine(speed),
        "curves": _curves(scaling),
        "overheads": _overheads(overheads),
    }
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        _MARK.sub(lambda m: f"{m[1]}{parts[m['name']]}\n{m[3]}", text), encoding="utf-8"
    )
    picture.draw(speed, PAGE.parent / "speed.svg")
    curves.draw(scaling, PAGE.parent / "scaling.svg")


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _works(speed: dict[str, Any]) -> str:
    if not speed:
        return "Not measured yet."
    header = ("work", "side", "s per round", "quartiles", "CPU-s", "wall", "CPU", "peak MiB")
    return f"{table.markdown(header, table.rows(speed))}\n\n![Seconds per round by side](speed.svg)"


def _goals(speed: dict[str, Any]) -> str:
    if not speed:
        return "Not measured yet."
    return table.markdown(("work", "goal", "result", "met"), table.goals(speed))


def _checks(speed: dict[str, Any]) -> str:
    rows = [
        (name, side, f"{value:.0e}")
        for name, work in speed.get("works", {}).items()
        for side, value in work.get("difference", {}).items()
    ]
    return table.markdown(("work", "side", "difference"), rows) if rows else "Not measured yet."


def _machine(speed: dict[str, Any]) -> str:
    if not speed.get("works"):
        return "Not measured yet."
    work = next(iter(speed["works"].values()))
    facts, peak = work["machine"], max(speed["gemm_gflops"].values())
    versions: dict[str, str] = {}
    for one in speed["works"].values():
        for side in one["sides"].values():
            versions |= side.get("versions", {})
    shown = ", ".join(f"{name} {value}" for name, value in sorted(versions.items()))
    return (
        f"{facts['processor']}, {facts['cores']} cores, {facts['memory_gib']:g} GiB;"
        f" {peak:.0f} GFLOP/s in single precision. Versions: {shown}. {table.load(speed)}"
    )


def _curves(scaling: dict[str, Any]) -> str:
    rows = [
        (
            name,
            f"{curve['points'][0]['value']:,} to {curve['points'][-1]['value']:,}",
            f"{curve['time_exponent']:.2f}",
            f"{curve['memory_exponent']:.2f}",
        )
        for name, curve in scaling.get("curves", {}).items()
        if "time_exponent" in curve
    ]
    if not rows:
        return "Not measured yet."
    shown = table.markdown(("size", "range", "growth exponent of time", "of memory"), rows)
    return f"{shown}\n\n![Time and memory over each size](scaling.svg)"


def _overheads(found: dict[str, Any]) -> str:
    if not found:
        return "Not measured yet."
    imports, start, ledger, sweep = (found[k] for k in ("imports", "start", "ledger", "sweep"))
    rows = [
        (
            "`import tacit`, in addition to an empty Python",
            "under 0.3 s",
            f"{imports['import_tacit']:.2f} s",
        ),
        ("`tacit --help` loads JAX", "no", "yes" if imports["help_loads_jax"] else "no"),
        ("`tacit --help`, total time", "", f"{imports['help']:.2f} s"),
        (
            "a small run to its first round, with cached programs",
            "under 3 s",
            f"{start['kept_start']:.2f} s",
        ),
        ("the same to its end", "", f"{start['kept']:.1f} s"),
        ("a small run to its first round, empty cache", "", f"{start['first_start']:.1f} s"),
        *(
            (
                f"ledger, checkpoints and progress, {name}",
                "under 2 %",
                f"{100 * v['ratio'] - 100:.1f} %",
            )
            for name, v in ledger.items()
        ),
        *(
            (
                f"a round with noise from the operating system, relative to a seed, {name}",
                "at most 1.3 times",
                f"{v['ratio']:.2f}",
            )
            for name, v in found.get("real_noise", {}).items()
        ),
        (
            "12 runs in parallel, relative to 12 runs in sequence",
            "1.6 times",
            f"{sweep['ratio']:.1f}",
        ),
    ]
    return table.markdown(("what", "goal", "measured"), rows)


if __name__ == "__main__":
    main()
