"""One training with many canaries: the run itself is audited, on its own task and records.

Some units of the run are replaced by canaries. Each pulls the model in a direction of its own, at a
right angle to all others, as far as the bound allows. A fair coin decides for each whether it does
so or contributes nothing (zero-out), or in which of both directions it pulls (replace-one). The
attacker sees what the observer of the guarantee sees, and guesses the coins of those canaries of
which it is most certain. How many it guesses is fixed in advance; a few canaries tell it which way
scores point, and are not counted (``estimators.one_run``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from tacit.algorithm import releases, trusts_server
from tacit.audit.estimators import one_run
from tacit.audit.verdict import Guessed
from tacit.audit.watched import Watched
from tacit.data.federation import Federation
from tacit.errors import ConfigError
from tacit.planning import Plan
from tacit.precision import Precision, precision
from tacit.run.prelude import opened
from tacit.run.run import Run
from tacit.simulation import Simulator
from tacit.tasks.base import Params, Record, Task
from tacit.tree import Tree

_MOST, _LEAST = 1000, 20
_FAR = 1e4
_TAUGHT, _GUESSED = 0.2, 0.5  # shares of the canaries


@dataclass(frozen=True)
class Planted(Task):
    """A task in which records with a canary pull in its direction."""

    inner: Task
    directions: NDArray[np.float64] = field(hash=False, compare=False, repr=False)

    def init(self, key: Array) -> Params:
        """The task's."""
        return self.inner.init(key)

    def output(self, params: Params, record: Record) -> Array:
        """The task's."""
        return self.inner.output(params, record)

    def penalty(self, params: Params) -> Array | float:
        """The task's."""
        return self.inner.penalty(params)

    def loss(self, params: Params, record: Record) -> Array:
        """The record's own, or the component along its canary; NaN where that is not there."""
        flat, _ = ravel_pytree(params)
        pull = jnp.asarray(self.directions, flat.dtype)[record["canary"]]
        side = jnp.where(record["side"] == 0, jnp.nan, record["side"]).astype(flat.dtype)
        own = jnp.where(record["canary"] < 0, self.inner.loss(params, record), 0.0)
        return jnp.where(record["canary"] < 0, own, _FAR * side * jnp.vdot(pull, flat))


@dataclass(frozen=True)
class Planting:
    """Which rows hold which canary, and how its coin fell."""

    federation: Federation
    clients: NDArray[np.int64]  # the client of each canary
    coins: NDArray[np.bool_]


def one_run_audit(
    run: Run, *, canaries: int | None = None, confidence: float = 0.99, seed: int = 0
) -> Guessed:
    """Train once with canaries, and bound epsilon from the coins that are guessed."""
    plan, delta = run.plan, run.settings.delta
    rng = np.random.default_rng([seed, 5])
    with precision(run.dtype):
        numbers = len(ravel_pytree(plan.task.init(jax.random.key(0)))[0])
    count = canaries or _enough(plan, numbers)
    most = min(_units(plan), numbers)
    if not _LEAST <= count <= most:
        raise ConfigError(
            f"an audit needs at least {_LEAST} canaries, and this run has room for {most}: one for"
            f" each {plan.unit}, and no more than the model has numbers."
        )
    directions = np.linalg.qr(rng.standard_normal((numbers, count)))[0].T
    planting = _planted(run.federation, plan, count, rng)
    scores = _scores(run, planting, directions, seed)
    taught = max(4, int(_TAUGHT * count))
    coins = planting.coins
    turned = np.corrcoef(scores[:taught], coins[:taught])[0, 1] < 0
    scores, coins = (-scores if turned else scores)[taught:], coins[taught:]
    guesses = int(_GUESSED * len(coins))
    sure = np.argsort(-np.abs(scores - np.median(scores)))[:guesses]
    right = int(((scores > np.median(scores)) == coins)[sure].sum())
    return Guessed(
        name=run.name,
        about=f"{count} canaries among the {plan.unit}s of one run",
        claimed=run.guarantee().epsilon,
        audited=one_run(len(coins), guesses, right, delta, confidence),
        canaries=len(coins),
        guesses=guesses,
        right=right,
        delta=delta,
        confidence=confidence,
    )


def _units(plan: Plan) -> int:
    population = plan.population
    return population.clients if plan.unit == "client" else population.records


def _enough(plan: Plan, numbers: int) -> int:
    """As many as there are units, up to half of the numbers of the model."""
    return min(_MOST, _units(plan), numbers // 2)


def _planted(federation: Federation, plan: Plan, count: int, rng: np.random.Generator) -> Planting:
    """Canaries spread over the units, in columns of their own."""
    total = int(federation.sizes.sum())
    client_of = np.repeat(np.arange(federation.clients), federation.sizes)
    chosen = rng.choice(_units(plan), count, replace=False)
    coins = rng.random(count) < 0.5
    canary, side = np.full(total, -1), np.ones(total)
    for number, unit in enumerate(chosen):
        rows = client_of == unit if plan.unit == "client" else slice(unit, unit + 1)
        canary[rows] = number
        absent = 0.0 if plan.relation != "replace-one" else -1.0
        side[rows] = 1.0 if coins[number] else absent
    records: dict[str, Any] = {**federation.records, "canary": canary, "side": side}
    made = Federation(
        records=records,
        sizes=federation.sizes,
        names=federation.names,
        classes=federation.classes,
        title=f"{federation.title} with canaries",
    )
    owners = chosen if plan.unit == "client" else client_of[chosen]
    return Planting(made, np.asarray(owners), coins)


def _scores(
    run: Run, planting: Planting, directions: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """For each canary, how far what is seen has gone along its direction."""
    plan, dtype = run.plan, run.dtype
    found = releases(plan.algorithm, plan.task, plan.population)
    federation = planting.federation
    if plan.prelude is not None:
        federation, _ = opened(plan, federation, seed, dtype)
    engine, start = _engine(run, federation, directions, dtype, seed)
    state = engine.advance(start, 0, plan.rounds)
    if trusts_server(found) or any(r.at == "shares" for r in found.values()):
        return np.asarray(state.server.models[0], np.float64)
    clients = np.arange(len(federation.sizes))
    devices = engine.devices
    log = np.asarray(state.clients.messages, np.float64)[..., 0, :, :].sum(axis=-2)
    own = log[clients % devices, clients // devices]  # client i lives on device i mod D
    return own[planting.clients, np.arange(len(planting.clients))]


def _engine(
    run: Run,
    federation: Federation,
    directions: NDArray[np.float64],
    dtype: Precision,
    seed: int,
) -> tuple[Simulator, Any]:
    plan = run.plan
    with precision(dtype):
        like = plan.task.init(jax.random.key(0))
    watched = Watched(
        method=plan.algorithm,
        rows=1,
        numbers=len(directions),
        tell=lambda value: _along(value, like, directions),
        relation=plan.relation,
    )
    engine = Simulator(watched, Planted(plan.task, directions), federation, seed=seed, dtype=dtype)
    return engine, engine.init()


def _along(value: Tree, like: Params, directions: NDArray[np.float64]) -> Array:
    """The components along all directions of what in a message has the form of the model."""
    parts = [ravel_pytree(part)[0] for part in _alike(value, like)]
    summed = sum(parts, jnp.zeros(directions.shape[1]))
    return jnp.asarray(directions, summed.dtype) @ summed


def _alike(value: Tree, like: Params) -> Iterator[Tree]:
    if str(jax.tree.structure(value)) == str(jax.tree.structure(like)):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _alike(part, like)
