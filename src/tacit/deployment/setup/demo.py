"""A complete federation on one machine: a server and three hospitals over TLS."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tacit.deployment.server.processes import serve
from tacit.deployment.setup.folders import make_federation
from tacit.deployment.setup.from_config import demo_federation
from tacit.deployment.setup.overview import budget_of, trust_sentence
from tacit.deployment.transport.process_groups import free_port, start, stop


def run_demo(
    folder: Path, rounds: int, on_progress: Callable[[Mapping[str, Any]], None]
) -> dict[str, Any]:
    """Make the federation, start everything, train, stop everything, and return the result."""
    address = f"127.0.0.1:{free_port()}"
    asked = demo_federation(rounds, address=address, name="demo", timeout=120.0, evaluation=0.05)
    public = make_federation(folder, asked)
    sites: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in public.names:
            sites[name] = start_site(folder / "sites" / name)
        last = serve(folder / "server", on_progress)
    finally:
        for process in sites.values():
            stop(process)
    spent = [budget_of(folder / "sites" / name) for name in public.names]
    return {
        "folder": str(folder),
        "model": str(folder / "server" / "run" / "model.npz"),
        "rounds": last["round"],
        "metrics": dict(last["metrics"]),
        "trust": trust_sentence(public),
        "sites": [{**s, "records": public.about.sites[s["name"]]} for s in spent],
    }


def start_site(folder: Path) -> subprocess.Popen[bytes]:
    """Start the process of a site as its owner would; its log is in its folder."""
    command = [sys.executable, "-m", "tacit", "deploy", "site", str(folder)]
    return start(command, folder / "site.log")
