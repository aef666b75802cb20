"""Columns that wait for a private mean and scale: charged first, released once, in budget."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.accounting import Ledger
from tacit.cli import app
from tacit.data.config import before_release, from_config
from tacit.data.own_files.federation_of_files import own_data
from tacit.data.own_files.preprocessing import Preprocessing
from tacit.errors import ConfigError, DataError, TacitError
from tacit.released_scaling import Scaling, rescaled
from tacit.run import prelude as scaling
from tacit.run.config import RunConfig
from tacit.run.folder import RunFolder
from tacit.run.result import Result
from tacit.run.run import Run
from tacit.simulation import Simulator

SIZES = {"north": 120, "south": 80, "west": 100}


@pytest.fixture(scope="module")
def clinics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(5)
    folder = tmp_path_factory.mktemp("data") / "clinics"
    folder.mkdir()
    for name, count in SIZES.items():
        age = np.clip(rng.normal(50, 8, count), 0, 120)
        smokes = rng.choice(["no", "yes"], count)
        ill = np.where(age + rng.normal(0, 8, count) > 50, "yes", "no")
        rows = [f"{s},{a:.1f},{i}" for s, a, i in zip(smokes, age, ill, strict=True)]
        (folder / f"{name}.csv").write_text("smokes,age,ill\n" + "\n".join(rows) + "\n")
    return folder


def config(clinics: Path, **changes: Any) -> RunConfig:
    values: dict[str, Any] = {
        "data": {
            "path": str(clinics),
            "target": {"column": "ill", "classes": ["no", "yes"]},
            "columns": {
                "smokes": {"categories": ["no", "yes"]},
                "age": {"range": [0, 120], "scaling": "release"},
            },
        },
        "task": {"name": "logistic"},
        "privacy": {"epsilon": 4.0, "delta": 1e-4},
        "algorithm": {"name": "dp-fedavg-record", "batches": "full", "local_steps": 2},
        "train": {"rounds": 4, "oracle": True},
    }
    return RunConfig.from_dict(values | changes)


def run(prepared: Run, folder: Path | None = None) -> Result:
    return prepared.with_seed(3).train(folder)


class Finished(NamedTuple):
    prepared: Run
    folder: Path
    result: Result


@pytest.fixture(scope="module")
def finished(clinics: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    prepared, folder = Run.from_config(config(clinics)), tmp_path_factory.mktemp("run")
    return Finished(prepared, folder, run(prepared, folder))


def test_plan_and_ledger_agree_and_keep_the_budget(clinics: Path, finished: Finished) -> None:
    prepared, folder, result = finished
    ledger = Ledger.read(folder / "ledger.jsonl")
    first = next(iter(ledger.charges))
    assert dict(first.label) == {"round": -1, "phase": "moments"}
    assert first.done
    assert len(list(ledger.charges)) == 1 + 4
    planned = prepared.plan.guarantee(1e-4, noise_from="seed")
    assert ledger.guarantee(1e-4).epsilon == pytest.approx(planned.epsilon, rel=1e-9)
    assert replace(result.guarantee, uncharged=()) == planned
    assert result.guarantee.uncharged == ("the metrics called oracle, which look at the records",)
    assert 0.999 * 4 <= planned.epsilon <= 4
    without = Run.from_config(config(clinics, data=ranged(clinics))).plan
    assert without.algorithm.noise < prepared.plan.algorithm.noise  # type: ignore[attr-defined]


def ranged(clinics: Path) -> dict[str, Any]:
    data = config(clinics).as_dict()["data"]
    data["columns"]["age"] = {"range": [0, 120]}
    return dict(data)


@pytest.mark.parametrize("name", ["dp-fedavg-record", "dp-fedavg"])
def test_a_large_budget_finds_the_mean_and_the_scale(clinics: Path, name: str) -> None:
    generous = config(
        clinics,
        privacy={"epsilon": 1e5, "delta": 1e-4, "scaling_share": 0.5},
        algorithm={"name": name},
    )
    found = released(Run.from_config(generous))
    ages = [
        np.loadtxt(clinics / f"{client}.csv", delimiter=",", skiprows=1, usecols=1)
        for client in SIZES
    ]
    mean = np.mean([a.mean() for a in ages])
    scale = np.sqrt(np.mean([(a**2).mean() for a in ages]) - mean**2)
    assert found["age"][0] == pytest.approx(mean, abs=1)
    assert found["age"][1] == pytest.approx(scale, abs=1.5)


def released(prepared: Run) -> Scaling:
    assert prepared.plan.prelude is not None
    outcome = scaling.opened(prepared.plan, prepared.federation, 3, "float32")[1]
    return {name: (found["mean"], found["scale"]) for name, found in outcome.items()}


def test_without_privacy_the_release_is_exact_and_the_sentence_says_so(clinics: Path) -> None:
    prepared = Run.from_config(config(clinics, privacy="none", algorithm={"name": "fedavg"}))
    assert released(prepared)["age"][0] == pytest.approx(50, abs=2)
    assert "no privacy is guaranteed" in prepared.plan.guarantee(0.0).sentence()


def test_a_stated_noise_serves_both(clinics: Path) -> None:
    prepared = Run.from_config(config(clinics, privacy={"noise": 3.0, "delta": 1e-4}))
    assert prepared.plan.prelude is not None
    assert prepared.plan.prelude.algorithm.noise == 3.0  # type: ignore[attr-defined]
    assert prepared.plan.algorithm.noise == 3.0  # type: ignore[attr-defined]


def test_scaled_records_are_those_that_encoding_gives(clinics: Path) -> None:
    data = config(clinics).data
    federation, waiting = before_release(data)
    given = {"age": (49.0, 7.5)}
    meaning = Preprocessing.from_config({k: v for k, v in data.items() if k != "path"})
    encoded = own_data(clinics, meaning.with_release(given))
    scaled = federation.mapped(lambda records: rescaled(records, waiting, given))
    assert waiting[0].feature == 2  # after the two features of smokes
    np.testing.assert_allclose(
        scaled.records["x"].astype(float), encoded.records["x"].astype(float), atol=1e-5
    )


def test_a_continued_run_reads_what_was_released(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, folder, first = finished
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / "checkpoint.npz").unlink()

    def refuse(*_: object) -> None:
        raise AssertionError("released a second time")

    monkeypatch.setattr(scaling, "_released", refuse)
    again = run(prepared, tmp_path / "run")
    assert again.scaling == first.scaling
    assert again.metrics == first.metrics
    charges = list(Ledger.read(tmp_path / "run" / "ledger.jsonl").charges)
    assert len(charges) == 5
    (tmp_path / "run" / "scaling.json").write_text("{")
    with pytest.raises(TacitError, match="cannot be read"):
        run(prepared, tmp_path / "run")


def test_a_crash_between_charge_and_file_costs_one_charge(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, _, whole = finished
    folder = tmp_path / "run"

    def crash(self: RunFolder, name: str, text: str) -> None:
        if name == "config.toml":
            return
        assert Ledger.read(self.ledger).find(round=-1, phase="moments") == [0]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_text", crash)
        with pytest.raises(KeyboardInterrupt):
            run(prepared, folder)
    assert not (folder / "scaling.json").exists()
    again = run(prepared, folder)
    assert again.scaling == whole.scaling
    assert Ledger.read(folder / "ledger.jsonl").find(round=-1, phase="moments") == [0]


def test_the_prelude_draws_noise_of_its_own(finished: Finished) -> None:
    prelude = finished.prepared.plan.prelude
    assert prelude is not None
    simulator = Simulator(prelude.algorithm, prelude.task, finished.prepared.federation, seed=3)
    before, first = (
        float(simulator.advance(simulator.init(), round_, 1).server.params["mean"][0])
        for round_ in (finished.prepared.plan.opening_round, 0)
    )
    assert before != first


def test_scales_are_not_computed_for_free(clinics: Path) -> None:
    with pytest.raises(DataError, match="waits for a private mean"):
        from_config(config(clinics).data)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"privacy": {"epsilon": 4.0, "delta": 1e-4, "scaling_share": 0.0}}, "scaling_share is 0"),
        ({"privacy": {"epsilon": 4.0, "delta": 1e-4, "scaling_share": 1.0}}, "scaling_share is 1"),
        ({"privacy": {"epsilon": 4.0, "delta": 1e-4, "scaling_shar": 0.1}}, "did you mean"),
    ],
)
def test_a_wrong_share_is_one_sentence(
    clinics: Path, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        config(clinics, **changes)


def test_a_share_without_a_column_is_refused(clinics: Path) -> None:
    privacy = {"epsilon": 4.0, "delta": 1e-4, "scaling_share": 0.1}
    with pytest.raises(ConfigError, match="nothing to pay for"):
        Run.from_config(config(clinics, privacy=privacy, data=ranged(clinics)))


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"scaling": "release"}, "range of column 'age' is not computed from private records"),
        ({"range": [0, 120], "scaling": "auto"}, "write 'range' or 'release'"),
        ({"categories": ["1"], "scaling": "release"}, "leave scaling out"),
    ],
)
def test_a_wrong_column_is_one_sentence(clinics: Path, spec: dict[str, Any], sentence: str) -> None:
    data = ranged(clinics)
    data["columns"]["age"] = spec
    with pytest.raises(ConfigError, match=sentence):
        Run.from_config(config(clinics, data=data))


def test_the_command_says_what_is_released(clinics: Path, tmp_path: Path) -> None:
    from tacit.run.config import as_toml

    path = tmp_path / "run.toml"
    path.write_text(as_toml(config(clinics).as_dict()))
    out = tmp_path / "out"
    shown = CliRunner().invoke(app, ["run", str(path), "--out", str(out), "--json"])
    assert shown.exit_code == 0, shown.output
    answer = json.loads(shown.stdout)
    assert answer["released_scaling"] == ["age"]
    assert answer["seeds"][0]["scaling"] == json.loads((out / "scaling.json").read_text())


def test_a_prelude_that_is_lost_is_paid_again_within_the_budget(
    clinics: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a seed it is another release; killed three times it had spent 2.2 of 2."""
    prepared = Run.from_config(config(clinics))
    write = RunFolder.write_text

    def full(self: RunFolder, name: str, text: str) -> None:
        if name != "config.toml":
            raise OSError("killed")
        write(self, name, text)

    for _ in range(2):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError, match="killed"):
            patch.setattr(RunFolder, "write_text", full)
            prepared.train(tmp_path)
    result = prepared.train(tmp_path)
    before = Ledger.read(tmp_path / "ledger.jsonl").find(round=-1)
    assert len(before) == 3
    assert result.guarantee.epsilon <= 4.0
    assert result.rounds < 4
