"""``tacit run`` as a user types it: what it prints, keeps and refuses."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tacit.accounting import Ledger
from tacit.cli import run

CONFIG = """
[data]
name = "digits"
split = "dirichlet"
clients = 6
alpha = 1.0

[task]
name = "multinomial"

[privacy]
epsilon = 8.0
delta = 1e-5

[algorithm]
name = "dp-fedavg"
local_steps = 2
local_lr = 0.5
clip = 0.5

[train]
rounds = 4
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return str(path)


def said(capsys, *arguments):
    code = run(["run", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.pictures
def test_a_run_prints_its_plan_and_its_guarantee_as_a_sentence(config, tmp_path, capsys):
    out = tmp_path / "kept"
    code, printed, _ = said(capsys, config, "--out", str(out))
    assert code == 0
    text = " ".join(printed.split())
    assert text.count("Over the whole run, every client") == 2  # before and after
    assert "epsilon = 8 at delta = 1e-05" in text
    assert "test/accuracy" in text
    names = {path.name for path in out.iterdir()}
    kept = {"config.toml", "metrics.csv", "ledger.jsonl", "checkpoint.npz", "model.npz"}
    assert kept | {"summary.json", "curves.png"} <= names
    ledger = Ledger.read(out / "ledger.jsonl")
    assert len(list(ledger.charges)) == 4
    assert ledger.guarantee(1e-5).epsilon == pytest.approx(8.0, rel=1e-6)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["guarantee"]["epsilon"] <= 8.0
    lines = (out / "metrics.csv").read_text().splitlines()
    assert lines[0] == "round,metric,value"
    assert any(line.startswith("4,test/accuracy,") for line in lines)


def test_json_is_one_object_with_the_guarantee(config, capsys):
    code, printed, _ = said(capsys, config, "--json", "--seeds", "2")
    assert code == 0
    result = json.loads(printed)
    wanted = {"epsilon", "delta", "relation", "unit", "observer", "accountant", "sentence"}
    assert wanted | {"noise", "rounds", "seeds", "clients"} <= set(result)
    assert len(result["seeds"]) == 2
    first, second = (seed["metrics"]["test/loss"] for seed in result["seeds"])
    assert first != second


def test_dry_prints_the_plan_and_spends_nothing(config, tmp_path, capsys):
    out = tmp_path / "nothing"
    code, printed, _ = said(capsys, config, "--dry", "--json", "--out", str(out))
    assert code == 0
    assert json.loads(printed)["epsilon"] <= 8.0
    assert not out.exists()


def test_more_rounds_than_the_budget_covers_stop_early(config, capsys):
    changes = ["--set", "privacy.noise=6.0", "--set", "privacy.epsilon=2.0"]
    code, printed, _ = said(capsys, config, "--json", *changes, "--set", "train.rounds=100")
    assert code == 0
    result = json.loads(printed)
    assert 0 < result["rounds"] < 100
    assert result["epsilon"] <= 2.0
    assert "covers" in result["stopped"]


def test_privacy_none_says_that_there_is_none(config, capsys):
    changes = ["--set", 'privacy="none"', "--set", "algorithm.name=fedavg"]
    Path(config).write_text(CONFIG.replace("clip = 0.5\n", ""))
    code, printed, _ = said(capsys, config, "--dry", *changes)
    assert code == 0
    assert "no privacy is guaranteed" in " ".join(printed.split())


MISTAKES = {
    "algorithm.clipp=1": "did you mean 'clip'",
    "algorithm.name=dp-fedagv": "did you mean 'dp-fedavg'",
    "privcy.epsilon=1": "did you mean 'privacy'",
    "privacy.epsilom=1": "did you mean 'epsilon'",
    "privacy.epsilon=0": "positive",
    "privacy.epsilon=-1": "positive",
    "privacy.delta=1": "below 1",
    "privacy.delta=1.5": "below 1",
    "data.name=digts": "did you mean 'digits'",
    "data.clients=100000": "clients",
    "data.clients=0": "client",
    "task.name=multinomal": "did you mean 'multinomial'",
    "task.l3=1": "l2",
    "train.rounds=0": "at least 1",
    "train.rounds=many": "integer",
    "train.dtype=float16": "float32",
    "algorithm.local_steps=0": "at least",
    "algorithm.local_lr=-1.0": "positive",
    "algorithm.clip=0.0": "positive",
    "algorithm.cohort_rate=2.0": "at most 1",
    "algorithm.cohort_size=7": "cannot be drawn",
    "algorithm.noise=1.0": "[privacy]",
    "nonsense": "section.key=value",
}


@pytest.mark.parametrize("change", MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_code_2(change, config, capsys):
    code, printed, error = said(capsys, config, "--set", change)
    assert code == 2
    assert MISTAKES[change] in error
    assert error.startswith("tacit: ")
    assert len(error.strip().splitlines()) == 1
    assert "Traceback" not in printed + error


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--example", "digits-dp-fedavgg"], "did you mean"),
        (["no-such-file.toml"], "no file"),
        ([], "give one of"),
        (["--resume", "no-such-folder"], "is not the folder of a run"),
    ],
)
def test_a_missing_run_is_one_sentence(arguments, word, capsys):
    code, _, error = said(capsys, *arguments)
    assert code == 2
    assert word in error


def test_a_file_that_is_not_toml_is_one_sentence(tmp_path, capsys):
    path = tmp_path / "bad.toml"
    path.write_text("[data\nname = ")
    code, _, error = said(capsys, str(path))
    assert code == 2
    assert "not valid TOML" in error


def test_another_configuration_does_not_overwrite_a_run(config, tmp_path, capsys):
    out = str(tmp_path / "kept")
    assert said(capsys, config, "--out", out)[0] == 0
    code, _, error = said(capsys, config, "--out", out, "--set", "privacy.epsilon=1.0")
    assert code == 2
    assert "another run" in error


def test_hard_cases_train_all_the_same(config, capsys):
    """Clients of one record, cohorts that Poisson leaves empty, updates that are zero."""
    Path(config).write_text(CONFIG.replace("alpha = 1.0\n", ""))
    changes = ["data.split=iid", "data.clients=1438", "algorithm.cohort_rate=0.0005"]
    options = [part for change in changes for part in ("--set", change)]
    code, printed, _ = said(capsys, config, "--json", *options)
    assert code == 0
    metrics = json.loads(printed)["seeds"][0]["metrics"]
    assert all(np.isfinite(value) for value in metrics.values())


def model(folder):
    with np.load(folder / "model.npz") as archive:
        return {name: archive[name] for name in archive.files}


# A test run that was started in the background ignores Ctrl-C, and its children would, too.
HEARS = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    " runpy.run_module('tacit', run_name='__main__')"
)
ROUNDS = 6_000  # seconds of work after the first checkpoint, so that a signal finds it running
LONG = [
    *("--set", "train.seed=0"),
    "--set",
    f"train.rounds={ROUNDS}",
    "--set",
    "train.eval_every=300",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A long run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "config.toml").write_text(CONFIG)
    config = str(folder / "config.toml")
    assert run(["run", config, "--json", "--out", str(folder / "run"), *LONG]) == 0
    return folder / "run"


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_resumes_to_the_same_model(kill, config, whole, tmp_path, capsys):
    """The process is stopped somewhere in the middle; nothing is charged twice or lost."""
    cut = tmp_path / "cut"
    command = [sys.executable, "-c", HEARS, "run", config, "--out", str(cut), *LONG]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        limit = time.monotonic() + 120
        while not (cut / "checkpoint.npz").exists() and process.poll() is None:
            assert time.monotonic() < limit
            time.sleep(0.02)
        process.send_signal(kill)
        code = process.wait(60)
    assert code == (130 if kill == signal.SIGINT else -signal.SIGKILL)
    spent = len(list(Ledger.read(cut / "ledger.jsonl").charges))
    assert 0 < spent < ROUNDS
    assert said(capsys, "--resume", str(cut))[0] == 0
    before, after = model(whole), model(cut)
    assert set(before) == set(after)
    assert all(np.array_equal(before[name], after[name]) for name in before)
    charges = list(Ledger.read(cut / "ledger.jsonl").charges)
    assert [charge.label["round"] for charge in charges] == list(range(ROUNDS))
    assert all(charge.done for charge in charges)
    assert (whole / "metrics.csv").read_text() == (cut / "metrics.csv").read_text()
