"""One table: every algorithm has a row here, and every row goes through every test.

To add a method, add a row. ``algorithm`` makes it with small settings, ``task`` and ``federation``
say what it is run on. ``federation(variant)`` must give other records for another variant, with the
same sizes, shapes and classes: only what is public stays the same. ``properties`` are what the
paper promises, each a function of an ``Outcome``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from two_phases import TwoPhases

from experiments.fedexp_variants import FedEXPVariants
from tacit.accounting.events import Everyone, repeated
from tacit.accounting.leaves import leaves
from tacit.algorithm import Algorithm, Problem
from tacit.algorithms import (
    ISRLDP,
    AdaptDPFedAvg,
    Auto,
    AutoLocal,
    ClientDPScaffold,
    DPFedAvg,
    DPFedEXP,
    DPNormFedAvg,
    DPScaffNew,
    DPScaffold,
    DynamicLDP,
    FedAvg,
    RecordDPFedAvg,
)
from tacit.data.federation import Federation
from tacit.planning import Plan
from tacit.population import Population
from tacit.sampling import FixedCohort, PoissonCohort, TurnsCohort
from tacit.tasks.base import Task
from tacit.tasks.logistic import Logistic, Multinomial

FEATURES = 3
RAGGED = (5, 7, 6, 5, 7)


@dataclass(frozen=True)
class Outcome:
    """A run in float64: states before round 0 and after every round.

    ``states`` are the server's, ``clients`` the clients' with a leading axis of clients.
    """

    case: Case
    algorithm: Algorithm
    federation: Federation
    states: Sequence[Any]
    clients: Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A row: how to make an algorithm and what to run it on."""

    id: str
    algorithm: Callable[[], Algorithm]
    task: Callable[[], Task] = lambda: Logistic(features=FEATURES, l2=0.1)
    federation: Callable[[int], Federation] = lambda variant: labelled(variant)
    rounds: int = 3
    properties: tuple[Callable[[Outcome], None], ...] = ()
    like: str | None = None  # a row with the same clients and messages: engines are compared there

    @property
    def population(self) -> Population:
        """What is public about the row's clients."""
        return Population(tuple(int(n) for n in self.federation(0).sizes))

    def planned(self) -> Algorithm:
        """The algorithm as a run of these rounds sees it."""
        return self.algorithm().planned(Problem(self.task(), self.population, self.rounds))


def labelled(variant: int, sizes: Sequence[int] = RAGGED, features: int = FEATURES) -> Federation:
    """Ragged clients with two classes; the variant decides every record."""
    rng, total = np.random.default_rng([7, variant]), sum(sizes)
    return Federation(
        records={"x": rng.standard_normal((total, features)), "y": rng.integers(0, 2, total)},
        sizes=np.array(sizes),
        names=tuple(f"client-{i}" for i in range(len(sizes))),
        classes=2,
        title="tiny",
    )


def learns(outcome: Outcome) -> None:
    """The mean loss over all records is lower after the run than before."""
    task, records = outcome.case.task(), dict(outcome.federation.records)
    first, last = (
        task.losses(state.params, records).mean()
        for state in (outcome.states[0], outcome.states[-1])
    )
    assert last < first


def step_is_at_least_one(outcome: Outcome) -> None:
    """DP-FedEXP extrapolates and never shrinks a step."""
    assert all(state.step_size >= 1 for state in outcome.states)


def controls_sum_to_zero(outcome: Outcome) -> None:
    """ScaffNew's control variates cancel over the clients at any time."""
    for client in outcome.clients:
        for h in client.h.values():
            np.testing.assert_allclose(h.sum(axis=0), 0, atol=1e-12)
    assert np.abs(outcome.clients[-1].h["w"]).max() > 1e-3


def radius_stays_below_the_cap(outcome: Outcome) -> None:
    """AdaptDP-FedAvg clips at a public radius between 0 and its cap."""
    assert all(0 <= state.radius <= outcome.algorithm.max_radius for state in outcome.states)


def stays_in_its_ball(outcome: Outcome) -> None:
    """The model is projected on the ball that the algorithm names."""
    for state in outcome.states:
        assert np.hypot(np.linalg.norm(state.params["w"]), state.params["b"]) <= 0.4


def server_control_is_the_mean(outcome: Outcome) -> None:
    """SCAFFOLD: the server's control variate is the mean of the clients'."""
    for state, clients in zip(outcome.states, outcome.clients, strict=True):
        for name, control in state.control.items():
            np.testing.assert_allclose(control, clients[name].mean(axis=0), atol=1e-12)


def own_controls_hold_no_noise(outcome: Outcome) -> None:
    """SCAFFOLD at client level: after round one c_i is a clipped update over K eta, noise apart."""
    algorithm = outcome.algorithm
    longest = algorithm.clip / (algorithm.local_steps * algorithm.local_lr)
    for name, rows in outcome.clients[1].items():
        norms = np.linalg.norm(np.reshape(rows, (len(rows), -1)), axis=1)
        assert (norms <= longest * (1 + 1e-9)).all(), name
    assert any(np.any(rows != 0) for rows in outcome.clients[1].values())


def noise_falls(outcome: Outcome) -> None:
    """The dynamic allocation gives the last rounds the least noise."""
    levels = outcome.algorithm.levels
    assert all(a > b for a, b in pairwise(levels))


def step_follows_the_noise(outcome: Outcome) -> None:
    """Auto's step is the inverse of its noise, and half of it under twice the noise."""
    algorithm = outcome.algorithm
    kappa = algorithm.usual_kappa
    assert algorithm.lr == pytest.approx(kappa / (outcome.case.rounds**0.5 * algorithm.spread))
    louder = replace(algorithm, noise=2 * algorithm.noise)
    assert louder.lr / algorithm.lr == pytest.approx(algorithm.spread / louder.spread)
    assert louder.lr < algorithm.lr


def a_client_pays_for_its_own_turns(outcome: Outcome) -> None:
    """The run costs the releases of the client that is asked most often, not those of all."""
    case, algorithm = outcome.case, outcome.algorithm
    plan = Plan(case.algorithm(), case.task(), case.population, case.rounds)
    turns = -(-case.rounds // algorithm.cohort.groups)
    once = algorithm.release.event(0, relation=plan.relation, cohort=Everyone(), records=1)
    assert turns < case.rounds
    assert leaves(plan.total(), plan.relation) == leaves(repeated(once, turns), plan.relation)


def shares_are_louder_by_what_may_be_missing(outcome: Outcome) -> None:
    """Of five clients four are honest and one may be missing: three carry what is charged."""
    release = outcome.algorithm.release
    assert release.excess(5) == pytest.approx((5 / 3) ** 0.5)
    assert release.on_sum(5).mechanism.noise == pytest.approx(1.5 * (5 / 3) ** 0.5)
    assert outcome.algorithm.noise == 1.5


CASES: tuple[Case, ...] = (
    Case(
        id="fedavg",
        algorithm=lambda: FedAvg(local_steps=2, local_lr=0.5),
        properties=(learns,),
    ),
    Case(
        id="fedavg-minibatch",
        algorithm=lambda: FedAvg(local_steps=3, local_lr=0.5, local_decay=0.9, batch_size=2),
    ),
    Case(
        id="dp-fedavg",
        algorithm=lambda: DPFedAvg(local_steps=2, local_lr=0.5, clip=0.3, noise=1.5),
    ),
    Case(
        id="dp-fedavg-poisson",
        algorithm=lambda: DPFedAvg(
            noise=1.0, clients_per_round=PoissonCohort(0.5), batch_size=3, server_momentum=0.9
        ),
    ),
    Case(
        id="dp-fedavg-fixed-cohort",
        algorithm=lambda: DPFedAvg(
            noise=1.0, clients_per_round=FixedCohort(2), relation="replace-one"
        ),
    ),
    Case(
        id="dp-fedavg-local",
        algorithm=lambda: DPFedAvg(noise=2.0, noise_at="message", local_steps=2),
    ),
    Case(
        id="dp-fedavg-shares",
        algorithm=lambda: DPFedAvg(noise=1.5, noise_at="shares", honest=4, dropouts=1),
        properties=(shares_are_louder_by_what_may_be_missing,),
    ),
    Case(
        id="dp-fedavg-adam",
        like="dp-fedavg",
        algorithm=lambda: DPFedAvg(noise=1.0, server="adam", server_lr=0.1, server_decay=0.8),
    ),
    Case(
        id="dp-fedavg-record-fixed",
        algorithm=lambda: RecordDPFedAvg(noise=1.0, batch_size=3, local_steps=2, clip=0.5),
    ),
    Case(
        id="dp-fedavg-record-poisson",
        algorithm=lambda: RecordDPFedAvg(
            noise=1.0, batch_size=3, batches="poisson", relation="zero-out", local_steps=2
        ),
    ),
    Case(
        id="dp-fedavg-record-shuffled",
        algorithm=lambda: RecordDPFedAvg(
            noise=1.0, batch_size=3, batches="shuffled", local_steps=4, server_momentum=0.5
        ),
    ),
    Case(
        id="dp-fedavg-record-full",
        algorithm=lambda: RecordDPFedAvg(
            noise=1.0, batches="full", local_steps=2, clients_per_round=PoissonCohort(0.6)
        ),
    ),
    Case(
        id="adaptdp-fedavg",
        algorithm=lambda: AdaptDPFedAvg(
            noise=1.0, radius_noise=0.5, radius_batch=4, batch_size=3, local_steps=2, ball=0.4
        ),
        properties=(radius_stays_below_the_cap, stays_in_its_ball),
    ),
    Case(
        id="adaptdp-fedavg-full-radius",
        like="adaptdp-fedavg",
        algorithm=lambda: AdaptDPFedAvg(
            noise=1.0,
            radius_noise=0.5,
            batches="shuffled",
            batch_size=3,
            local_steps=3,
            output="average",
        ),
        properties=(radius_stays_below_the_cap,),
    ),
    Case(
        id="dp-norm-fedavg",
        algorithm=lambda: DPNormFedAvg(
            noise=1.0,
            local_steps=2,
            decay=0.9,
            server_momentum=0.5,
            output="average",
            average_rounds=2,
            clients_per_round=PoissonCohort(0.6),
        ),
    ),
    Case(
        id="dp-norm-fedavg-clip",
        like="dp-norm-fedavg",
        algorithm=lambda: DPNormFedAvg(
            bound="clip", noise=1.0, local_steps=2, batch_size=3, output="random"
        ),
    ),
    Case(
        id="dp-fedexp",
        algorithm=lambda: DPFedEXP(noise=0.5, local_steps=2),
        properties=(step_is_at_least_one,),
    ),
    Case(
        id="dp-fedexp-shares",
        algorithm=lambda: DPFedEXP(trust="shares", noise=0.5, local_steps=2),
        properties=(step_is_at_least_one,),
    ),
    Case(
        id="dp-fedexp-poisson",
        algorithm=lambda: DPFedEXP(
            noise=0.5,
            bound="normalize",
            local_steps=2,
            batch_size=3,
            max_step=2.0,
            clients_per_round=PoissonCohort(0.6),
            relation="zero-out",
        ),
        properties=(step_is_at_least_one,),
    ),
    Case(
        id="dp-fedexp-local",
        algorithm=lambda: DPFedEXP(trust="local", noise=0.5, local_steps=2),
        properties=(step_is_at_least_one,),
    ),
    Case(
        id="dp-fedexp-local-naive",
        like="dp-fedexp-local",
        algorithm=lambda: FedEXPVariants(
            trust="local", step="naive", bound="normalize", noise=0.5, local_steps=2
        ),
        properties=(step_is_at_least_one,),
    ),
    Case(
        id="dp-fedexp-step-one",
        like="dp-fedexp-poisson",
        algorithm=lambda: FedEXPVariants(
            step="one", noise=0.5, clients_per_round=PoissonCohort(0.6)
        ),
    ),
    Case(
        id="fedexp",
        like="dp-fedexp",
        algorithm=lambda: DPFedEXP(clip=1e6, local_steps=2, local_lr=0.5),
        properties=(learns, step_is_at_least_one),
    ),
    Case(
        id="dp-fedexp-privunit",
        algorithm=lambda: DPFedEXP(
            trust="local-privunit", local_steps=2, clients_per_round=PoissonCohort(0.7)
        ),
        properties=(step_is_at_least_one,),
    ),
    Case(
        id="dp-scaffnew",
        algorithm=lambda: DPScaffNew(probability=0.5, coin_seed=3, noise=1.0),
        properties=(controls_sum_to_zero,),
    ),
    Case(
        id="dp-scaffnew-minibatch",
        algorithm=lambda: DPScaffNew(local_steps=2, batch_size=3, noise=1.0),
        properties=(controls_sum_to_zero,),
    ),
    Case(
        id="dp-scaffold",  # option II, the default
        algorithm=lambda: DPScaffold(noise=1.0, batch_size=3, local_steps=2),
        properties=(server_control_is_the_mean,),
    ),
    Case(
        id="dp-scaffold-poisson",  # a state that depends on the coins, amplified by proof
        algorithm=lambda: ClientDPScaffold(
            noise_at="aggregate",
            noise=1.0,
            local_steps=2,
            clients_per_round=PoissonCohort(0.6),
        ),
    ),
    Case(
        id="dp-scaffold-option-one",
        algorithm=lambda: DPScaffold(option="I", noise=1.0, batch_size=3, local_steps=2),
        properties=(server_control_is_the_mean,),
    ),
    Case(
        id="dp-scaffold-client",
        algorithm=lambda: ClientDPScaffold(
            noise_at="aggregate",
            noise=1.0,
            local_steps=2,
            clients_per_round=FixedCohort(3),
        ),
    ),
    Case(
        id="dp-scaffold-shares",
        algorithm=lambda: ClientDPScaffold(noise_at="shares", noise=30.0, local_steps=2),
        properties=(own_controls_hold_no_noise,),
    ),
    Case(
        id="dp-scaffold-shortened",
        algorithm=lambda: ClientDPScaffold(noise=30.0, local_steps=2, controls="shortened"),
        properties=(own_controls_hold_no_noise,),
    ),
    Case(
        id="dp-scaffold-privunit",
        algorithm=lambda: ClientDPScaffold(mechanism="privunit", local_steps=2),
        properties=(own_controls_hold_no_noise,),
    ),
    Case(
        id="dp-scaffold-local",
        algorithm=lambda: ClientDPScaffold(noise=30.0, local_steps=2),
        properties=(own_controls_hold_no_noise,),
    ),
    Case(
        id="dynamic-ldp",
        algorithm=lambda: DynamicLDP(noise=1.0, strong_convexity=0.1, l1=0.01, box=1.0),
        properties=(noise_falls,),
    ),
    Case(
        id="isrl-dp",
        algorithm=lambda: ISRLDP(noise=1.0, strong_convexity=0.1, batches="fixed", batch_size=3),
    ),
    Case(id="auto", algorithm=lambda: Auto(noise=1.0), properties=(step_follows_the_noise,)),
    Case(
        id="auto-poisson",
        algorithm=lambda: Auto(noise=1.0, prior=True, clients_per_round=PoissonCohort(0.6)),
        task=lambda: Multinomial(features=FEATURES, classes=2),
    ),
    Case(
        id="auto-turns",
        like="auto",
        algorithm=lambda: Auto(noise=1.0, clients_per_round=TurnsCohort(2)),
        properties=(a_client_pays_for_its_own_turns,),
    ),
    Case(
        id="auto-few",
        algorithm=lambda: Auto(noise=1.0, local_steps=3, prior=True),
        properties=(step_follows_the_noise,),
    ),
    Case(
        id="auto-record",
        algorithm=lambda: Auto(noise=1.0, protects="record", average_rounds=2),
        properties=(step_follows_the_noise,),
    ),
    Case(
        id="auto-record-central",
        algorithm=lambda: Auto(noise=1.0, protects="record", noise_at="aggregate"),
        properties=(step_follows_the_noise,),
    ),
    Case(
        id="auto-record-shares",
        algorithm=lambda: Auto(noise=1.0, protects="record", noise_at="shares", honest=3),
        properties=(step_follows_the_noise,),
    ),
    Case(
        id="auto-record-poisson",
        like="auto-record-central",
        algorithm=lambda: Auto(
            noise=1.0,
            protects="record",
            noise_at="aggregate",
            clients_per_round=PoissonCohort(0.6),
        ),
    ),
    Case(
        id="auto-local",
        algorithm=lambda: AutoLocal(noise=0.25),
        properties=(step_follows_the_noise, a_client_pays_for_its_own_turns),
    ),
    Case(
        id="auto-local-twice",
        like="auto-local",
        algorithm=lambda: AutoLocal(noise=0.25, times=2, sampler="rejection"),
        rounds=4,
        properties=(a_client_pays_for_its_own_turns,),
    ),
    Case(
        id="auto-local-gaussian",
        algorithm=lambda: AutoLocal(noise=2.0, mechanism="gaussian", prior=False),
        properties=(a_client_pays_for_its_own_turns,),
    ),
    Case(id="two-phases", algorithm=lambda: TwoPhases()),
)
