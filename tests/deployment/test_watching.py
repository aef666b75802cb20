"""Processes are known by more than a number, and stopped with all that they started."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tacit.deployment.server import processes as serving
from tacit.deployment.server.processes import AppWatch, progress_of
from tacit.deployment.transport import process_groups as processes

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

FAMILY = (
    "import subprocess, sys, time;"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
    "print('ready', flush=True); time.sleep(60)"
)


def started(tmp_path: Path, **environment: str) -> subprocess.Popen[bytes]:
    log = tmp_path / "log"
    process = processes.start([sys.executable, "-c", FAMILY], log, environment)
    until = time.monotonic() + 20
    while b"ready" not in log.read_bytes():
        assert time.monotonic() < until
        time.sleep(0.05)
    return process


def test_a_folder_knows_its_process_and_stops_its_children(tmp_path: Path) -> None:
    process = started(tmp_path)
    processes.remember(tmp_path, process.pid)
    assert processes.working(tmp_path) == process.pid
    assert len(processes.group_members(process.pid)) == 2
    assert processes.stop_folder(tmp_path)
    process.wait()
    assert processes.group_members(process.pid) == []
    assert processes.working(tmp_path) is None
    assert not processes.stop_folder(tmp_path)


def test_a_number_that_now_is_another_program_is_left_alone(tmp_path: Path) -> None:
    process = started(tmp_path)
    processes.remember(tmp_path, process.pid)
    known = json.loads((tmp_path / "pid").read_text())
    (tmp_path / "pid").write_text(json.dumps({**known, "began": "1"}))
    assert processes.working(tmp_path) is None
    assert not processes.stop_folder(tmp_path)
    assert processes.alive(process.pid)
    processes.stop(process)
    assert not processes.alive(process.pid)


def test_marked_processes_are_found_without_their_parent(tmp_path: Path) -> None:
    process = started(tmp_path, TACIT_TEST_MARK=str(tmp_path))
    mark = f"TACIT_TEST_MARK={tmp_path}"
    assert len(processes.marked(mark)) == 2
    process.kill()
    process.wait()
    assert len(processes.marked(mark)) == 1, "the child is left behind"
    assert processes.runs(mark, b"time.sleep(60)")
    processes.stop_marked(mark)
    assert processes.marked(mark) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": "x", "began": 1}', "nonsense"])
def test_a_damaged_note_is_no_process(tmp_path: Path, text: str) -> None:
    (tmp_path / "pid").write_text(text)
    assert processes.working(tmp_path) is None


def test_progress_that_is_not_there_yet(tmp_path: Path) -> None:
    assert progress_of(tmp_path) == {}
    (tmp_path / "progress.json").write_text('{"stage": "tr')
    assert progress_of(tmp_path) == {}


def test_an_app_that_was_there_and_is_gone_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    there: dict[str, Any] = {"now": False, "time": 0.0}
    monkeypatch.setattr(serving, "runs", lambda mark, name: there["now"])
    monkeypatch.setattr(serving.time, "monotonic", lambda: there["time"])
    watch = AppWatch("mark")

    def looks(count: int) -> list[bool]:
        found = []
        for _ in range(count):
            there["time"] += 4.0
            found.append(watch.died())
        return found

    assert not any(looks(9)), "an app that has not started yet is not dead"
    there["now"] = True
    assert not any(looks(3))
    there["now"] = False
    assert looks(6) == [False, False, True, False, False, False]
