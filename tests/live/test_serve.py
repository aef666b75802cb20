"""``tacit serve`` as a user starts it: refusals, the stream, and a real run from start to stop."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from live.conftest import change_status, make_run
from tacit import cli
from tacit.accounting import Ledger
from tacit.live.server import Address, checked_token

_MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    " from tacit.cli import main; main()"
)


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command of ours that Ctrl-C reaches, as in a terminal."""
    child = subprocess.Popen(
        [sys.executable, "-c", _MAIN, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()


def events(answer: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def refused(*arguments: str) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tacit", "serve", *arguments, "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in os.environ.items() if k != "TACIT_TOKEN"},
    )
    assert done.returncode == 2
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_mistakes_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        for arguments, told in (
            ([str(tmp_path), "--port", port], "choose another one with --port"),
            ([str(tmp_path / "none")], "is not a folder"),
            ([str(tmp_path), "--host", "0.0.0.0"], "--token auto"),
            ([str(tmp_path), "--host", "some.name"], "--token auto"),
            ([str(tmp_path), "--host", "0.0.0.0", "--token", "short"], "at least 16"),
            ([str(tmp_path), "--host", "203.0.113.7", "--token", "auto", "--port", "0"], "203.0"),
        ):
            assert cli.run(["serve", *arguments]) == 2
            said = capsys.readouterr().err
            assert told in said
            assert said.count("\n") == 1


def test_a_missing_extra_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("tacit.live")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert cli.run(["serve", str(tmp_path)]) == 2
    assert "pip install 'tacit-fl[live]'" in capsys.readouterr().err


def test_tokens() -> None:
    made = checked_token("0.0.0.0", "auto")
    assert made is not None
    assert len(made) >= 32
    assert made != checked_token("0.0.0.0", "auto")
    assert checked_token("127.0.0.1", None) is checked_token("::1", None) is None
    assert Address("::1", 5, None).url == "http://[::1]:5/"
    assert Address("127.0.0.1", 5, "a&b").url == "http://127.0.0.1:5/?token=a%26b"


def test_the_stream_sends_only_what_changes(root: Path, client: httpx.Client) -> None:
    for number in range(5):
        make_run(root / f"run-{number}")
    with client.stream("GET", "/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        stream = events(answer)
        name, first = next(stream)
        assert (name, len(first["rows"])) == ("all", 5)
        change_status(root / "run-3", round=3)
        for name, found in stream:
            assert name == "changed"
            if any(row["round"] == 3 for row in found["rows"]):
                assert [row["id"] for row in found["rows"]] == ["run-3"]
                break
        make_run(root / "new")
        assert any(row["id"] == "new" for _, found in stream for row in found.get("rows", ()))


def test_a_real_run_is_followed_and_stopped(tmp_path: Path) -> None:
    run = ("run", "--example", "digits-dp-fedavg", "--json", "--set", "train.rounds=1000000")
    long = ("--set", "train.seed=1", "--set", "train.eval_every=100000")
    with (
        started("serve", str(tmp_path), "--port", "0", "--json") as view,
        started(*run, *long, "--out", str(tmp_path / "a b")) as training,
    ):
        assert view.stdout is not None
        address = json.loads(view.stdout.readline())["url"]
        seen, stopped = list[int](), False
        with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
            page = client.get("/").text
            secret = {"x-tacit-page": page.split('name="csrf" content="')[1].split('"')[0]}
            with client.stream("GET", "/events") as answer:
                for _, found in events(answer):
                    for row in found.get("rows", ()):
                        seen.append(row["round"])
                        if row["state"] == "stopped":
                            stopped = True
                    if len({*seen} - {0}) >= 2 and not row["stopping"] and row["stoppable"]:
                        assert client.post("/api/stop?id=a b", headers=secret).status_code == 200
                    if stopped:
                        break
        assert training.wait(30) == 130
        assert seen == sorted(seen)
        view.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert view.wait(10) == 0
        assert time.monotonic() - begun < 5
        assert view.stderr is not None
        assert view.stderr.read() == ""
    with Ledger.open(tmp_path / "a b" / "ledger.jsonl") as ledger:  # nobody holds it any more
        assert sum(1 for _ in ledger.charges) >= seen[-1]
