"""Black-box audits of each mechanism, against the event that it declares.

Every entry draws outputs of the real code for two neighbouring inputs that are as far apart as the
bound allows, and scores them by how likely the second one is. What is claimed is the event of the
same release. The sampled and joint entries audit a whole release over a small population.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit import local, random_numbers
from tacit.accounting import DpEvent, Relation
from tacit.accounting.events import Everyone, FixedSize, Poisson, joint_event
from tacit.algorithm import ClientData, Moment, Phase
from tacit.audit.estimators import Scores
from tacit.audit.verdict import Observed, Verdict, verdict
from tacit.boundary import enter_server, leave_client
from tacit.bounds import Clip, ClipScalar
from tacit.errors import ConfigError
from tacit.mechanisms import Gaussian, Laplace, Mechanism, PrivUnit, PrivUnitG
from tacit.mechanisms.rounded import released
from tacit.mechanisms.shares import Summands, grids
from tacit.population import Population
from tacit.release import At, Release
from tacit.sampling import Cohort, FixedBatch, FullCohort, PoissonCohort
from tacit.validation import nearest

RADIUS = 0.7
Draw = Callable[[jax.Array, int, bool], Scores]  # key, draws, is it the second input?


@dataclass(frozen=True)
class Subject:
    """What is audited: its draws, and the event that is charged for one of them."""

    about: str
    draw: Draw
    event: DpEvent
    relation: Relation


def audit(
    name: str, *, draws: int = 200_000, delta: float = 1e-5, confidence: float = 0.99, seed: int = 0
) -> Verdict:
    """Attack one mechanism."""
    if name not in SUBJECTS:
        raise ConfigError(f"there is no mechanism {name!r}{nearest(name, SUBJECTS)}")
    subject = SUBJECTS[name]()
    return judged(name, subject, draws=draws, delta=delta, confidence=confidence, seed=seed)


def judged(
    name: str, subject: Subject, *, draws: int, delta: float, confidence: float, seed: int
) -> Verdict:
    """Draw both inputs, and compare the bound with what is claimed."""
    with jax.enable_x64(True):
        keys = random_numbers.split(jax.random.key(seed))
        first, second = (subject.draw(key, draws, bool(i)) for i, key in enumerate(keys))
    scores = Observed(first, second)
    return verdict(name, subject.about, scores, subject.event, subject.relation, delta, confidence)


def _many(one: Callable[[jax.Array], Any], key: jax.Array, count: int) -> Scores:
    """So many independent draws."""
    drawn = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=4096))
    return np.asarray(drawn(jax.random.split(key, count)), np.float64)


def _release(mechanism: Mechanism, relation: Relation = "zero-out") -> tuple[Release, DpEvent]:
    at = "message" if relation == "replace-one" else "aggregate"
    release = Release(bound=Clip(RADIUS), mechanism=mechanism, at=at)  # type: ignore[arg-type]
    return release, release.event(0, relation=relation, cohort=Everyone(), records=1)


def _scalar(mechanism: Mechanism) -> Subject:
    release, event = _release(mechanism)

    def draw(key: jax.Array, count: int, second: bool) -> Scores:
        value = jnp.asarray(RADIUS if second else 0.0)
        return _many(lambda k: release.noised(k, value, 0), key, count)

    return Subject("one number, 0 against the bound", draw, event, "zero-out")


def _vector(dimension: int = 300) -> Subject:
    release, event = _release(Gaussian(1.0), "replace-one")

    def draw(key: jax.Array, count: int, second: bool) -> Scores:
        unit = jnp.ones(dimension) / math.sqrt(dimension)
        value = release.bound((1e6 if second else -1e6) * unit)

        def one(k: jax.Array) -> jax.Array:
            return jnp.vdot(unit, release.noised(k, value, 0))

        return _many(one, key, count)

    return Subject(f"{dimension} numbers, opposite ends of the ball", draw, event, "replace-one")


def _rounded() -> Subject:
    _, event = _release(Gaussian(0.8))

    def draw(key: jax.Array, count: int, second: bool) -> Scores:
        del key  # from the operating system
        return released(np.full((1, count), RADIUS if second else 0.0), 0.8, RADIUS)

    return Subject("rounded Gaussian of deployments", draw, event, "zero-out")


def _shares(clients: int = 5, carriers: int = 3) -> Subject:
    _, event = _release(Gaussian(0.8))

    def draw(key: jax.Array, count: int, second: bool) -> Scores:
        del key  # from the operating system
        asked = Summands(
            numbers=count,
            radius=RADIUS,
            reach=clients * RADIUS,
            level=0.8,
            clients=clients,
            carriers=carriers,
        )
        grid = grids({"x": asked})["x"]
        # What colluders leave: the shares of the honest who are certainly there.
        value = np.full(count, RADIUS if second else 0.0)
        total = grid.share(value) + sum(grid.share(np.zeros(count)) for _ in range(carriers - 1))
        return grid.value(total)

    return Subject("honest shares of a secure sum", draw, event, "zero-out")


def _direction(mechanism: Mechanism, dimension: int = 8) -> Subject:
    release, event = _release(mechanism, "replace-one")

    def draw(key: jax.Array, count: int, second: bool) -> Scores:
        unit = jnp.zeros(dimension).at[0].set(1.0)
        value = RADIUS * unit * (1 if second else -1)

        def one(k: jax.Array) -> jax.Array:
            noisy = mechanism.vector(release.noised(k, value, 0))
            return jnp.vdot(unit, noisy)

        return _many(one, key, count)

    return Subject(f"{dimension} numbers, opposite directions", draw, event, "replace-one")


def _poisson(clients: int = 4, rate: float = 0.3) -> Subject:
    release = Release(bound=Clip(RADIUS), mechanism=Gaussian(0.6), at="aggregate")
    event = release.event(0, relation="zero-out", cohort=Poisson(rate=rate), records=1)
    return _through_doors(release, event, "zero-out", PoissonCohort(rate), clients)


def _through_doors(
    release: Release, event: DpEvent, relation: Relation, cohort: Cohort, clients: int
) -> Subject:
    """A whole exchange: out of every client, summed over the cohort, into the server."""
    phase = Phase(
        name="audit",
        client=lambda *given: ({}, given[1]),
        server=lambda state, _: state,
        releases={"x": release},
    )
    population = Population((1,) * clients)

    def draw(key: jax.Array, count: int, second: bool) -> Scores:
        here = 1e9 if second else (-1e9 if relation == "replace-one" else 0.0)

        def one(k: jax.Array) -> jax.Array:
            keys = random_numbers.split(k, clients + 2)
            mask = cohort.mask(keys[-1], clients)
            total = jnp.zeros(())
            for client in range(clients):
                value = jnp.asarray(here if client == 0 else 0.0)
                sent, _ = leave_client(phase, keys[client], {"x": value}, 0)
                total = total + jnp.where(mask[client], sent["x"], 0.0)
            expected = cohort.expected(clients)
            return enter_server(phase, keys[-2], {"x": total}, 0, expected, population)["x"]

        return _many(one, key, count)

    many = "one client" if clients == 1 else f"{clients} clients"
    return Subject(f"both doors, {many}, {release.at}", draw, event, relation)


def _doors(at: At, relation: Relation) -> Subject:
    release = Release(bound=Clip(RADIUS), mechanism=Gaussian(1.0), at=at)
    event = release.event(0, relation=relation, cohort=Everyone(), records=1)
    return _through_doors(release, event, relation, FullCohort(), 1)


def _fixed(records: int = 5, batch: int = 2) -> Subject:
    sampling = FixedBatch(batch)
    release = Release(
        bound=Clip(RADIUS), mechanism=Gaussian(1.2), at="step", unit="record", batch=sampling
    )
    event = release.event(0, relation="replace-one", cohort=Everyone(), records=records)
    assert isinstance(sampling.scheme(records), FixedSize)

    def draw(key: jax.Array, count: int, second: bool) -> Scores:
        values = jnp.zeros(records).at[0].set(1e9 if second else -1e9)
        data = ClientData({"x": values}, jnp.asarray(records))

        def one(k: jax.Array) -> jax.Array:
            moment = Moment(jnp.zeros((), jnp.int32), k)
            summed = local.record_sum(release, moment, data, jnp.zeros(()), lambda r: r["x"])
            return summed.value

        return _many(one, key, count)

    return Subject(f"batches of {batch} of {records} records", draw, event, "replace-one")


def _joint() -> Subject:
    """The vector and its squared norm as one release, at the worst pair of norms."""
    noise, scalar = 1.0, 0.5
    event = joint_event(vector_noise=noise, scalar_noise=scalar, relation="zero-out")
    vector = Release(bound=Clip(RADIUS), mechanism=Gaussian(noise), at="aggregate")
    norm = Release(bound=ClipScalar(RADIUS**2), mechanism=Gaussian(scalar), at="aggregate")

    def draw(key: jax.Array, count: int, second: bool) -> Scores:
        size = RADIUS if second else 0.0

        def one(k: jax.Array) -> jax.Array:
            keys = random_numbers.split(k)
            v = vector.noised(keys[0], jnp.asarray(size), 0)
            s = norm.noised(keys[1], jnp.asarray(size**2), 0)
            return v / RADIUS / noise**2 + s / RADIUS**2 / scalar**2  # the likelihood ratio

        return _many(one, key, count)

    return Subject("a value with its squared norm", draw, event, "zero-out")


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "gaussian": lambda: _scalar(Gaussian(0.8)),
    "gaussian-vector": _vector,
    "rounded-gaussian": _rounded,
    "laplace": lambda: _scalar(Laplace(1.0)),
    "privunit": lambda: _direction(PrivUnit(1.0, 1.0, 1.0)),
    "privunitg": lambda: _direction(PrivUnitG(2.0)),
    "doors-message": lambda: _doors("message", "replace-one"),
    "doors-aggregate": lambda: _doors("aggregate", "zero-out"),
    "poisson-gaussian": _poisson,
    "fixed-size-gaussian": _fixed,
    "joint": _joint,
    "shares": _shares,
}
