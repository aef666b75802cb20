"""``tacit deploy`` and ``tacit site`` as a user types them, without starting a server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="needs the extra deploy: pip install 'tacit-fl[deploy]'")

from tacit.cli import run

CONFIG = """
[data]
name = "breast-cancer"
split = "iid"
clients = 3
[task]
name = "logistic"
[algorithm]
name = "dp-fedavg-record"
batches = "full"
[privacy]
epsilon = 4.0
delta = 1e-3
[train]
rounds = 5
"""


@pytest.fixture(autouse=True)
def mask() -> Iterator[None]:
    """A command closes the files of its own process to others; this process goes on."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    (tmp_path / "run.toml").write_text(CONFIG)
    given = ["deploy", "init", str(tmp_path / "f"), "--config", str(tmp_path / "run.toml")]
    assert run(given) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "every single record is protected with epsilon = 4" in said
    return tmp_path / "f"


def as_json(capsys: pytest.CaptureFixture[str], *given: str) -> Any:
    assert run([*given, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_init_makes_a_folder_for_each(folder: Path) -> None:
    assert sorted(p.name for p in (folder / "sites").iterdir()) == [
        "client-0",
        "client-1",
        "client-2",
    ]
    assert (folder / "server" / "server.crt").exists()


def test_status_and_stop_of_what_does_not_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = as_json(capsys, "deploy", "status", str(folder))
    assert found["server"]["stage"] == "not started"
    assert [site["works"] for site in found["sites"]] == [False] * 3
    assert as_json(capsys, "deploy", "stop", str(folder)) == {"stopped": []}
    assert run(["deploy", "status", str(folder)]) == 0
    assert "is not running" in capsys.readouterr().out


def test_a_site_sees_its_budget_and_what_a_run_would_cost(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = str(folder / "sites" / "client-1")
    before = as_json(capsys, "site", "budget", site)
    assert (before["spent"], before["budget"], before["charges"]) == ("0", 6.0, 0)
    found = as_json(capsys, "site", "check", site)
    assert found["joins"] is True
    assert found["epsilon_after"] == pytest.approx(4.0, abs=0.01)
    text = (folder / "sites" / "client-1" / "site.toml").read_text()
    (folder / "sites" / "client-1" / "site.toml").write_text(text.replace("6.0", "3.0"))
    refused = as_json(capsys, "site", "check", site)
    assert (refused["joins"], refused["reason"]) == (False, "budget")
    assert run(["site", "budget", site]) == 0
    assert "of 3 at delta = 0.001 is spent" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["deploy", "server", "nowhere"], "there is no federation.toml in nowhere"),
        (["deploy", "status", "nowhere"], "not a federation folder"),
        (["deploy", "site", "nowhere"], "there is no federation.toml in nowhere"),
        (["site", "budget", "nowhere"], "there is no site.toml in nowhere"),
        (["deploy", "init", "x", "--config", "none.toml"], "there is no file none.toml"),
        (["deploy", "init", "x", "--sites", "a=3"], "--sites needs a --config"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(
    given: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(given) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said


def test_help_needs_neither_flower_nor_jax() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from tacit.cli import run; run(['deploy', '--help']);"
        "bad = {'flwr', 'jax', 'cryptography', 'httpx'} & set(sys.modules);"
        "sys.exit(repr(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
