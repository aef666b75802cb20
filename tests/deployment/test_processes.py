"""The deployment between real processes, over TLS with authenticated nodes (make deploy-test)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra deploy: pip install 'tacit-fl[deploy]'")
if not os.environ.get("TACIT_PROCESSES"):
    pytest.skip("real processes take minutes: set TACIT_PROCESSES=1", allow_module_level=True)

from folders import LOCAL, config, make

from tacit.accounting import Ledger
from tacit.deployment.server.processes import FOLDER, progress_of
from tacit.deployment.setup.demo import start_site
from tacit.deployment.setup.settings import Public
from tacit.deployment.transport.process_groups import (
    free_port,
    marked,
    start,
    stop,
    stop_marked,
    working,
)

HERE = Path(__file__).parent
TWO = {"north": 5, "east": 7}


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        stop(process)


def federation(
    folder: Path, seed: int = 0, algorithm: dict[str, Any] = LOCAL, **options: Any
) -> Public:
    address = f"127.0.0.1:{free_port()}"
    return make(
        folder,
        config(algorithm),
        seed=seed,
        sizes=TWO,
        insecure=False,
        address=address,
        timeout=60.0,
        **options,
    )


def server(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tacit", "deploy", "server", str(folder / "server"), "--json"]
    return start(command, folder / "server.log")


def wait(process: subprocess.Popen[bytes], folder: Path, seconds: float = 240) -> None:
    try:
        assert process.wait(seconds) == 0, (folder / "server.log").read_text()
    finally:
        stop_marked(f"{FOLDER}={(folder / 'server').resolve()}")


def captured(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], script: str
) -> list[list[bytes]]:
    """What the sites of two federations with other records send to a server of this script."""
    found = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        federation(folder, seed)
        files = [tmp_path / f"{seed}-{name}.bin" for name in TWO]
        for name, file in zip(TWO, files, strict=True):
            site = folder / "sites" / name
            command = [sys.executable, str(HERE / "erasing_site.py"), str(site), str(file)]
            started.append(start(command, site / "site.log"))
        command = [sys.executable, str(HERE / script), str(folder / "server")]
        process = start(command, folder / "server.log")
        started.append(process)
        wait(process, folder)
        found.append([file.read_bytes() for file in files])
    return found


def test_bytes_of_real_processes_do_not_depend_on_the_records(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    # The first model is the server's own draw: both federations begin from the same.
    first, second = captured(tmp_path, started, "same_start.py")
    assert all(len(data) > 500 for data in first)
    assert first == second


def test_a_dishonest_server_reads_nothing_from_real_processes(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    """The adversary kit over TLS: two federations with other records answer the same bytes."""
    first, second = captured(tmp_path, started, "dishonest_server.py")
    assert progress_of(tmp_path / "0" / "server")["metrics"]["requests"] > 5
    assert all(len(data) > 200 for data in first)
    assert first == second


def test_a_lying_site_is_left_out_by_a_real_server(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    folder = tmp_path / "f"
    federation(folder, algorithm={"name": "dp-fedavg", "clip": 0.3}, minimum=1)
    liar = [sys.executable, str(HERE / "lying_site.py"), str(folder / "sites" / "east"), "1e6"]
    started.append(start(liar, folder / "sites" / "east" / "site.log"))
    started.append(start_site(folder / "sites" / "north"))
    process = server(folder)
    started.append(process)
    wait(process, folder)
    summary = json.loads((folder / "server" / "run" / "summary.json").read_text())
    assert summary["metrics"]["server/replies"] == 1.0
    with np.load(folder / "server" / "run" / "model.npz") as model:
        assert all(np.abs(model[name]).max() < 100 for name in model.files)


def test_an_unknown_key_is_refused(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    folder = tmp_path / "f"
    federation(folder, minimum=1)
    values = (folder / "server" / "server.toml").read_text()
    (folder / "server" / "server.toml").write_text(values.replace("300.0", "15.0"))
    make(tmp_path / "other", sizes=TWO)
    shutil.copy(tmp_path / "other" / "sites" / "east" / "key", folder / "sites" / "east" / "key")
    started += [start_site(folder / "sites" / name) for name in TWO]
    process = server(folder)
    started.append(process)
    wait(process, folder)
    summary = json.loads((folder / "server" / "run" / "summary.json").read_text())
    assert summary["metrics"]["server/replies"] == 1.0
    assert (
        "no contact: the server answers 4" in (folder / "sites" / "east" / "site.log").read_text()
    )
    ledger = Ledger.read(folder / "sites" / "east" / "ledger.jsonl")
    assert list(ledger.charges) == []


def test_killed_processes_go_on_and_stop_leaves_nothing(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    folder = tmp_path / "f"
    federation(folder)
    sites = {name: start_site(folder / "sites" / name) for name in TWO}
    started += sites.values()
    process = server(folder)
    started.append(process)
    mark = f"{FOLDER}={(folder / 'server').resolve()}"
    _until(lambda: progress_of(folder / "server").get("round", 0) >= 1)
    for pid in (process.pid, *marked(mark)):  # the server with all that belongs to it
        os.kill(pid, signal.SIGKILL)
    process.wait()
    os.killpg(sites["east"].pid, signal.SIGKILL)
    again = start_site(folder / "sites" / "east")
    started.append(again)
    process = server(folder)
    started.append(process)
    _until(lambda: working(folder / "sites" / "east") == again.pid)
    wait(process, folder)
    assert progress_of(folder / "server")["round"] == 3
    for name in TWO:
        assert len(list(Ledger.read(folder / "sites" / name / "ledger.jsonl").charges)) >= 3
    command = [sys.executable, "-m", "tacit", "deploy", "stop", str(folder), "--json"]
    said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert said == {"stopped": ["east", "north"]}
    assert not marked(mark)


def test_an_app_that_dies_alone_is_started_again(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    folder = tmp_path / "f"
    federation(folder)
    started += [start_site(folder / "sites" / name) for name in TWO]
    process = server(folder)
    started.append(process)
    mark = f"{FOLDER}={(folder / 'server').resolve()}"
    _until(lambda: progress_of(folder / "server").get("round", 0) >= 1)
    apps = [
        pid
        for pid in marked(mark)
        if b"flwr-serverapp" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    assert apps
    for pid in apps:
        os.kill(pid, signal.SIGKILL)
    wait(process, folder)
    assert progress_of(folder / "server")["round"] == 3


def _until(condition: Any, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
