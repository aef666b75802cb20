"""Every door leads to the same training: one seed, one model, to the bit.

A row is a method with some of its options. It goes through ``tacit run``, ``tacit compare``,
``tacit.train``, a reproduction and a deployment in memory, all in float64 from one seed.
"""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from folders import config, make, make_records, site_folders

import tacit
from experiments.reproduce.prepared import run_many
from tacit import tree
from tacit.accounting import Budget, Guarantee
from tacit.algorithms import registry as algorithms
from tacit.cli import run as command_line
from tacit.data import from_config
from tacit.deployment.server.coordinator import Coordinator
from tacit.deployment.setup.settings import Public
from tacit.deployment.transport.in_memory import InMemory
from tacit.errors import NoPrivacyWarning
from tacit.run.compare import Share, Variant, run_share
from tacit.run.config import RunConfig, as_toml
from tacit.run.result import Result
from tacit.streams import Stream
from tacit.tasks import registry as tasks

pytestmark = pytest.mark.usefixtures("quick_compilation")

SEED, ROUNDS, DELTA = 5, 2, 1e-3
SIZES = {"east": 5, "north": 7, "south": 6}
BUDGET = {"epsilon": 8.0, "delta": DELTA}
NOISE = {"noise": 1.5, "delta": DELTA}

# name -> (method and options, privacy); a method has a row with each way of its own to be run
ROWS: dict[str, tuple[dict[str, Any], Any]] = {
    "adaptdp-fedavg": ({"local_steps": 2, "batch_size": 3, "radius_batch": 4}, BUDGET),
    "auto": ({}, BUDGET),
    "auto, public centre": ({"centre": "public"}, BUDGET),
    "auto, records": ({"protects": "record"}, BUDGET),
    "auto, record shares": ({"protects": "record", "noise_at": "shares"}, BUDGET),
    "auto-local": ({}, BUDGET),
    "dp-fedavg": ({"local_steps": 2, "clip": 0.3}, NOISE),
    "dp-fedavg, turns and adam": ({"cohort_groups": 2, "server": "adam"}, BUDGET),
    "dp-fedavg-record": ({"local_steps": 2, "batch_size": 3}, NOISE),
    "dp-fedexp": ({"local_steps": 2}, NOISE),
    "dp-fedexp, shares": ({"local_steps": 2, "trust": "shares", "honest": 2}, NOISE),
    "dp-norm-fedavg": ({"local_steps": 2}, BUDGET),
    "dp-scaffnew": ({"probability": 0.5, "coin_seed": 3}, NOISE),
    "dp-scaffold": ({"local_steps": 2, "batch_size": 3}, NOISE),
    "dynamic-ldp": ({"strong_convexity": 0.1, "l1": 0.01, "box": 1.0}, BUDGET),
    "fedavg": ({"local_steps": 2}, "none"),
    "isrl-dp": ({"strong_convexity": 0.1, "batches": "fixed", "batch_size": 3}, NOISE),
}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clients' files, and a public test set."""
    folder = tmp_path_factory.mktemp("records")
    for name, own in make_records(0, SIZES).items():
        np.savez(folder / f"{name}.npz", **own)
    np.savez(folder.parent / "test.npz", **make_records(1, {"test": 9})["test"])
    return folder


def config_of(row: str, records: Path) -> RunConfig:
    options, privacy = ROWS[row]
    data = {"prepared": True, "classes": 2, "path": str(records)}
    return config(
        {"name": row.split(",")[0], **options},
        privacy=privacy,
        data={**data, "test": str(records.parent / "test.npz")},
        train={"rounds": ROUNDS, "dtype": "float64", "seed": SEED},
    )


def by_command_line(run: RunConfig, folder: Path) -> dict[str, np.ndarray]:
    folder.mkdir(exist_ok=True)
    (folder / "run.toml").write_text(as_toml(run.as_dict()))
    asked = ["run", str(folder / "run.toml"), "--out", str(folder / "cli"), "--json"]
    assert command_line(asked) == 0
    return dict(np.load(folder / "cli" / "model.npz"))


def by_python(run: RunConfig, out: Path | None = None) -> Result:
    federation = from_config(run.data)
    shape = federation.records["x"].shape[1:]
    task = tasks.make(run.task.name, shape=shape, classes=2, **run.task.options)
    privacy = run.privacy
    noise: dict[str, Any] = {}
    budget = None
    if privacy != "none" and privacy.epsilon is None:
        noise = {"noise": privacy.noise}
    elif privacy != "none":
        budget = Budget(BUDGET["epsilon"], DELTA)
    method = algorithms.make(run.algorithm.name, **run.algorithm.options, **noise)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoPrivacyWarning)
        return tacit.train(
            method,
            task,
            federation,
            rounds=ROUNDS,
            budget=budget,
            delta=None if privacy == "none" else DELTA,
            seed=SEED,
            dtype="float64",
            out=out,
        )


def by_deployment(run: RunConfig, folder: Path) -> Result:
    unprotected = run.privacy == "none"
    public = make(folder, run, sizes=SIZES, policy={"unprotected": unprotected})
    with jax.enable_x64(True):
        stream = Stream.seeded(SEED)
    sites = InMemory(site_folders(folder, public), stream=stream, exact=False)
    result = Coordinator(folder / "server", sites, stream=stream, exact=False).run()
    check_sentence(public, result.guarantee, sites)
    sites.close()
    return result


def test_every_method_has_a_row() -> None:
    """A new algorithm must be shown to be the same through every door."""
    assert set(algorithms.names()) == {row.split(",")[0] for row in ROWS}


@pytest.mark.parametrize("row", sorted(ROWS))
def test_every_door_gives_one_model(row: str, records: Path, tmp_path: Path) -> None:
    run = config_of(row, records)
    first = by_command_line(run, tmp_path / "command")
    result = by_python(run)
    same_bits(tree.to_named(result.params), first)
    seen = json.loads((tmp_path / "command" / "cli" / "summary.json").read_text())
    assert seen["metrics"] == result.metrics
    assert seen["guarantee"]["sentence"] == result.guarantee.sentence()

    compared = run_share(Share(Variant(row, run), (SEED,)))
    assert compared.rows[SEED] == result.rows
    assert compared.guarantee == result.guarantee.as_dict()

    wanted = ["test/loss", "oracle/loss"]
    _, (again,) = run_many(
        run.as_dict(), [SEED], delta=DELTA, metrics=wanted, looks=1, redraw=False
    )
    assert {name: curve[-1] for name, curve in again.curves.items()} == {
        name: result.metrics[name] for name in wanted
    }

    # Sites compute in programs of their own, which round the last bit otherwise.
    deployed = by_deployment(run, tmp_path / "deployed")
    close(tree.to_named(deployed.params), first)
    assert deployed.guarantee.epsilon == pytest.approx(result.guarantee.epsilon, rel=1e-9)


def check_sentence(public: Public, said: Guarantee, sites: InMemory) -> None:
    """What the run says at its end is what its sites have paid, and what was planned."""
    if public.run.privacy == "none":
        assert math.isinf(said.epsilon)
        return
    delta = public.run.privacy.delta
    paid = max(site.ledger.guarantee(delta).epsilon for site in sites.sites.values())
    assert said.epsilon == pytest.approx(paid, rel=1e-9)
    assert said.epsilon == pytest.approx(public.plan.guarantee(delta).epsilon, rel=1e-9)
    assert (said.unit, said.relation, said.observer) == (
        *(public.plan.unit, public.plan.relation),
        public.observer,
    )
    assert "This is a simulation" in said.sentence()  # these sites draw from a seed


def same_bits(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert np.asarray(ours[name]).dtype == value.dtype == np.float64
        assert np.asarray(ours[name]).tobytes() == value.tobytes(), name


def close(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-13, atol=1e-14, err_msg=name)
