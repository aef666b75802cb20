"""The results as a table: for the terminal, and for the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.speed.environments import peer_of

COLUMNS = ("work", "side", "s per round", "quartiles", "CPU-s", "wall", "CPU", "MiB")

# The goals: (work, peer, wall or cpu, factor by which Tacit is faster).
GOALS = (
    ("W1", "tacit-plain", "cpu", 3.0),
    ("W1", "pfl", "cpu", 12.0),
    ("W1", "fedjax", "cpu", 8.0),
    ("W1", "flower", "wall", 40.0),
    ("W2", "pfl", "cpu", 3.0),
    ("W2", "pfl", "wall", 5.0),
    ("W3", "opacus", "wall", 2.0),
    ("W3b", "opacus", "wall", 2.0),
)
W4_SECONDS = 100e-6


def rows(found: dict[str, Any]) -> list[tuple[str, ...]]:
    """One row per side and work."""
    answer: list[tuple[str, ...]] = []
    for name, work in sorted(found["works"].items()):
        for side, result in work["sides"].items():
            if "per_round" not in result:
                continue
            wall, cpu = result["per_round"]["wall"], result["per_round"]["cpu"]
            ratio = work.get("ratios", {}).get(side)
            answer.append(
                (
                    name,
                    side,
                    seconds(wall["median"]),
                    f"{seconds(wall['low'])}-{seconds(wall['high'])}",
                    seconds(cpu["median"]),
                    f"{ratio['wall']:.1f}x" if ratio else "",
                    f"{ratio['cpu']:.1f}x" if ratio else "",
                    f"{result['peak_mib']:.0f}",
                )
            )
    return answer


def goals(found: dict[str, Any]) -> list[tuple[str, ...]]:
    """The goals, the results, and whether they are met."""
    answer: list[tuple[str, ...]] = []
    full = {name: work for name, work in found["works"].items() if not work["tiny"]}
    for name, peer, what, times in GOALS:
        ratio = _least(full.get(name, {}).get("ratios", {}), peer)
        if ratio is not None:
            meant = f"{times:g} times {'fewer CPU-seconds' if what == 'cpu' else 'faster'}"
            shown = f"{ratio[what]:.1f}"
            met = "yes" if ratio[what] >= times else "no"
            answer.append((name, f"{meant} than {peer}", shown, met))
    w4 = full.get("W4", {}).get("sides", {}).get("tacit", {}).get("per_round")
    if w4 is not None:
        each = w4["wall"]["median"]
        met = "yes" if each < W4_SECONDS else "no"
        answer.append(("W4", "under 100 us per round", f"{each * 1e6:.0f} us", met))
    for name, difference in found.get("exact", {}).items():
        met = "yes" if difference < 1e-7 else "no"
        answer.append((name, "float64: agrees to 7 digits", f"{difference:.0e}", met))
    return answer


def _least(ratios: dict[str, dict[str, float]], peer: str) -> dict[str, float] | None:
    """The speed-up against the best variant of a peer, for wall and CPU time separately."""
    own = [ratio for side, ratio in ratios.items() if peer_of(side) == peer]
    if not own:
        return None
    return {what: min(ratio[what] for ratio in own) for what in ("wall", "cpu")}


def text(found: dict[str, Any]) -> str:
    """All results, for a terminal of 80 columns."""
    parts = [_aligned([COLUMNS, *rows(found)])]
    peak = max(found["gemm_gflops"].values())
    limits = {n: w["gflop"] / peak for n, w in found["works"].items() if w["gflop"] > 0.1}
    shown = ", ".join(f"{name} {seconds(limit)}" for name, limit in limits.items())
    parts.append(f"Peak of matrix products: {peak:.0f} GFLOP/s. A round at that peak: {shown}.")
    parts.append(_aligned([("work", "goal", "result", "met"), *goals(found)]))
    parts += [f"{n}: {f}" for n, w in found["works"].items() for f in w["failed"].values()]
    parts.append(load(found))
    return "\n\n".join(parts)


def load(found: dict[str, Any]) -> str:
    """The load by other programs during the measurements."""
    others = [
        side["others"]["median"]
        for work in found["works"].values()
        for side in work["sides"].values()
        if "others" in side
    ]
    if not others:
        return "Nothing was measured."
    return (
        f"Other programs used {min(others):.2f} to {max(others):.2f} cores (medians by side)."
        + (" These numbers are provisional." if max(others) > 0.2 else "")
    )


def markdown(header: tuple[str, ...], body: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [header, tuple("---" for _ in header), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def seconds(value: float) -> str:
    """A time with three digits and its unit."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 1e-6:.2g} us"


def _aligned(lines: list[tuple[str, ...]]) -> str:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
