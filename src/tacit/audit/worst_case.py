"""Whole trainings on worst-case neighbours, many times, through the engine that people run.

The auditor builds a small federation for the method, its noise and its rounds. Every record pulls
the model in a direction that the auditor chose (``pull``), and two federations differ in one unit:
a client or a record that contributes its whole bound, and one that contributes nothing (zero-out)
or the opposite (replace-one). Who must be protected against the server is attacked from its
messages, noise included; otherwise from the models of all rounds. A third of the runs teach the
attacker how to weigh what it sees; the others are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.algorithm import releases, trusts_server
from tacit.audit.pull import FAR, Pull, pulled
from tacit.audit.verdict import Observed, Verdict, verdict
from tacit.audit.watched import Watched, first_numbers
from tacit.data.federation import Federation
from tacit.errors import ConfigError, TacitError
from tacit.planning import Plan
from tacit.population import Population
from tacit.simulation import RunState, Simulator
from tacit.simulation.replicas import Replicas

_FEW_RECORDS = 4  # of a client that is protected as a whole
_SIZES = (2, 3, 5, 8, 16, 32, 64, 128, 256, 512)
Features = NDArray[np.float64]
_NUMBERS = 8  # the most that is kept of a message or a model
_TOGETHER = 512  # runs of one call
_RIDGE = 1e-9  # of what is seen, whose spread is 1
OnRun = Callable[[int], None]


@dataclass(frozen=True)
class WorstCase:
    """A plan on a small federation, its two neighbouring versions, and what is seen of a run."""

    plan: Plan
    first: Federation
    second: Federation
    sees_messages: bool

    def observed(self, state: RunState) -> Array:
        """What the observer has seen when a run ends: of messages, those of the unit's client.

        The next client's are seen too. Its records are known, so they tell what both share.
        """
        return state.clients.messages[0, :2] if self.sees_messages else state.server.models

    @property
    def about(self) -> str:
        """What is attacked, in words."""
        unit, clients = self.plan.unit, self.plan.population.clients
        seen = "the messages"
        if not self.sees_messages:
            seen = "the models of all rounds"
        other = "nothing" if self.plan.relation == "zero-out" else "the opposite"
        return (
            f"one {unit} at its bound against {other}, {self.plan.rounds} rounds with"
            f" {clients} clients, seen: {seen}"
        )


def worst_case(plan: Plan, rounds: int | None = None) -> WorstCase:
    """The smallest federation on which the method runs as planned, and its neighbours."""
    small = _smaller(plan, rounds or plan.rounds)
    rows = slice(0, 1 if small.unit == "record" else small.population.sizes[0])
    opposite: float | None = -FAR
    if small.relation != "replace-one":
        opposite = 0.0 if small.unit == "record" else None
    found = releases(small.algorithm, small.task, small.population)
    shared = any(release.at == "shares" for release in found.values())
    sizes = small.population.sizes
    return WorstCase(
        plan=small,
        first=pulled(sizes, rows, opposite),
        second=pulled(sizes, rows, FAR),
        sees_messages=not trusts_server(found) and not shared,
    )


def audited(
    name: str,
    case: WorstCase,
    *,
    draws: int = 3000,
    delta: float = 1e-5,
    confidence: float = 0.99,
    seed: int = 0,
    on_run: OnRun = lambda _: None,
) -> Verdict:
    """Train so often on both neighbours, and judge the attack against the plan's own event."""
    if draws < 100:
        raise ConfigError(f"{draws} runs show next to nothing: give at least 100.")
    scores = _scored(*_seen(case, draws, seed, on_run))
    event = case.plan.total()
    return verdict(name, case.about, scores, event, case.plan.relation, delta, confidence)


def _smaller(plan: Plan, rounds: int) -> Plan:
    """The same method and noise with as few clients as it takes; its smallest client decides."""
    population = plan.population
    each = population.smallest
    if plan.unit == "client":
        each = min(each, _FEW_RECORDS)
    failed: TacitError | None = None
    for clients in (*(n for n in _SIZES if n < population.clients), population.clients):
        try:
            small = Plan(plan.algorithm, Pull(plan.task), Population((each,) * clients), rounds)
            small.algorithm.cohort.expected(clients)
            return small
        except TacitError as error:
            failed = error
    raise ConfigError(f"no small federation fits this method: {failed}")


def _seen(case: WorstCase, draws: int, seed: int, on_run: OnRun) -> Iterator[Features]:
    """What the observer sees of runs on the first federation, and of runs on the second one.

    No two runs of an audit share their randomness.
    """
    watched = Watched(
        method=case.plan.algorithm,
        rows=case.plan.rounds,
        numbers=_NUMBERS,
        tell=partial(first_numbers, most=_NUMBERS),
        relation=case.plan.relation,
    )
    engine = Simulator(
        watched, case.plan.task, case.first, seed=seed, dtype="float64", max_devices=1
    )
    replicas = Replicas(engine, case.plan.rounds, case.observed)
    seeds = np.random.SeedSequence([seed]).generate_state(2 * draws, np.uint32) >> 1
    for number, federation in enumerate((case.first, case.second)):
        engine.load(federation)
        parts = []
        for start in range(0, draws, _TOGETHER):
            # The last part is as long as the others, or it would be compiled for itself.
            own = seeds[number::2][start : start + _TOGETHER]
            found = replicas(np.resize(own, _TOGETHER).astype(np.int64))
            parts.append(np.reshape(found, (_TOGETHER, -1))[: len(own)])
            on_run(number * draws + start + len(own))
        yield np.concatenate(parts)


def _scored(first: Features, second: Features) -> Observed:
    """Scores by the linear rule that separates a third of the runs best."""
    from sklearn.covariance import ledoit_wolf

    taught = len(first) // 3
    seen = np.concatenate([first[:taught], second[:taught]])
    spread = seen.std(axis=0)
    told = spread > 0
    if not told.any():  # nothing that is seen ever changes
        return Observed(np.zeros(len(first) - taught), np.zeros(len(second) - taught))
    ours, theirs = (
        (part[:, told] - seen[:, told].mean(axis=0)) / spread[told] for part in (first, second)
    )
    means = [part[:taught].mean(axis=0) for part in (ours, theirs)]
    around = np.concatenate([ours[:taught] - means[0], theirs[:taught] - means[1]])
    # Where noise does not change from run to run, or cancels, the ridge decides: no run is unlike.
    within = ledoit_wolf(around, assume_centered=True)[0] + _RIDGE * np.eye(around.shape[1])
    rule = np.linalg.solve(within, means[1] - means[0])
    return Observed(ours[taught:] @ rule, theirs[taught:] @ rule)
