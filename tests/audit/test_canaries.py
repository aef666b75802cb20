"""One training with canaries: their coins are guessed as well as the claim allows."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.accounting import Budget
from tacit.algorithm import Algorithm
from tacit.algorithms import DPFedAvg, RecordDPFedAvg
from tacit.audit.canaries import one_run_audit
from tacit.audit.verdict import Guessed
from tacit.data.federation import Federation
from tacit.errors import ConfigError
from tacit.mechanisms import Gaussian
from tacit.run.loop import Settings
from tacit.run.run import Run
from tacit.tasks.logistic import Multinomial

FEATURES = 40
pytestmark = pytest.mark.usefixtures("quick_compilation")


def federation(clients: int, each: int) -> Federation:
    rng = np.random.default_rng(3)
    total = clients * each
    return Federation(
        records={"x": rng.standard_normal((total, FEATURES)), "y": rng.integers(0, 5, total)},
        sizes=np.full(clients, each),
        names=tuple(f"client-{i}" for i in range(clients)),
        classes=5,
        title="generated",
    )


def guessed(algorithm: Algorithm, clients: int, each: int, epsilon: float = 8.0) -> Guessed:
    task = Multinomial(features=FEATURES, classes=5)
    run = Run.of(
        algorithm,
        task,
        federation(clients, each),
        rounds=4,
        budget=Budget(epsilon, 1e-5),
        settings=Settings(seed=0),
    )
    return one_run_audit(run)


@pytest.mark.parametrize(
    ("algorithm", "clients", "each"),
    [
        (DPFedAvg(local_steps=2), 100, 2),
        (DPFedAvg(local_steps=2, noise_at="message"), 100, 2),
        (RecordDPFedAvg(batches="full", local_steps=1), 2, 60),
    ],
    ids=["models", "messages", "records"],
)
def test_guesses_show_some_of_the_claim_and_not_more(
    algorithm: Algorithm, clients: int, each: int
) -> None:
    found = guessed(algorithm, clients, each)
    assert not found.violation
    assert 0.3 < found.audited < found.claimed


def test_without_noise_canaries_are_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gaussian, "noised", lambda self, key, value, *_, **__: value)
    alone = guessed(RecordDPFedAvg(batches="full", local_steps=1), 2, 60, epsilon=0.5)
    assert alone.right == alone.guesses  # without noise every guess is right
    assert alone.violation


def test_too_many_canaries_are_refused() -> None:
    run = Run.of(
        DPFedAvg(),
        Multinomial(features=FEATURES, classes=5),
        federation(25, 2),
        rounds=2,
        budget=Budget(4.0, 1e-5),
    )
    with pytest.raises(ConfigError, match="at least 20 canaries, and this run has room for 25"):
        one_run_audit(run, canaries=60)
