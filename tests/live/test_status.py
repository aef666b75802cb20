"""The status of a run: true while it trains, true when it ends, and never another process's."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tacit.algorithms import DPFedAvg
from tacit.data.federation import Federation
from tacit.errors import TacitError
from tacit.run import train
from tacit.run.loop import Progress
from tacit.run_status import STATUS, RunStatus, began, this_process, works
from tacit.tasks.logistic import Logistic

FEDERATION = Federation(
    records={"x": np.eye(2)[[0, 1, 0, 1]], "y": np.array([0, 1, 0, 1])},
    sizes=np.array([2, 2]),
    names=("a", "b"),
    classes=2,
)


def said(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / STATUS).read_text())
    return found


def trained(folder: Path, **given: object) -> None:
    algorithm, task = DPFedAvg(noise=5.0), Logistic(features=2, l2=0.1)
    train(algorithm, task, FEDERATION, rounds=6, delta=1e-5, seed=0, out=folder, **given)  # type: ignore[arg-type]


@pytest.mark.usefixtures("quick_compilation")
def test_a_run_says_where_it_is_and_how_it_ended(tmp_path: Path) -> None:
    seen = []

    def look(progress: Progress) -> None:
        seen.append(said(tmp_path))
        if progress.round == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, on_progress=look, eval_every=1)
    assert seen[0]["state"] == "running"
    assert seen[0]["process"] == this_process()
    assert said(tmp_path)["state"] == "stopped"
    assert said(tmp_path)["round"] == 3
    trained(tmp_path, eval_every=1)
    assert said(tmp_path) | {"started": 0} == {
        "version": 1,
        "state": "finished",
        "kind": "simulated",
        "process": this_process(),
        "stoppable": False,
        "started": 0,
        "round": 6,
        "rounds": 6,
        "epsilon": None,
        "delta": 1e-5,
        "said": "",
    }


def test_it_is_written_once_a_second_and_not_every_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, written = [100.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Path, "replace", lambda self, target: written.append(target))
    status = RunStatus(tmp_path)
    status.begin(10_000, delta=0.0, epsilon=None)
    for round_ in range(10_000):
        now[0] += 0.001
        status.at(round_)
    assert len(written) <= 12


def test_nothing_is_written_without_a_folder_or_before_the_ledger_is_ours(tmp_path: Path) -> None:
    with RunStatus(tmp_path):
        pass
    with RunStatus(None) as status:
        status.begin(3, delta=0.0, epsilon=None)
        status.at(2)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_stops_no_training(tmp_path: Path) -> None:
    with RunStatus(tmp_path / "gone") as status:
        status.begin(3, delta=0.0, epsilon=None)
        status.at(2, rounds=3)


def test_an_error_is_told_without_its_contents_unless_it_is_ours(tmp_path: Path) -> None:
    for error, told in ((TacitError("give less."), "give less."), (KeyError("x"), "KeyError")):
        with pytest.raises(type(error)), RunStatus(tmp_path) as status:
            status.begin(3, delta=0.0, epsilon=None)
            raise error
        assert (said(tmp_path)["state"], said(tmp_path)["said"]) == ("failed", told)


def test_a_process_is_known_by_its_number_and_its_start() -> None:
    mine = this_process()
    assert works(mine) is True
    assert works({**mine, "began": "another"}) is False
    assert works({**mine, "began": None}) is False
    assert works({**mine, "host": "elsewhere"}) is None
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    known = {"pid": child.pid, "began": began(child.pid), "host": socket.gethostname()}
    assert works(known) is True
    child.kill()
    time.sleep(0.1)
    assert works(known) is False  # a zombie is no process
    child.communicate()
    assert works(known) is False


def test_a_thread_and_an_ignored_interrupt_cannot_be_stopped(tmp_path: Path) -> None:
    def begin() -> None:
        RunStatus(tmp_path).begin(3, delta=0.0, epsilon=None)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        begin()
        assert said(tmp_path)["stoppable"] is True
        thread = threading.Thread(target=begin)
        thread.start()
        thread.join()
        assert said(tmp_path)["stoppable"] is False
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        begin()
        assert said(tmp_path)["stoppable"] is False
    finally:
        signal.signal(signal.SIGINT, before)
    RunStatus(tmp_path, "deployed").begin(3, delta=0.0, epsilon=None)
    assert said(tmp_path)["stoppable"] is False
    assert os.getpid() == said(tmp_path)["process"]["pid"]  # type: ignore[index]
