"""``tacit run`` on a user's own files: bad records, small clients, seeds and strange settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tacit import cli

pytestmark = pytest.mark.usefixtures("quick_compilation")

SIZES = {"north": 6, "south": 1, "west": 4}
CONFIG = """
[data]
path = "clients"
prepared = true
classes = 2
test = "public.npz"

[task]
name = "logistic"

[privacy]
epsilon = 8.0
delta = 1e-3

[algorithm]
name = "dp-fedavg"

[train]
rounds = 3
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a configuration and three clients, one of them with a single record."""
    rng = np.random.default_rng(0)
    (tmp_path / "clients").mkdir()
    for name, size in SIZES.items():
        save(tmp_path / "clients" / f"{name}.npz", rng.standard_normal((size, 3)))
    save(tmp_path / "public.npz", rng.standard_normal((8, 3)))
    (tmp_path / "config.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(path: Path, x: np.ndarray) -> None:
    np.savez(path, x=x, y=np.arange(len(x)) % 2)


@pytest.fixture
def tacit(place: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run with changes: exit code, output, errors."""

    def run(*changes: str, options: tuple[str, ...] = ()) -> tuple[int, str, str]:
        capsys.readouterr()
        sets = [part for change in changes for part in ("--set", change)]
        code = cli.run(["run", "config.toml", *sets, *options])
        return code, *capsys.readouterr()

    return run


def refused(result: tuple[int, str, str]) -> str:
    """The one sentence of a refusal."""
    code, _, err = result
    assert code == 2, err
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("tacit: ")
    return err


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("x", np.nan, "has NaN or infinity"),
        ("x", np.inf, "has NaN or infinity"),
        ("y", 2, "is 2, outside 0 to 1"),
        ("y", -1, "is -1, outside 0 to 1"),
    ],
)
def test_bad_records(tacit: Run, place: Path, column: str, value: float, sentence: str) -> None:
    path = place / "clients" / "north.npz"
    with np.load(path) as archive:
        arrays = {name: archive[name].astype(float) for name in archive.files}
    arrays[column][2] = value
    np.savez(path, **arrays)
    assert sentence in refused(tacit())


def test_bad_clients(tacit: Run, place: Path) -> None:
    path = place / "clients" / "odd.npz"
    save(path, np.zeros((0, 3)))
    assert "'odd' has no records" in refused(tacit())
    save(path, np.zeros((2, 4)))
    assert "different shapes" in refused(tacit())
    path.write_bytes(b"not an archive")
    refused(tacit())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (["data.clases=2"], "did you mean 'classes'?"),
        (["data.path=nowhere"], "is not a folder or file"),
        (["task.name=least-squares"], "is a regression"),
        (["algorithm.relation='add-remove'"], "use the relation zero-out"),
        (["algorithm.cohort_size=2", "algorithm.cohort_rate=0.5"], "give one of cohort_rate"),
        (["algorithm.name=fedavg"], "FedAvg has no noise"),
        (["privacy.delta=0.0"], "cannot give delta = 0"),
        (["privacy.noise=5.0", "privacy.epsilon=0.001"], "not even one round"),
        (["train.seed=99999999999999999999"], "from 0 to 2147483647"),
    ],
)
def test_settings_that_do_not_fit(tacit: Run, changes: list[str], sentence: str) -> None:
    assert sentence in refused(tacit(*changes))


def test_folders_that_do_not_fit(tacit: Run, place: Path) -> None:
    assert "cannot be made" in refused(tacit(options=("--out", "config.toml")))
    code = cli.run(["run", "--resume", "clients", "--set", "train.rounds=2"])
    assert code == 2


@pytest.mark.parametrize(
    "changes",
    [
        ["algorithm.cohort_rate=0.001"],
        ["algorithm.local_lr=1e-30"],
        ["algorithm.local_lr=1e38", "algorithm.local_steps=5"],
        ["algorithm.name=dp-fedavg-record", "algorithm.batch_size=3", "train.dtype=float64"],
    ],
    ids=["empty cohorts", "updates that vanish", "updates that overflow", "a single record"],
)
def test_strange_runs_end_well(tacit: Run, changes: list[str]) -> None:
    code, out, err = tacit(*changes, options=("--json",))
    assert code == 0, err
    found = json.loads(out)
    assert found["epsilon"] <= 8
    assert found["smallest_client"] == 1
    assert all(np.isfinite(float(v)) for v in found["seeds"][0]["metrics"].values())


def test_a_seed_is_the_same_run_among_others_and_alone(tacit: Run) -> None:
    assert tacit(options=("--seeds", "2", "--out", "both", "--json"))[0] == 0
    assert tacit("train.seed=1", options=("--out", "alone"))[0] == 0
    models = []
    for folder in ("both/seed-0", "both/seed-1", "alone"):
        with np.load(Path(folder) / "model.npz") as archive:
            models.append({name: archive[name].tobytes() for name in archive.files})
    assert models[0] != models[1] == models[2]
    assert cli.run(["run", "--resume", "both/seed-1"]) == 0


def test_an_interrupt_is_said(tacit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.simulation import Simulator

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Simulator, "advance", stop)
    code, _, err = tacit(options=("--json",))
    assert code == 130
    assert err.endswith("tacit: interrupted.\n")
