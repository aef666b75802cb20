"""More faults: wrong prices, and ways around a release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from pytest import MonkeyPatch

from tacit import local, phase, release, tree
from tacit.accounting import events
from tacit.algorithms import DPFedEXP
from tacit.algorithms.scaffold import Scaffold
from tacit.mechanisms import PrivUnitG
from tacit.planning import Plan, plan
from tacit.release import Release
from tacit.run import prelude
from tacit.sampling import FixedBatch, PoissonCohort, ShuffledBatches, TurnsCohort
from tacit.simulation import engine

# Prices.


def replace_one_as_add_remove(patch: MonkeyPatch) -> None:
    patch.setattr(events, "sensitivity", lambda radius, *_: radius)


def one_round_for_all(patch: MonkeyPatch) -> None:
    real = Plan._alike
    patch.setattr(Plan, "_alike", lambda self, only, _: real(self, only, 1))


def fixed_batches_as_poisson(patch: MonkeyPatch) -> None:
    patch.setattr(
        FixedBatch, "scheme", lambda self, size: events.Poisson(rate=min(1.0, self.size / size))
    )


def privunitg_at_half_price(patch: MonkeyPatch) -> None:
    patch.setattr(PrivUnitG, "event", lambda self, *_, **__: events.pure_event(self.epsilon / 2))


def cohort_for_everyone(patch: MonkeyPatch) -> None:
    for module in (release, phase, plan):
        patch.setattr(module, "charged_cohort", lambda cohort, unit: cohort)


def vector_alone(patch: MonkeyPatch) -> None:
    patch.setattr(
        events,
        "joint_mu_squared",
        lambda vector, scalar, relation: vector * events.sensitivity(1.0, relation) ** 2,
    )


def turns_charged_once(patch: MonkeyPatch) -> None:
    patch.setattr(TurnsCohort, "scheme", lambda self, _: events.Turns(groups=2 * self.groups))


def epochs_charged_once(patch: MonkeyPatch) -> None:
    patch.setattr(ShuffledBatches, "scheme", lambda *_: events.ShuffledEpochs(batches=10**6))


def larger_cohorts(patch: MonkeyPatch) -> None:
    real = PoissonCohort.mask
    patch.setattr(
        PoissonCohort,
        "mask",
        lambda self, *given: real(replace(self, rate=min(1.0, 3 * self.rate)), *given),
    )


def prelude_for_free(patch: MonkeyPatch) -> None:
    patch.setattr(prelude, "_charged", lambda *_, **__: [])


# Ways around a release.


def raw_gradient(task: Any, given: Release, moment: Any, params: Any, data: Any) -> Any:
    return local.gradient(task, given.batch, moment.key, jnp.zeros((), jnp.int32), params, data)


def raw_norm_in_a_map(patch: MonkeyPatch) -> None:
    real = local.private_steps

    def steps(task: Any, given: Release, moment: Any, params: Any, data: Any, **more: Any) -> Any:
        raw = tree.squared_norm(raw_gradient(task, given, moment, params, data))
        found = real(task, given, moment, params, data, **more)
        return found.map(lambda value: jax.tree.map(lambda v: v + 1e-3 * raw, value))

    patch.setattr(local, "private_steps", steps)


def raw_norm_in_a_statistic(patch: MonkeyPatch) -> None:
    real, held = local.update, []

    def update(*given: Any, **more: Any) -> Any:
        found = real(*given, **more)
        held[:] = [tree.squared_norm(found)]
        return found

    patch.setattr(local, "update", update)
    patch.setattr(DPFedEXP, "estimate", lambda *_: held[0])


def raw_state(patch: MonkeyPatch) -> None:
    real, held = local.private_steps, []

    def steps(*given: Any, **more: Any) -> Any:
        held[:] = [raw_gradient(*given)]
        return real(*given, **more)

    patch.setattr(local, "private_steps", steps)
    patch.setattr(Scaffold, "renewed", lambda *_: held[0])


def one_step_more(patch: MonkeyPatch) -> None:
    real = local.private_steps

    def steps(task: Any, given: Release, *rest: Any, **more: Any) -> Any:
        return real(task, replace(given, times=given.times + 1), *rest, **more)

    patch.setattr(local, "private_steps", steps)


def undeclared_fields(patch: MonkeyPatch) -> None:
    real = engine.leave_client

    def leave(given: Any, key: Any, message: Any, round_: Any) -> Any:
        declared = {name: value for name, value in message.items() if name in given.releases}
        sent, stats = real(given, key, declared, round_)
        return {**message, **sent}, stats

    patch.setattr(engine, "leave_client", leave)
