"""What a person meets first: help, version, mistakes, interrupts, 80 columns."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

import tacit as package
from tacit import cli
from tacit.cli import progress
from tacit.cli.run import _completed
from tacit.run.loop import Progress

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_alone_it_shows_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["audit"], ["ledger"]):
        assert cli.run(words) == 0
        shown = capsys.readouterr()
        assert shown.out.startswith("Usage: tacit")
        assert shown.err == ""


@pytest.mark.parametrize("words", [["-h"], ["run", "-h"], ["deploy", "init", "-h"]])
def test_h_is_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(words) == 0
    assert capsys.readouterr().out.startswith("Usage: tacit")


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"tacit {package.__version__}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "missing.toml"], "there is no file missing.toml"),
        (["account", "gaussian", "--noise", "many"], "Invalid value"),
        (["rum"], "No such command"),
    ],
)
def test_a_mistake_is_a_sentence_or_json(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(words) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("tacit: ")
    assert told in shown.err
    assert shown.out == ""
    assert cli.run([*words, "--json"]) == 2
    shown = capsys.readouterr()
    assert told in json.loads(shown.out)["error"]
    assert shown.err == ""


def test_examples_are_completed() -> None:
    assert "digits-dp-fedavg" in _completed("digits")
    assert _completed("no such") == []


def test_an_interrupt_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tacit.simulation import Simulator

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Simulator, "advance", stop)
    run = ["run", "--example", "digits-fedavg", "--json"]
    assert cli.run([*run, "--out", str(tmp_path / "run")]) == 130
    assert f"tacit run --resume {tmp_path / 'run'}\n" in capsys.readouterr().err
    assert cli.run(run) == 130
    assert "With --out FOLDER" in capsys.readouterr().err


def test_a_ledger_is_found_in_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "run")
    words = ["run", "--example", "digits-dp-fedavg", "--set", "train.rounds=2", "--out", out]
    assert cli.run([*words, "--json"]) == 0
    capsys.readouterr()
    assert cli.run(["ledger", "show", out, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["charges"] == 2
    assert found["meaning"].startswith("What this means")


@pytest.mark.parametrize("rounds", [30, 99_999])
def test_progress_fits_80_columns(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(
        "rich.console.Console",
        lambda **_: Console(file=screen, width=80, force_terminal=True, color_system=None),
    )
    metrics = {"test/loss": 0.31234, "test/accuracy": 0.90123}
    with progress.Watch("training", rounds) as watch:
        watch(
            Progress(
                round=rounds // 2,
                rounds=rounds,
                metrics=metrics,
                epsilon=123.456,
                seconds_per_round=0.012,
            )
        )
    text = screen.getvalue()
    assert f"{rounds // 2}/{rounds}" in text
    assert "loss 0.312  accuracy 0.901  epsilon 124" in text
    assert "…" not in text


def test_a_broken_package_does_not_take_all_commands_along() -> None:
    import subprocess
    import sys

    script = (
        "import importlib.metadata as m\n"
        "class Bad:\n"
        "    name = 'bad'\n"
        "    def load(self): raise ImportError('not here')\n"
        "real = m.entry_points\n"
        "ours = {'group': 'tacit.commands'}\n"
        "m.entry_points = lambda **k: [Bad()] if k == ours else real(**k)\n"
        "from tacit import cli\n"
        "raise SystemExit(cli.run(['--version']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0
    assert "the command bad cannot be loaded: not here" in done.stderr
