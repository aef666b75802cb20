"""The block is measured once, remembered, and changes nothing but the time."""

import subprocess
import sys

import numpy as np
import pytest

from tacit.algorithms.fedavg import DPFedAvg
from tacit.data.federation import Federation
from tacit.simulation import tuning
from tacit.tasks import make

TASK = make("multinomial", shape=(4,), classes=3)


@pytest.fixture
def federation():
    rng = np.random.default_rng(0)
    records = {"x": rng.standard_normal((30, 4)), "y": rng.integers(0, 3, 30).astype(np.int32)}
    names = tuple(map(str, range(6)))
    return Federation(records=records, sizes=np.full(6, 5), names=names, classes=3)


def test_the_quickest_block_is_found_once_and_kept(federation, tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path))
    tried = []

    def seconds(simulator):
        tried.append(simulator.block)
        return {1: 3.0, 4: 1.0}[simulator.block]

    monkeypatch.setattr(tuning, "_seconds", seconds)
    make_one = lambda: tuning.tuned(DPFedAvg(noise=1.0), TASK, federation, block="auto")
    assert make_one().block == 4
    assert tried == [1, 4]  # 16 would be more than the clients
    assert make_one().block == 4
    assert tried == [1, 4]


def test_a_broken_memory_is_measured_again(federation, tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path))
    monkeypatch.setattr(tuning, "_seconds", lambda simulator: 1.0 / simulator.block)
    make_one = lambda: tuning.tuned(DPFedAvg(noise=1.0), TASK, federation, block="auto")
    make_one()
    (kept,) = (tmp_path / "blocks").iterdir()
    kept.write_text("{")
    assert make_one().block == 4


def test_a_given_block_and_the_usual_one_need_no_trial(federation, monkeypatch):
    monkeypatch.setattr(tuning, "_seconds", lambda _: pytest.fail("measured"))
    assert tuning.tuned(DPFedAvg(noise=1.0), TASK, federation, block=3).block == 3
    assert tuning.tuned(DPFedAvg(noise=1.0), TASK, federation).block == 6


@pytest.mark.parametrize(
    ("work", "clients", "block"), [(10**6, 50, 1), (2200, 20, 20), (2200, 10**5, 29), (1, 7, 7)]
)
def test_small_clients_are_taken_together(work, clients, block):
    assert tuning.usual_block(work, clients) == block


def test_the_block_changes_nothing_but_the_time(federation):
    runs = []
    for block in (1, 4, None):
        engine = tuning.tuned(DPFedAvg(noise=1.0), TASK, federation, block=block, dtype="float64")
        state = engine.advance(engine.init(), 0, 3)
        runs.append(np.asarray(engine.params(state)["w"]))
    for other in runs[1:]:
        np.testing.assert_allclose(other, runs[0], rtol=1e-10)


def test_a_run_has_a_device_for_every_core():
    """Whatever a run asks JAX first must not start it with one device for all cores."""
    script = (
        "import os, jax, tomllib\n"
        "from importlib import resources\n"
        "from tacit.run import Run, RunConfig\n"
        "text = (resources.files('tacit.examples') / 'digits-dp-fedavg.toml').read_text()\n"
        "Run.from_config(RunConfig.from_dict(tomllib.loads(text))).simulator()\n"
        "assert len(jax.devices()) == os.cpu_count(), jax.devices()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
