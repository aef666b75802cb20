"""The simulator: one program, any cohort, and nobody's records in another client's work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit import tree
from tacit.accounting import Everyone
from tacit.algorithms import DPFedAvg, FedAvg, RecordDPFedAvg
from tacit.data.federation import Federation
from tacit.errors import TacitError
from tacit.sampling import PoissonCohort
from tacit.simulation import Simulator
from tacit.tasks.linear import LeastSquares
from tacit.tasks.logistic import Logistic

pytestmark = pytest.mark.usefixtures("quick_compilation")

SIZES = (3, 1, 4, 2, 5)
FEATURES = 2


@dataclass(frozen=True)
class Only:
    """A cohort of one known client."""

    client: int
    groups: ClassVar[int] = 1

    def mask(self, key: Any, clients: int, round_: Any = 0) -> Any:
        return jnp.arange(clients) == self.client

    def expected(self, clients: int) -> float:
        return 1.0

    def scheme(self, clients: int) -> Everyone:
        return Everyone()


def federation(seed: int = 0, sizes: tuple[int, ...] = SIZES) -> Federation:
    rng, total = np.random.default_rng(seed), sum(sizes)
    x = rng.standard_normal((total, FEATURES))
    return Federation(
        records={"x": x, "y": x @ np.array([1.0, -2.0])},
        sizes=np.array(sizes),
        names=tuple(f"c{i}" for i in range(len(sizes))),
    )


def with_wild_others(calm: Federation, client: int, size: float) -> Federation:
    """The same client among others whose records overflow."""
    start = int(calm.offsets[client])
    mine = slice(start, start + int(calm.sizes[client]))
    wild = {k: np.full_like(v, size) for k, v in calm.records.items()}
    for name, column in calm.records.items():
        wild[name][mine] = column[mine]
    return Federation(records=wild, sizes=calm.sizes, names=calm.names)


def after(algorithm: Any, data: Federation, rounds: int = 2, **how: Any) -> Any:
    task = LeastSquares(features=FEATURES, bias=True)
    simulator = Simulator(algorithm, task, data, seed=1, **how)
    return jax.tree.map(np.array, simulator.advance(simulator.init(), 0, rounds).server.params)


@pytest.mark.parametrize("block", [1, 3])
@pytest.mark.parametrize("client", [0, 1])
def test_the_records_of_others_do_not_matter(block: int, client: int) -> None:
    algorithm = FedAvg(local_steps=2, clients_per_round=Only(client))
    calm = federation()
    alone = after(algorithm, calm, block=block)
    crowd = after(algorithm, with_wild_others(calm, client, 1e30), block=block)
    assert np.isfinite(alone["w"]).all()
    assert alone["w"].any()
    assert alone["w"].tobytes() == crowd["w"].tobytes()


@pytest.mark.parametrize("block", [1, 3])
def test_a_diverged_client_does_not_end_the_round(block: int) -> None:
    """Steps so long that the model overflows: the others go on, as they do between real clients."""
    algorithm = RecordDPFedAvg(
        local_lr=1e38, local_steps=3, clip=1e3, noise=1.0, batches="full", batch_size=None
    )
    assert np.isfinite(after(algorithm, federation(), block=block)["w"]).all()


def test_an_empty_cohort_leaves_noise_alone() -> None:
    rare = PoissonCohort(1e-6)
    still = after(FedAvg(clients_per_round=rare), federation())
    assert not still["w"].any()
    noisy = after(DPFedAvg(noise=1e-6, clients_per_round=rare), federation(), rounds=1)
    assert 0 < np.abs(noisy["w"]).max() < 10


def test_more_devices_and_wider_blocks_change_nothing() -> None:
    algorithm = DPFedAvg(noise=0.5, local_steps=2, clients_per_round=PoissonCohort(0.7))
    ways = [
        after(algorithm, federation(), rounds=4, dtype="float64", **how)
        for how in ({}, {"max_devices": 1}, {"block": 2}, {"block": 8, "max_devices": 1})
    ]
    for other in ways[1:]:
        np.testing.assert_allclose(other["w"], ways[0]["w"], atol=1e-12)


def test_one_client_and_single_records() -> None:
    lonely = federation(sizes=(1,))
    assert np.isfinite(after(RecordDPFedAvg(noise=1.0, batch_size=10), lonely)["w"]).all()
    assert np.isfinite(after(FedAvg(batch_size=3), federation(sizes=(1, 1, 1)))["w"]).all()


def test_a_run_follows_its_seed() -> None:
    task, data = LeastSquares(features=FEATURES), federation()
    simulator = Simulator(DPFedAvg(noise=1.0), task, data, seed=1)

    def run(seed: int) -> bytes:
        simulator.reseed(seed)
        state = simulator.advance(simulator.init(), 0, 2)
        return np.asarray(simulator.params(state)["w"]).tobytes()

    first = run(1)
    assert run(2) != first
    assert run(1) == first
    assert simulator.traces == 1


def test_a_stretch_is_as_good_as_its_rounds() -> None:
    task, data = LeastSquares(features=FEATURES), federation()
    simulator = Simulator(DPFedAvg(noise=1.0, server="adam"), task, data)
    at_once = simulator.advance(simulator.init(), 0, 5)
    one = simulator.init()
    for first, count in ((0, 1), (1, 3), (4, 1)):
        saved = jax.tree.map(np.array, one)  # through the host, as a checkpoint goes
        one = simulator.advance(simulator.place(saved), first, count)
    for ours, theirs in zip(
        tree.to_named(one).values(), tree.to_named(at_once).values(), strict=True
    ):
        assert ours.tobytes() == theirs.tobytes()


def test_evaluation_in_chunks_is_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    records = {"x": rng.standard_normal((23, 3)), "y": rng.integers(0, 2, 23)}
    task = Logistic(features=3, l2=0.5)
    data = Federation(records=records, sizes=np.array([23]), names=("a",), classes=2)
    simulator = Simulator(FedAvg(), task, data, dtype="float64")
    with jax.enable_x64(True):
        params = {"w": jnp.asarray([0.3, -1.0, 2.0]), "b": jnp.asarray(0.1)}
    whole = simulator.evaluate(params, records)
    monkeypatch.setattr("tacit.evaluation._AT_ONCE", 5)
    small = simulator.evaluate(params, records)
    z = records["x"] @ np.array([0.3, -1.0, 2.0]) + 0.1
    signs = 1 - 2 * records["y"]
    loss = np.log1p(np.exp(signs * z)).mean() + 0.25 * (0.09 + 1 + 4 + 0.01)
    assert whole["loss"] == pytest.approx(loss, abs=1e-12)
    assert small == pytest.approx(whole, abs=1e-12)
    assert whole["accuracy"] == np.mean((z > 0) == (records["y"] == 1))


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(TacitError, match="float32"):
        Simulator(FedAvg(), LeastSquares(features=2), federation(), dtype="float16")
