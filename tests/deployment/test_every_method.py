"""Every algorithm runs deployed, and gives what the simulator gives for the same noise stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from folders import config, federation, make, site_folders

from tacit import tree
from tacit.accounting import Guarantee
from tacit.algorithms.registry import names
from tacit.deployment.coordinator import Coordinator
from tacit.deployment.inmemory import InMemory
from tacit.deployment.settings import Public
from tacit.run.scaling import prepared
from tacit.simulation import Simulator
from tacit.streams import Stream
from tacit.wire.local import LocalFederation

pytestmark = pytest.mark.usefixtures("quick_compilation")

SEED, ROUNDS = 5, 2
# Compiling a simulator is most of the time; the others are compared with the wire's own engine,
# whose agreement with the simulator is tested for every algorithm.
SIMULATED = ("dp-fedavg", "dp-fedavg-record", "dp-scaffold")
METHODS: dict[str, dict[str, Any]] = {
    "auto": {},
    "auto-local": {},
    "adaptdp-fedavg": {"local_steps": 2, "batch_size": 3, "radius_batch": 4},
    "dp-fedavg": {"local_steps": 2, "clip": 0.3},
    "dp-fedavg-record": {"local_steps": 2, "batch_size": 3},
    "dp-fedexp": {"local_steps": 2},
    "dp-norm-fedavg": {"local_steps": 2},
    "dp-scaffnew": {"probability": 0.5, "coin_seed": 3},
    "dp-scaffold": {"local_steps": 2, "batch_size": 3},
    "dynamic-ldp": {"strong_convexity": 0.1, "l1": 0.01, "box": 1.0},
    "fedavg": {"local_steps": 2},
    "isrl-dp": {"strong_convexity": 0.1, "batches": "fixed", "batch_size": 3},
}


def test_every_method_has_a_row() -> None:
    """A new algorithm must be shown to run between real sites too."""
    assert set(names()) == set(METHODS)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_deployed_is_simulated(method: str, tmp_path: Path) -> None:
    privacy: Any = "none" if method == "fedavg" else {"noise": 1.5, "delta": 1e-3}
    run = config(
        {"name": method, **METHODS[method]},
        privacy=privacy,
        train={"rounds": ROUNDS, "dtype": "float64"},
    )
    public = make(tmp_path / "f", run, policy={"unprotected": method == "fedavg"})
    with jax.enable_x64(True):
        stream = Stream.seeded(SEED)
    sites = InMemory(site_folders(tmp_path / "f", public), stream=stream, exact=False)
    outcome = Coordinator(tmp_path / "f" / "server", sites, stream=stream, exact=False).run()
    check_sentence(public, outcome.guarantee, sites)
    sites.close()
    again = simulate(public) if method in SIMULATED or public.prelude else pass_messages(public)
    ours, theirs = tree.to_named(outcome.params), tree.to_named(again)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], rtol=0, atol=1e-10, err_msg=name)


def check_sentence(public: Public, said: Guarantee, sites: InMemory) -> None:
    """What the run says at its end is what its sites have paid, and what was planned."""
    if public.run.privacy == "none":
        assert np.isinf(said.epsilon)
        return
    delta = public.run.privacy.delta
    paid = max(site.ledger.guarantee(delta).epsilon for site in sites.sites.values())
    assert said.epsilon == pytest.approx(paid, rel=1e-9)
    assert said.epsilon == pytest.approx(public.plan.guarantee(delta).epsilon, rel=1e-9)
    assert (said.unit, said.relation, said.observer) == (
        *(public.plan.unit, public.plan.relation),
        public.plan.observer,
    )
    assert "This is a simulation" in said.sentence()  # these sites draw from a seed


def pass_messages(public: Public) -> Any:
    """The same run in the engine that every row of the algorithms' table compares with it."""
    plan = public.plan
    records = prepared(plan.algorithm, federation())
    engine = LocalFederation(plan.algorithm, plan.task, records, seed=SEED, dtype="float64")
    engine.run(plan.rounds)
    return engine.params


def simulate(public: Public) -> Any:
    """The same run in the simulator, with the same numbers of rounds."""
    plan, before = public.plan, public.prelude
    records = federation()
    if before is None:
        records = prepared(plan.algorithm, records)
    else:
        opening = Simulator(before.algorithm, before.task, records, seed=SEED, dtype="float64")
        state = opening.advance(opening.init(), public.first_round(before), 1)
        outcome = json.loads(json.dumps(before.algorithm.released(state.server)))
        records = before.algorithm.applied(records, outcome)
    engine = Simulator(plan.algorithm, plan.task, records, seed=SEED, dtype="float64")
    return engine.params(engine.advance(engine.init(), 0, plan.rounds))
