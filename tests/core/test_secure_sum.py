"""Assumptions of secure sums: what is planned, refused and said."""

from __future__ import annotations

import math

import pytest

from tacit.accounting.guarantee import observer
from tacit.algorithm import Algorithm
from tacit.algorithms import Auto, ClientDPScaffold, DPFedAvg, DPFedEXP, DPNormFedAvg
from tacit.bounds import Clip
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian
from tacit.phase import Phase
from tacit.planning import Plan
from tacit.population import Population
from tacit.release import Release
from tacit.sampling import PoissonCohort, TurnsCohort
from tacit.secure_sum import SecureSum
from tacit.tasks.logistic import Logistic

TEN = Population((20,) * 10)
TASK = Logistic(features=3)


def plan_of(algorithm: Algorithm, population: Population = TEN) -> Plan:
    return Plan.of(algorithm, TASK, population, 5)


@pytest.mark.parametrize(
    ("clients", "given", "honest", "carriers"),
    [
        (3, SecureSum(), 2, 2),
        (2, SecureSum(), 2, 2),
        (10, SecureSum(), 7, 7),
        (10, SecureSum(7, 2), 7, 5),
        (10, SecureSum(10, 4), 10, 6),
        (100, SecureSum(), 67, 67),
    ],
)
def test_who_carries_the_noise(clients: int, given: SecureSum, honest: int, carriers: int) -> None:
    assert given.honest_of(clients) == honest
    assert given.carriers(clients) == carriers
    assert given.excess(clients) == pytest.approx(math.sqrt(clients / carriers))


@pytest.mark.parametrize(
    ("trust", "clients", "said"),
    [
        (SecureSum(), 1, "at least two clients"),
        (SecureSum(4), 3, "there are 3 clients"),
        (SecureSum(4, 2), 5, "could open two sums"),
        (SecureSum(3, -1), 5, "could open two sums"),
    ],
)
def test_impossible_assumptions_are_refused(trust: SecureSum, clients: int, said: str) -> None:
    with pytest.raises(TacitError, match=said):
        trust.check(clients)
    method = DPFedAvg(noise=1.0, noise_at="shares")
    object.__setattr__(method, "honest", trust.honest)
    object.__setattr__(method, "dropouts", trust.dropouts)
    with pytest.raises(TacitError, match=said):
        plan_of(method, Population((5,) * clients))


@pytest.mark.parametrize("cohort", [PoissonCohort(0.5), TurnsCohort(2)])
def test_a_secure_sum_is_over_all_clients(cohort: object) -> None:
    with pytest.raises(TacitError, match="over all clients"):
        plan_of(DPFedAvg(noise=1.0, noise_at="shares", clients_per_round=cohort))  # type: ignore


METHODS = (
    DPFedAvg(noise=2.0, noise_at="shares", honest=6, dropouts=1),
    DPNormFedAvg(noise=2.0, noise_at="shares", honest=6, dropouts=1),
    DPFedEXP(noise=2.0, trust="shares", honest=6, dropouts=1),
    ClientDPScaffold(noise=2.0, noise_at="shares", honest=6, dropouts=1),
    Auto(noise=2.0, noise_at="shares", honest=6, dropouts=1),
    Auto(noise=2.0, protects="record", noise_at="shares", honest=6, dropouts=1),
)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{type(m).__name__} {m.release.unit}")
def test_the_price_is_that_of_a_trusted_server_and_the_sentence_is_not(method: Algorithm) -> None:
    from dataclasses import replace

    change = {"trust": "central"} if isinstance(method, DPFedEXP) else {"noise_at": "aggregate"}
    plans = plan_of(method), plan_of(replace(method, **change))
    secure, central = (plan.with_noise(2.0) for plan in plans)  # the prelude has noise, too
    ours, theirs = secure.guarantee(1e-5), central.guarantee(1e-5)
    assert ours.epsilon == pytest.approx(theirs.epsilon)
    assert "as long as at least 6 of the 10 sites follow the protocol" in ours.sentence()
    assert "server included" in ours.sentence() and "6 of the 10 sites honest" in ours.short()
    assert "the server itself is trusted" in theirs.sentence()
    assert secure.prelude is None or secure.prelude.observer == secure.observer
    (note,) = [note for note in secure.notes(1e-5) if "Secure sum" in note]
    assert "5 shares carry" in note and "1.41 times" in note
    assert not [note for note in central.notes(1e-5) if "Secure sum" in note]


def test_sentences_name_every_assumption() -> None:
    both = observer(True, 4, 5)
    assert "the server itself is trusted" in both and "4 of the 5" in both
    copied = observer(False, 4, 5, copied_keys=True)
    assert copied.endswith("nobody else has the signing keys that were made for them")


def test_a_phase_is_a_secure_sum_as_a_whole() -> None:
    def release(at: str) -> Release:
        return Release(bound=Clip(1.0), mechanism=Gaussian(1.0), at=at)  # type: ignore[arg-type]

    nothing = {"client": lambda *_: ({}, ()), "server": lambda state, _: state}
    with pytest.raises(TacitError, match="one secure sum"):
        Phase(name="p", releases={"a": release("shares"), "b": release("aggregate")}, **nothing)
    with pytest.raises(TacitError, match="only a release in shares"):
        release("message").share(None, None)  # type: ignore[arg-type]
