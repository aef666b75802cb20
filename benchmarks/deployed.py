"""Federations for the deployment benchmarks, their processes, and their memory and disk use."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tacit.deployment.server.processes import FOLDER
from tacit.deployment.setup.demo import start_site
from tacit.deployment.setup.folders import Wanted, make_federation
from tacit.deployment.setup.settings import Public
from tacit.deployment.transport.process_groups import marked, start, stop, stop_marked
from tacit.run.config import RunConfig, as_toml, read_toml


def kill_server(folder: Path, server: subprocess.Popen[bytes]) -> None:
    for process in [server.pid, *marked(f"{FOLDER}={(folder / 'server').resolve()}")]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    server.wait()


def start_server(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tacit", "deploy", "server", str(folder / "server")]
    return start(command, folder / "server.log")


@contextlib.contextmanager
def running(folder: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    names = Public.load(folder / "server").names
    processes = {name: start_site(folder / "sites" / name) for name in names}
    processes["server"] = start_server(folder)
    try:
        yield processes
    finally:
        for process in processes.values():
            stop(process)
        stop_marked(f"{FOLDER}={(folder / 'server').resolve()}")


def large_federation(
    folder: Path, features: int, classes: int, rounds: int, address: str = "127.0.0.1:1"
) -> Public:
    algorithm = {"name": "dp-fedavg", "noise_at": "message", "local_steps": 1, "clip": 0.5}
    task = {"name": "multinomial"}
    return _made(folder, algorithm, task, features, classes, 64, rounds, address, "replace-one")


def small_federation(
    folder: Path,
    algorithm: dict[str, Any],
    rounds: int,
    address: str = "127.0.0.1:1",
    **options: Any,
) -> Public:
    return _made(folder, algorithm, {"name": "logistic"}, 10, 2, 64, rounds, address, **options)


def _made(
    folder: Path,
    algorithm: dict[str, Any],
    task: dict[str, Any],
    features: int,
    classes: int,
    size: int,
    rounds: int,
    address: str,
    relation: str | None = None,
    timeout: float = 60.0,
    headroom: float = 1.5,
) -> Public:
    if relation:
        algorithm = {**algorithm, "relation": relation}
    run = RunConfig.from_dict(
        {
            "data": {"prepared": True, "classes": classes, "path": "nowhere"},
            "task": task,
            "algorithm": algorithm,
            "privacy": {"epsilon": 8.0, "delta": 1e-5},
            "train": {"rounds": rounds, "dtype": "float32"},
        }
    )
    public = make_federation(
        folder,
        Wanted(
            config=run,
            sites=dict.fromkeys(("north", "east", "south"), size),
            records={"x": ["float", features], "y": ["int32"]},
            classes=classes,
            address=address,
            timeout=timeout,
            headroom=headroom,
        ),
    )
    rng = np.random.default_rng(0)
    for name in public.names:
        site = folder / "sites" / name
        x = rng.standard_normal((size, features)) / features**0.5
        np.savez(site / "records.npz", x=x, y=rng.integers(0, classes, size).astype(np.int32))
        values = read_toml(site / "site.toml")
        values["data"] = {"path": "records.npz"}
        (site / "site.toml").write_text(as_toml(values))
    return public


@contextlib.contextmanager
def new_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tacit-"))
    try:
        yield folder / "federation"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def growth_of(folder: Path, started: dict[str, subprocess.Popen[bytes]]) -> dict[str, float]:
    """The resident memory of a site, and the sizes of its folder and of the server's two."""
    site, server = folder / "sites" / "north", folder / "server"
    growing = ("ledger.jsonl", "metrics.csv", "site.log")
    return {
        "site_resident_mib": _resident(started["north"].pid),
        "server_processes_resident_mib": sum(
            _resident(p) for p in marked(f"{FOLDER}={server.resolve()}")
        ),
        "site_ledger_bytes": (site / "ledger.jsonl").stat().st_size,
        "site_other_bytes": _bytes_in(site, but=growing),
        "server_other_bytes": _bytes_in(server / "run", but=growing),
        "flower_bytes": _bytes_in(server / "flower", but=("superlink.log",)),
    }


def _resident(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def _bytes_in(folder: Path, *, but: tuple[str, ...]) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and p.name not in but)


def sizes_of(folder: Path) -> dict[str, float]:
    files = [p for p in folder.rglob("*") if p.is_file()]
    ledgers = [p for p in files if p.name in ("ledger.jsonl", "metrics.csv")]
    page = resource.getpagesize()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * page
    return {
        "resident_mib": resident / 2**20,
        "files": len(files),
        "bytes_of_ledgers_and_metrics": sum(p.stat().st_size for p in ledgers),
        "bytes_of_everything_else": sum(p.stat().st_size for p in files)
        - sum(p.stat().st_size for p in ledgers),
    }
