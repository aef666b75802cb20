"""The environments: Tacit runs in this one, every peer in its own under ``.bench``.

An environment is made once; a file with its requirements marks it as complete. PyTorch is fastest
with one thread on some works and with one thread per core on others, so a peer that uses it is
measured twice: under its name with one thread, and as ``…-threads`` with all of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".bench"

ALL_THREADS = "-threads"
PLAIN = "tacit-plain"  # Tacit without the Gram-matrix form for linear models

# The CPU build of PyTorch is installed first, so that no other package installs another build.
TORCH = ("torch==2.13.0",)
PEERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "pfl": (TORCH, ("pfl[pytorch]==0.6.*",)),
    "fedjax": (("fedjax==0.0.17", "jax==0.10.2", "jaxlib==0.10.2"),),
    "flower": (TORCH, ("flwr[simulation]==1.41.0",)),
    "opacus": (TORCH, ("opacus==1.6.*",)),
}


def ready(peer: str) -> str | None:
    """Make the environment of a peer if it does not exist; returns the reason if that fails."""
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
    """The peer of a side."""
    return side.removesuffix(ALL_THREADS)


def command(side: str) -> list[str]:
    """The command that starts the worker of a side."""
    if side in ("tacit", PLAIN):
        return [sys.executable, "-m", "benchmarks.speed.tacit_side"]
    peer = peer_of(side)
    return [str(FOLDER / peer / "bin" / "python"), "-m", f"benchmarks.speed.peers.{peer}_side"]


def variables(side: str) -> dict[str, str]:
    """The environment variables of the worker of a side."""
    found = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    if side == PLAIN:
        found["BENCH_PLAIN"] = "1"
    if TORCH in PEERS.get(peer_of(side), ()) and not side.endswith(ALL_THREADS):
        found |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return found
