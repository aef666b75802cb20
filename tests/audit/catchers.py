"""What catches faults: audits at moderate privacy, and the tests that every method goes through.

Each catcher looks at the code as it is now and says what it found. Audits flag a violation. A test
flags by failing, and only by failing: any other error is an error here, too. Plans, engines and
programs are made anew in every look, so that a fault that was planted before is in effect.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import rooms  # noqa: F401  # so that the tests of other folders are found
import test_amplification
import test_bounds
import test_canaries
import test_every_algorithm
import test_extreme_models
import test_golden
import test_leaks
from engines import parts
from registry import CASES, FEATURES, labelled

from tacit import local
from tacit.accounting import Budget, Ledger
from tacit.accounting.events import Everyone
from tacit.algorithm import Algorithm, ClientData, Moment
from tacit.algorithms import AdaptDPFedAvg, Auto, AutoLocal, DPFedAvg, RecordDPFedAvg
from tacit.audit.mechanisms import Subject, _many, audit, judged
from tacit.audit.verdict import Judged, Verdict
from tacit.audit.worst_case import audited, worst_case
from tacit.bounds import Clip
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian
from tacit.planning import Plan, calibrate
from tacit.population import Population
from tacit.release import Release
from tacit.run.folder import RunFolder
from tacit.run.prelude import opened
from tacit.sampling import FixedBatch
from tacit.tasks.logistic import Logistic

EPSILON, DELTA = 3.0, 1e-3


@dataclass(frozen=True)
class Found:
    """What a look has found: whether a fault is flagged, and by which numbers or words."""

    flagged: bool
    said: str
    claimed: float | None = None
    audited: float | None = None


@dataclass(frozen=True)
class Catcher:
    """A look at the code, and what kind of look it is."""

    label: str
    look: Callable[[], Found]


@cache
def without(look: Callable[[], Found]) -> Found:
    """What a look finds without a fault; done once."""
    return look()


def judgement(found: Judged) -> Found:
    said = found.sentence()
    if isinstance(found, Verdict) and found.violation and found.audited <= found.claimed:
        said += (
            f" Its rates are above the curve: {found.found.true_positives:.3f} of true positives"
            f" where the claim allows {found.allowed:.3f}."
        )
    return Found(found.violation, said, found.claimed, found.audited)


def attack(
    method: Callable[[], Algorithm], rounds: int = 4, each: int = 6, draws: int = 3072
) -> Found:
    """The worst case of a method that is calibrated now, with the prices as they are now."""
    plan = Plan(method(), Logistic(features=3), Population((each,) * 4), rounds)
    case = worst_case(calibrate(plan, Budget(EPSILON, DELTA)))
    return judgement(audited("run", case, draws=draws, delta=DELTA))


def worst(method: Callable[[], Algorithm], **settings: Any) -> Catcher:
    return Catcher("worst-case audit", partial(attack, method, **settings))


def mechanism(name: str, draws: int = 8192) -> Catcher:
    def look() -> Found:
        return judgement(audit(name, draws=draws, delta=DELTA, seed=1))

    return Catcher("mechanism audit", look)


def failure(test: Callable[..., Any], *given: Any) -> Found:
    """A test that fails has flagged; its first words say why."""
    try:
        test(*given)
    except (AssertionError, pytest.fail.Exception) as error:
        words = next((line for line in str(error).splitlines() if line.strip()), "")
        return Found(True, f"{test.__name__} fails: {words or type(error).__name__}")
    return Found(False, f"{test.__name__} passes")


def tested(label: str, test: Callable[..., Any], *given: Any) -> Catcher:
    return Catcher(label, partial(failure, test, *given))


def row(name: str) -> Any:
    return next(case for case in CASES if case.id == name)


def registry(label: str, test: Callable[..., Any], name: str) -> Catcher:
    """A test of every method, on one of its rows."""
    return tested(label, test, row(name))


MODELS = worst(lambda: DPFedAvg())
MESSAGES = worst(lambda: DPFedAvg(noise_at="message"))
EPOCHS = worst(
    lambda: RecordDPFedAvg(batches="shuffled", batch_size=6, local_steps=4),
    rounds=1,
)
TURNS = worst(lambda: AutoLocal(mechanism="gaussian", times=2, prior=False), draws=6144)
RADIUS = worst(
    lambda: AdaptDPFedAvg(batches="full", local_steps=1, max_radius=8.0, radius_share=0.3),
    rounds=1,
    each=120,
    draws=1024,
)

GAUSSIAN, ROUNDED = mechanism("gaussian"), mechanism("rounded-gaussian")
LAPLACE, JOINT, SHARES = mechanism("laplace"), mechanism("joint"), mechanism("shares", 16_384)
PRIVUNIT, PRIVUNITG = mechanism("privunit", 4096), mechanism("privunitg", 4096)
POISSON = mechanism("poisson-gaussian")


def batches() -> Found:
    """One of ten records: nine pull one way, and the tenth the other way or nowhere.

    Not drawn, it lets another record in: coins of their own would not. The rule is refused where
    prices are right, because it has none under zero-out.
    """
    batch = FixedBatch(1)
    release = Release(
        bound=Clip(1.0), mechanism=Gaussian(0.5), at="step", unit="record", batch=batch
    )
    try:
        event = release.event(0, relation="zero-out", cohort=Everyone(), records=10)
    except TacitError as refused:
        return Found(False, str(refused))

    def draw(key: jax.Array, count: int, second: bool) -> Any:
        values = jnp.full(10, -1e9).at[0].set(1e9 if second else 0.0)
        data = ClientData({"x": values}, jnp.asarray(10))

        def one(k: jax.Array) -> jax.Array:
            moment = Moment(jnp.zeros((), jnp.int32), k)
            return local.record_sum(release, moment, data, jnp.zeros(()), lambda r: r["x"]).value

        return _many(one, key, count)

    subject = Subject("batches of one of ten records", draw, event, "zero-out")
    found = judged("fixed batches", subject, draws=16_384, delta=0.02, confidence=0.99, seed=1)
    return judgement(found)


BATCHES = Catcher("mechanism audit", batches)
ONE_RUN = Catcher(
    "one-run audit",
    lambda: judgement(test_canaries.guessed(DPFedAvg(noise_at="message"), 100, 2, epsilon=0.5)),
)


def fresh(test: Callable[..., Any], *caches: Any) -> Callable[..., Any]:
    """The test without programs that were compiled before, and without leaving any."""

    @contextmanager
    def forgotten() -> Any:
        for one in caches:
            one.cache_clear()
        yield
        for one in caches:
            one.cache_clear()

    def run(*given: Any) -> None:
        with forgotten():
            test(*given)

    run.__name__ = test.__name__
    return run


def a_prelude_is_paid_as_planned() -> None:
    """What is released before round 0 is in the ledger with the price that the plan names."""
    federation = labelled(0)
    task, sizes = Logistic(features=FEATURES), Population(tuple(federation.sizes.tolist()))
    plan = Plan.of(Auto(), task, sizes, 3).with_noise(1.0)
    assert plan.prelude is not None
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(path)
        promise = {"unit": plan.unit, "relation": plan.relation, "observer": plan.observer}
        with Ledger.create(folder.ledger, **promise) as ledger:
            opened(plan, federation, 0, "float64", ledger, folder)
            paid, planned = ledger.spent(), plan.prelude.total()
    assert parts(paid, plan.relation) == parts(planned, plan.relation)


def erasure(case: Any) -> None:
    """The test of every method, without the bytes of real clients, which cost as much again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(test_every_algorithm, "is_local", lambda _: False)
        test_every_algorithm.test_erasure_and_times(case)


ERASURE_STEPS = registry("erasure", erasure, "dp-fedavg-record-full")
# The server's step is at least 1 and hides small numbers; the bytes that it reads do not.
ERASURE_STATISTIC = registry(
    "erasure", test_every_algorithm.test_erasure_and_times, "dp-fedexp-local"
)
ERASURE_STATE = registry("erasure", erasure, "dp-scaffold")
TIMES = Catcher("times", ERASURE_STEPS.look)
KEYS = registry("one key for each draw", erasure, "dp-fedavg")
BOUNDS = tested(
    "bounds",
    fresh(test_bounds.test_a_contribution_never_exceeds_its_radius, test_bounds.compiled),
    *(Clip, "float32"),
)
EXTREME = tested(
    "sensitivity",
    fresh(
        test_extreme_models.test_no_small_gradient_counts_for_more,
        test_extreme_models.compiled,
    ),
    *("least-squares-paper-003", "float32"),
)
COHORT = tested("golden round", test_golden.test_poisson_cohorts_divide_by_what_is_expected)
GOLDEN = tested("golden round", test_golden.test_central_noise)
FIELDS = tested("boundary", test_leaks.test_an_undeclared_field_does_not_leave)
SIBLINGS = tested(
    "amplification", test_amplification.test_a_record_is_not_hidden_by_the_cohort_of_clients
)
OTHERS = tested(
    "amplification",
    test_amplification.test_a_fixed_cohort_hides_nobody_from_the_other_clients,
    *(2, 1, 10, 3.055),
)
LEDGER = tested("plan equals ledger", a_prelude_is_paid_as_planned)
