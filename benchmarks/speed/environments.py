"""Where each side runs: Tacit in this environment, every peer in one of its own under ``.bench``.

Environments are made once; a file with what was asked for marks one that is complete. PyTorch is
quickest with one thread on some works and with a thread for each core on others, so a peer that
uses it comes twice: under its name with one thread, and as ``…-threads`` with all of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".bench"

ALL_THREADS = "-threads"
PLAIN = "tacit-plain"  # Tacit with linear models trained in their parameters, not in the span

# The CPU build of PyTorch comes first, so that nothing later asks for another one.
TORCH = ("torch==2.13.0",)
PEERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "pfl": (TORCH, ("pfl[pytorch]==0.6.*",)),
    "fedjax": (("fedjax==0.0.17", "jax==0.10.2", "jaxlib==0.10.2"),),
    "flower": (TORCH, ("flwr[simulation]==1.41.0",)),
    "opacus": (TORCH, ("opacus==1.6.*",)),
}


def ready(peer: str) -> str | None:
    """Make the peer's environment if it is not there; the reason if that fails."""
    if peer == PLAIN:
        return None
    place, steps = FOLDER / peer, PEERS[peer]
    wanted = "\n".join(" ".join(step) for step in steps) + "\n"
    mark = place / "installed.txt"
    if mark.exists() and mark.read_text(encoding="utf-8") == wanted:
        return None
    print(f"setting up {place.relative_to(ROOT)} (once) ...", flush=True)
    commands = [[sys.executable, "-m", "venv", str(place)]]
    pip = [str(place / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    commands += [[*pip, *step] for step in steps]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{peer} could not be installed: {done.stderr.strip().splitlines()[-1]}"
    mark.write_text(wanted, encoding="utf-8")
    return None


def peer_of(side: str) -> str:
    """The peer behind a side's name."""
    return side.removesuffix(ALL_THREADS)


def command(side: str) -> list[str]:
    """How a side's worker is started."""
    if side in ("tacit", PLAIN):
        return [sys.executable, "-m", "benchmarks.speed.tacit_side"]
    peer = peer_of(side)
    return [str(FOLDER / peer / "bin" / "python"), "-m", f"benchmarks.speed.peers.{peer}_side"]


def variables(side: str) -> dict[str, str]:
    """The environment variables of a side's worker."""
    found = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    if side == PLAIN:
        found["BENCH_PLAIN"] = "1"
    if TORCH in PEERS.get(peer_of(side), ()) and not side.endswith(ALL_THREADS):
        found |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return found
