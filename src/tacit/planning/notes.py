"""Sentences about a plan: what its noise is, and what it keeps but will not do as meant.

They are beside the algorithms' mathematics, by class; a method without any needs no line here.
"""

from __future__ import annotations

import math
from functools import singledispatch

from tacit.accounting import Everyone, epsilon_of, rounded_up
from tacit.algorithm import Algorithm
from tacit.algorithms.adaptdp_fedavg import AdaptDPFedAvg
from tacit.algorithms.auto import Auto
from tacit.algorithms.auto_local import AutoLocal
from tacit.algorithms.fedexp import DPFedEXP
from tacit.mechanisms import NoNoise, PrivUnit, PrivUnitG
from tacit.population import Population
from tacit.preludes.column_moments import PrivateMoments
from tacit.release import Release

_NOTHING_TO_ADAPT = 0.7  # of the cap
_TOO_NOISY = 0.25  # of half the public range


@singledispatch
def notes(algorithm: Algorithm, population: Population, delta: float) -> list[str]:
    """Sentences about the noise of a plan, where its one number does not say enough."""
    del algorithm, population, delta
    return []


@singledispatch
def warnings(algorithm: Algorithm, population: Population) -> list[str]:
    """Sentences about a plan that keeps its budget but will not do what it is meant to."""
    del algorithm, population
    return []


def about_shares(release: Release, clients: int) -> list[str]:
    """A sentence about the noise of a secure sum, which is more than what is charged."""
    if release.at != "shares":
        return []
    trust = release.trust
    honest, carriers = trust.honest_of(clients), trust.carriers(clients)
    return [
        f"Secure sum: each of the {clients} clients adds a share of the noise, such that {carriers}"
        f" shares carry what is charged ({honest} honest clients, of which {trust.dropouts} may be"
        f" missing). With all of them the noise is {release.excess(clients):.3g} times that of a"
        " trusted server."
    ]


def radius_floor(algorithm: AdaptDPFedAvg, population: Population) -> float:
    """The least radius that noise leaves, over the cap: near 1 nothing adapts any more."""
    relative = 2 * algorithm.tau * algorithm.lift(population) / algorithm.max_radius**2
    return min(1.0, math.sqrt(relative))


@notes.register
def _(algorithm: AdaptDPFedAvg, population: Population, delta: float) -> list[str]:
    del delta
    if not algorithm.noise or not algorithm.radius_noise:
        return []
    return [
        f"Noise: standard deviation {algorithm.noise:.5g} times the radius on each sum of"
        f" gradients, {algorithm.radius_noise:.5g} times the squared cap on the sum of squared"
        f" norms; noise alone keeps the radius above {radius_floor(algorithm, population):.0%} of"
        " its cap."
    ]


@warnings.register
def _(algorithm: AdaptDPFedAvg, population: Population) -> list[str]:
    floor = radius_floor(algorithm, population)
    if floor < _NOTHING_TO_ADAPT:
        return []
    return [
        f"the noise on the scalars alone keeps the radius above {floor:.0%} of its cap, so it"
        " hardly adapts: give it a larger share, take fewer rounds, or use dp-fedavg-record."
    ]


@notes.register
def _(algorithm: DPFedEXP, population: Population, delta: float) -> list[str]:
    del population
    release = algorithm.release
    if release.at != "message" or isinstance(release.mechanism, NoNoise):
        return []
    event = release.event(0, relation=algorithm.relation, cohort=Everyone(), records=1)
    once = rounded_up(epsilon_of(event, delta=delta, relation=algorithm.relation))
    what = f"Gaussian noise of standard deviation {algorithm.noise:.5g} times the bound"
    if isinstance(release.mechanism, PrivUnit):
        unit = release.mechanism
        what = f"PrivUnit with {unit.eps0:.4g} + {unit.eps1:.4g} and ScalarDP with {unit.eps2:.4g}"
    return [
        f"Noise: {what} on every message. One round alone has epsilon = {once}, which is the"
        " number of the paper; the guarantee covers all rounds."
    ]


@notes.register
def _(algorithm: Auto, population: Population, delta: float) -> list[str]:
    del population, delta
    if not algorithm.noise:
        return []
    summed = "clients" if algorithm.protects == "client" else "each silo's records"
    if algorithm.release.by_record:
        summed = "all records"
    return [
        f"Noise: standard deviation {algorithm.noise:.5g} on the sum over {summed} of gradients of"
        f" norm 1; the rounds and the step of {algorithm.lr:.4g} follow from it."
    ]


@notes.register
def _(algorithm: AutoLocal, population: Population, delta: float) -> list[str]:
    del delta
    mechanism = algorithm.release.mechanism
    if isinstance(mechanism, NoNoise):
        return []
    what = f"Gaussian noise of standard deviation {algorithm.noise:.5g} times the bound"
    if isinstance(mechanism, PrivUnitG):
        what = f"PrivUnitG with epsilon {mechanism.epsilon:.5g}"
    group = algorithm.cohort.expected(population.clients)
    often = "once" if algorithm.times == 1 else f"{algorithm.times} times"
    return [
        f"Noise: {what} on every message. Every client speaks {often}, about {group:.4g}"
        " clients a round, and is charged for its own messages alone."
    ]


@warnings.register
def _(algorithm: PrivateMoments, population: Population) -> list[str]:
    spread = algorithm.spread(population)
    if spread < _TOO_NOISY:
        return []
    return [
        f"the noise on the released means is {spread:.2g} of half a column's public range, so"
        " they say little: raise privacy.scaling_share, or leave scaling = 'release' out."
    ]
