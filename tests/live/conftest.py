"""Folders of runs, made by hand where a test needs no training, and a client for the live view."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from tacit.accounting import Ledger, gaussian_event
from tacit.live.app import make_app
from tacit.live.guard import Guard
from tacit.live.server import bound
from tacit.live.watch import Watcher
from tacit.live.worker import Worker
from tacit.run_status import RunStatus

CONFIG = """[data]
name = "digits"
[algorithm]
name = "dp-fedavg"
[privacy]
epsilon = 8.0
delta = 1e-5
[train]
rounds = {rounds}
"""
EVENT = gaussian_event(radius=1.0, noise=5.0, relation="zero-out")


def make_run(path: Path, rounds: int = 4, *, done: int | None = None, state: str = "") -> Path:
    """The folder of a run, as a training would leave it after ``done`` rounds."""
    done = rounds if done is None else done
    path.mkdir(parents=True)
    (path / "config.toml").write_text(CONFIG.format(rounds=rounds))
    about = {"noise_from": "seed"}
    with Ledger.create(
        path / "ledger.jsonl", unit="client", relation="zero-out", observer="all", about=about
    ) as ledger:
        labels = [(EVENT, {"round": n, "phase": "train"}) for n in range(done)]
        ledger.done_all(ledger.charge_all(labels))
        sure = ledger.guarantee(1e-5).as_dict()
    lines = [f"{n},test/accuracy,{n / 10}\n{n},oracle/loss,{1 / (n + 1)}\n" for n in range(done)]
    (path / "metrics.csv").write_text("round,metric,value\n" + "".join(lines))
    status = RunStatus(path)
    status.begin(rounds, delta=1e-5, epsilon=8.0)
    status.at(done, rounds=rounds)
    if done == rounds:
        summary = {"guarantee": sure, "rounds": done, "stopped": None, "versions": {}}
        (path / "summary.json").write_text(json.dumps(summary))
        status.__exit__(None, None, None)
    if state:
        change_status(path, state=state)
    return path


def change_status(path: Path, **changes: Any) -> None:
    """As if the process had said something else."""
    found = json.loads((path / "status.json").read_text())
    (path / "status.json").write_text(json.dumps(found | changes))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "runs"
    found.mkdir()
    return found


@pytest.fixture
def client(root: Path) -> Iterator[httpx.Client]:
    yield from opened(root)


def opened(root: Path, host: str = "127.0.0.1", token: str | None = None) -> Iterator[httpx.Client]:
    """A client of a real server in a thread; what takes long is done in threads too."""
    watcher, listener = Watcher(root, Worker(processes=False)), bound("127.0.0.1", 0)
    port = listener.getsockname()[1]
    app = Guard(make_app(watcher), host=host, port=port, token=token)
    server = uvicorn.Server(uvicorn.Config(app, http="h11", ws="none", log_level="error"))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=20, trust_env=False
        ) as found:
            yield found
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def rows(client: httpx.Client) -> dict[str, dict[str, Any]]:
    """The table by name."""
    return {row["id"]: row for row in client.get("/api/runs").json()["rows"]}


def csrf(client: httpx.Client) -> dict[str, str]:
    """The header that the page would send."""
    text = client.get("/").text
    return {"x-tacit-page": text.split('name="csrf" content="')[1].split('"')[0]}
