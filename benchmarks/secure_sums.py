"""What a secure sum costs: computing at a site and at the server, and bytes, over sites and sizes.

    python -m benchmarks.secure_sums

Sessions run in one process with the real parties. "plain" is what the same work costs without a
secure sum, beside it: rounding and noise of one message, and the bytes of its floats. Writes
results/bench/secure-sums.json, and the table of docs/explanation/secure-sums.md.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tacit.mechanisms.rounded import released
from tacit.mechanisms.shares import Summands, grids
from tacit.secure_aggregation.collector import Collector
from tacit.secure_aggregation.party import SEALED, Party
from tacit.secure_aggregation.shamir import SHARE
from tacit.secure_aggregation.statements import SIGNATURE, Context, Keys

OUT = Path("results/bench/secure-sums.json")
PAGE = Path("docs/explanation/secure-sums.md")
BEGIN, END = "<!-- secure-sums: begin -->\n", "<!-- secure-sums: end -->\n"
LEVEL = 5.0
CURVE = ((3, 1_000), (3, 100_000), (10, 1_000), (10, 100_000), (10, 1_000_000), (30, 100_000))
LARGE = ((100, 1_000), (100, 100_000))


class Clock:
    """Adds up seconds under a name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, work: Any, *given: Any) -> Any:
        begun = time.perf_counter()
        result = work(*given)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun
        return result


def session(sites: int, numbers: int, missing: int = 0) -> dict[str, Any]:
    """One secure sum of so many sites; the first ``missing`` send no masked numbers."""
    carriers = sites - sites // 3
    asked = Summands(
        numbers=numbers, radius=1.0, reach=sites, level=LEVEL, clients=sites, carriers=carriers
    )
    grid = grids({"x": asked})["x"]
    context = Context(
        "bench", "run", 0, "train", sites, sites - missing, grid.modulus, ((numbers, grid.bits),)
    )
    keys = [Ed25519PrivateKey.generate() for _ in range(sites)]
    signers = [key.public_key() for key in keys]
    at_site, at_server = Clock(), Clock()
    begun = time.perf_counter()
    parties = [at_site("keys", Party, context, i, keys[i], signers) for i in range(sites)]
    server = Collector(context, signers)
    for i, party in enumerate(parties):
        at_server("keys", server.add_keys, i, at_site("keys", party.keys))
    roster = server.roster()
    for i, party in enumerate(parties):
        at_server("share", server.add_shares, i, at_site("share", party.share, roster))
    value = np.full(numbers, 0.5 / np.sqrt(numbers))
    for i, party in enumerate(parties[missing:], missing):
        at_site("receive", party.receive, server.shares_for(i))
        noisy = at_site("noise", grid.share, value)
        at_server("mask", server.add_masked, i, at_site("mask", party.mask, noisy))
    present = server.present()
    for i in present:
        at_server("agree", server.add_signature, i, at_site("agree", parties[i].agree, present))
    signatures = server.signatures()
    for i in present:
        at_server("open", server.add_opened, i, at_site("open", parties[i].open, signatures))
    total = at_server("total", server.total)
    spread = LEVEL * np.sqrt((sites - missing) / carriers)
    assert abs(grid.value(total).std() / spread - 1) < 0.2
    sent = (
        Keys.SIZE + (sites - 1) * SEALED + numbers * grid.modulus // 8 + SIGNATURE + sites * SHARE
    )
    return {
        "sites": sites,
        "numbers": numbers,
        "missing": missing,
        "modulus": grid.modulus,
        "site_seconds": sum(at_site.seconds.values()) / sites,
        "site_steps": {name: value / sites for name, value in at_site.seconds.items()},
        "server_seconds": sum(at_server.seconds.values()),
        "whole_seconds": time.perf_counter() - begun,
        "sent_bytes": sent,
        "bytes_over_float32": sent / (4 * numbers),
        "bytes_over_float64": sent / (8 * numbers),
    }


def plain(numbers: int) -> float:
    """Seconds for the noise of one plain message."""
    begun = time.perf_counter()
    released(np.zeros((1, numbers)), LEVEL, 1.0)
    return time.perf_counter() - begun


def measured(sites: int, numbers: int, repeats: int, missing: int = 0) -> dict[str, Any]:
    """The median of some sessions, with plain messages beside them."""
    runs = [session(sites, numbers, missing) for _ in range(repeats)]
    row = sorted(runs, key=lambda run: float(run["site_seconds"]))[repeats // 2]
    beside = median(plain(numbers) for _ in range(repeats))
    row |= {"plain_seconds": beside, "site_over_plain": row["site_seconds"] / beside}
    print(
        f"{sites:4d} sites {numbers:9,d} numbers: site {row['site_seconds']:.3f} s"
        f" ({row['site_over_plain']:.1f} times a plain message), server"
        f" {row['server_seconds']:.3f} s, all {row['whole_seconds']:.2f} s,"
        f" {row['bytes_over_float32']:.2f} times the bytes of float32, 2^{row['modulus']}",
        flush=True,
    )
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The table of the page on secure sums."""
    head = "| sites | numbers | missing | a site, s | over a plain message | the server, s |"
    lines = [head + " bytes over float32 | modulus |", "|---" * 8 + "|"]
    lines += [
        f"| {r['sites']} | {r['numbers']:,} | {r['missing']} | {r['site_seconds']:.3f}"
        f" | {r['site_over_plain']:.1f} | {r['server_seconds']:.3f}"
        f" | {r['bytes_over_float32']:.2f} | 2^{r['modulus']} |"
        for r in rows
    ]
    return "\n".join(lines)


def written(page: str, rows: list[dict[str, Any]]) -> str:
    """The page with the table of these rows between its marks."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table(rows) + "\n" + END + rest.partition(END)[2]


def main() -> None:
    quick = "--quick" in sys.argv
    rows = [measured(sites, numbers, 1 if quick else 5) for sites, numbers in CURVE]
    rows += [measured(10, 100_000, 1 if quick else 5, missing=3)]
    if not quick:
        rows += [measured(sites, numbers, 1) for sites, numbers in LARGE]
        command = "python -m benchmarks.secure_sums"
        OUT.write_text(json.dumps({"command": command, "rows": rows}, indent=1) + "\n")
        PAGE.write_text(written(PAGE.read_text(), rows))


if __name__ == "__main__":
    main()
