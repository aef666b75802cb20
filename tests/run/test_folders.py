"""A run's folder: the same whoever wrote it, continued by the same run, refused to any other."""

from __future__ import annotations

import dataclasses
import json
import sys
import tomllib
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.accounting import Ledger
from tacit.cli import run as command_line
from tacit.errors import ConfigError, NoPrivacyWarning, TacitError
from tacit.run import Result, Run, RunConfig, Settings, train
from tacit.run.config import as_toml
from tacit.run.fingerprint import described
from tacit.tasks.functions import from_functions

pytestmark = pytest.mark.usefixtures("quick_compilation")

DIGITS = tacit.federate("digits", clients=5, split="iid", seed=1)
TASK = tacit.make_task("multinomial", shape=(8, 8), classes=10)
METHOD = tacit.make_algorithm("dp-fedavg", local_steps=2, clip=0.4, cohort_rate=0.5)
BUDGET = tacit.Budget(4.0, 1e-4)
FILES = {"config.toml", "summary.json", "ledger.jsonl", "metrics.csv", "model.npz"}


def run(out: Path | None, **changes: Any) -> Result:
    given: dict[str, Any] = {
        "algorithm": METHOD,
        "task": TASK,
        "federation": DIGITS,
        "rounds": 3,
        "budget": BUDGET,
        "seed": 2,
        "eval_every": 3,
    }
    return train(out=out, **(given | changes))


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "python"
    run(folder)
    return folder


@pytest.mark.pictures
def test_python_and_the_command_line_write_one_folder(begun: Path, tmp_path: Path) -> None:
    """The configuration that Python wrote makes the same run again, to the bit."""
    assert {f.name for f in begun.iterdir()} >= FILES
    values = tomllib.loads((begun / "config.toml").read_text())
    assert values["data"] == {"name": "digits", "split": "iid", "clients": 5, "seed": 1}
    again = ["run", str(begun / "config.toml"), "--out", str(tmp_path / "cli"), "--json"]
    assert command_line(again) == 0
    ours_too = {f.name for f in begun.iterdir()} | {"report.html"}
    assert {f.name for f in (tmp_path / "cli").iterdir()} == ours_too
    ours, theirs = (np.load(f / "model.npz") for f in (begun, tmp_path / "cli"))
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours.files)
    said = [json.loads((f / "summary.json").read_text()) for f in (begun, tmp_path / "cli")]
    assert all(seconds.pop("seconds") > 0 for seconds in said)
    assert said[0] == said[1]


def test_a_folder_of_python_is_resumed_by_the_command_line(
    begun: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = (begun / "model.npz").read_bytes()
    charges = len(list(Ledger.read(begun / "ledger.jsonl").charges))
    assert command_line(["run", "--resume", str(begun), "--json"]) == 0
    assert (begun / "model.npz").read_bytes() == model
    assert len(list(Ledger.read(begun / "ledger.jsonl").charges)) == charges
    assert json.loads(capsys.readouterr().out)["rounds"] == 3


OTHERS: dict[str, dict[str, Any]] = {
    "seed": {"seed": 3},
    "real noise": {"seed": None},
    "budget": {"budget": tacit.Budget(5.0, 1e-4)},
    "rounds": {"rounds": 4},
    "clip": {"algorithm": dataclasses.replace(METHOD, clip=0.5)},  # type: ignore[type-var]
    "step": {"algorithm": dataclasses.replace(METHOD, local_lr=0.2)},  # type: ignore[type-var]
    "task": {"task": tacit.make_task("multinomial", shape=(8, 8), classes=10, l2=0.1)},
    "precision": {"dtype": "float64"},
    "records": {"federation": tacit.federate("digits", clients=5, split="iid", seed=2)},
    "one record": {"federation": None},
    "looks": {"eval_every": 1},
}


@pytest.mark.parametrize("other", OTHERS)
def test_other_settings_are_refused_and_nothing_is_lost(begun: Path, other: str) -> None:
    """It returned the model of the first settings, and went on with its noise for others."""
    changes = dict(OTHERS[other])
    if other == "one record":
        x = DIGITS.records["x"].copy()
        x[7, 3] += 0.001
        changes["federation"] = dataclasses.replace(DIGITS, records={**DIGITS.records, "x": x})
    before = {f.name: f.read_bytes() for f in begun.iterdir()}
    with pytest.raises(TacitError, match="holds another run"):
        run(begun, **changes)
    assert {f.name: f.read_bytes() for f in begun.iterdir()} == before


def test_records_of_one_s_own_are_continued_by_python_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tacit.Federation(
        records=DIGITS.records, sizes=DIGITS.sizes, names=DIGITS.names, classes=10
    )
    first = run(tmp_path / "own", federation=own)
    assert command_line(["run", "--resume", str(tmp_path / "own")]) == 2
    assert "call it again with the same arguments" in capsys.readouterr().err
    again = run(tmp_path / "own", federation=own)
    assert again.metrics == first.metrics


def test_resuming_where_the_records_changed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The digest is of the records themselves, not of the name of their file."""
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / "data").mkdir(exist_ok=True)
        x, y = rng.standard_normal((6, 2)), rng.integers(0, 2, 6).astype(np.int32)
        np.savez(tmp_path / "data" / f"{name}.npz", x=x, y=y)
    values = {
        "data": {"path": str(tmp_path / "data"), "prepared": True, "classes": 2},
        "task": {"name": "logistic"},
        "algorithm": {"name": "dp-fedavg"},
        "privacy": {"noise": 1.0, "delta": 1e-3},
        "train": {"rounds": 2, "seed": 0},
    }
    (tmp_path / "run.toml").write_text(as_toml(values))
    out = str(tmp_path / "out")
    assert command_line(["run", str(tmp_path / "run.toml"), "--out", out, "--json"]) == 0
    np.savez(tmp_path / "data" / "b.npz", x=np.ones((6, 2)), y=np.zeros(6, np.int32))
    assert command_line(["run", "--resume", out]) == 2
    assert "its data" in capsys.readouterr().err


def scaled(factor: float) -> Callable[..., Any]:
    return lambda params, record: factor * jnp.sum(params * record["x"])


def test_a_fingerprint_sees_functions_and_what_they_closed_over() -> None:
    def init(key: Any) -> Any:
        return jnp.zeros((8, 8))

    one, same, other = (described(from_functions(init, scaled(f))) for f in (1.0, 1.0, 2.0))
    assert one == same != other
    assert json.loads(json.dumps(one)) == one


def test_a_fingerprint_sees_a_method_that_was_edited() -> None:
    """A class of the user's own, with the same fields and another step of its server."""

    def edited(factor: float) -> Any:
        source = (
            "from dataclasses import dataclass\n"
            "from tacit.algorithms.fedavg import DPFedAvg\n"
            "@dataclass(frozen=True, kw_only=True)\n"
            "class Own(DPFedAvg):\n"
            f"    def step(self, state, mean):\n        return state._replace(extra={factor})\n"
        )
        module = types.ModuleType("own")
        sys.modules["own"] = module
        exec(source, module.__dict__)
        return module.Own()

    one, same, other = (described(edited(f)) for f in (1.0, 1.0, 2.0))
    assert one == same != other


def test_an_engine_of_another_plan_is_not_shared() -> None:
    """Its noise would not be the noise that this plan charges."""
    first = Run.of(METHOD, TASK, DIGITS, rounds=1, budget=BUDGET, settings=Settings(seed=2))
    engine = first.simulator()
    louder = Run(first.plan.with_noise(9.0), DIGITS, first.settings, shared=first.shared)
    assert first.simulator() is engine
    assert louder.simulator().algorithm == louder.plan.algorithm != first.plan.algorithm
    assert first.guarantee().epsilon > 3.9
    assert louder.guarantee().epsilon == louder.plan.guarantee(BUDGET.delta).epsilon < 3.9


def test_a_run_from_objects_is_the_run_of_its_configuration() -> None:
    made = Run.of(METHOD, TASK, DIGITS, rounds=3, budget=BUDGET, settings=Settings(seed=2))
    assert isinstance(made.config, RunConfig)
    again = Run.from_config(made.config)
    assert again.plan == made.plan
    assert again.digest == made.digest


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"budget": (2.0, 1e-5)}, r"budget is \(2.0, 1e-05\) \(tuple\): give tacit.Budget"),
        ({"task": "multinomial"}, r"task is 'multinomial' \(str\): give tacit.make_task"),
        ({"algorithm": "dp-fedavg"}, r"algorithm is 'dp-fedavg' \(str\): give tacit.make_algor"),
        ({"federation": DIGITS.records}, r"federation is given \(dict\): give tacit.federate"),
        ({"rounds": 2.5}, r"rounds is 2.5 \(float\): give a whole number"),
        ({"seed": True}, r"seed is True \(bool\)"),
        ({"delta": "1e-5"}, r"delta is '1e-5' \(str\)"),
    ],
)
def test_a_value_of_the_wrong_kind_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        run(None, **changes)


def test_a_training_without_privacy_says_so() -> None:
    """As loudly as the command line does."""
    with pytest.warns(NoPrivacyWarning, match="no privacy is guaranteed"):
        run(None, algorithm=tacit.DPFedAvg(), budget=None)
