"""Advice before anything is spent: each method's noise at a budget, from public sizes alone.

For every method that fits the trust model the least noise is calibrated, and set against the
largest signal that its bound lets through: the noise-to-signal ratio of one round is

    standard deviation of the noise on the mean message * sqrt(dimension) / bound.

Above 1 a single round is mostly noise; averaging over rounds, momentum and small steps can still
learn, but a ratio of 10 and more says that this budget cannot teach this model with so few clients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tacit import algorithm
from tacit.accounting import Budget, Guarantee
from tacit.algorithm import Algorithm, releases, trusts_server
from tacit.algorithms import registry
from tacit.algorithms.adaptdp_fedavg import AdaptDPFedAvg
from tacit.algorithms.auto import Auto
from tacit.algorithms.auto_base import OneGradient
from tacit.algorithms.auto_local import AutoLocal
from tacit.algorithms.dp_fedavg_record import RecordDPFedAvg
from tacit.algorithms.dynamic_ldp import DynamicLDP
from tacit.algorithms.fedavg import DPFedAvg
from tacit.algorithms.fedexp import DPFedEXP
from tacit.algorithms.isrl_dp import ISRLDP
from tacit.algorithms.norm_fedavg import DPNormFedAvg
from tacit.algorithms.scaffnew import DPScaffNew
from tacit.algorithms.scaffold import DPScaffold
from tacit.algorithms.scaffold_client import ClientDPScaffold
from tacit.errors import TacitError
from tacit.mechanisms import PrivUnitG
from tacit.planning.plan import Plan, calibrate
from tacit.planning.rounds import rounds_for
from tacit.population import Population
from tacit.release import Release
from tacit.sampling import Cohort
from tacit.tasks.base import Task

Trust = Literal["central", "shares", "local"]
_HOPELESS = 10.0


@dataclass(frozen=True)
class Problem:
    """The public shape of a problem: sizes, the model, and (mu, L) if they are known."""

    population: Population
    task: Task
    dimension: int
    rounds: int
    strong_convexity: float = 0.0
    smoothness: float = 1.0


@dataclass(frozen=True)
class Candidate:
    """One method at the budget: its noise, its ratio of noise to signal, or why it cannot run."""

    name: str
    protects: str
    rounds: int
    noise: float
    noise_to_signal: float
    guarantee: Guarantee | None
    algorithm: Algorithm | None
    why_not: str | None = None

    @property
    def over_run(self) -> float:
        """Noise to signal of the mean over all rounds: what averaging can bring it to."""
        return self.noise_to_signal / math.sqrt(self.rounds)

    @property
    def verdict(self) -> str:
        """A word on what the ratio means."""
        if self.why_not is not None:
            return "not possible"
        if self.noise_to_signal > _HOPELESS:
            return "mostly noise"
        return "hard" if self.noise_to_signal > 1 else "good"


def advise(problem: Problem, budget: Budget, trust: Trust) -> list[Candidate]:
    """The methods of a trust model at the budget: auto, then least noise to signal first."""
    found = [
        _candidate(name, make, problem, budget) for name, make in _methods(problem, trust).items()
    ]

    def place(candidate: Candidate) -> tuple[bool, bool, float]:
        tuned = not isinstance(candidate.algorithm, OneGradient)
        return candidate.why_not is not None, tuned, candidate.noise_to_signal

    return sorted(found, key=place)


def honest_word(candidates: list[Candidate]) -> str | None:
    """Said when no method is left that could learn."""
    ratios = [c.noise_to_signal for c in candidates if c.why_not is None]
    if ratios and min(ratios) <= _HOPELESS:
        return None
    return (
        "This budget cannot teach this model with so few clients or records: even in the best case"
        " a round is more than ten parts noise to one part signal. Use a smaller model or public"
        " features, more clients, fewer rounds, a secure sum, or a larger budget."
    )


def _methods(problem: Problem, trust: Trust) -> dict[str, Callable[[], Algorithm]]:
    convexity, smooth = problem.strong_convexity, problem.smoothness
    lr = min(1.0, 1 / smooth)
    central: dict[str, Callable[[], Algorithm]] = {
        "auto": Auto,
        "dp-fedavg": lambda: DPFedAvg(local_steps=5, local_lr=lr),
        "dp-norm-fedavg": lambda: DPNormFedAvg(local_steps=5, local_lr=lr),
        "dp-fedexp": lambda: DPFedEXP(trust="central", local_steps=5, local_lr=lr),
    }
    steps = max(1, round(math.sqrt(smooth / convexity))) if convexity else 5
    local: dict[str, Callable[[], Algorithm]] = {
        "auto-local": AutoLocal,
        "dp-fedavg (local)": lambda: DPFedAvg(local_steps=5, local_lr=lr, noise_at="message"),
        "dp-fedexp (local)": lambda: DPFedEXP(trust="local", local_steps=5, local_lr=lr),
        "dp-scaffnew": lambda: DPScaffNew(lr=lr, local_steps=steps),
        "dp-fedavg-record": lambda: RecordDPFedAvg(local_steps=5, local_lr=lr),
        "adaptdp-fedavg": lambda: AdaptDPFedAvg(local_steps=5, local_lr=lr),
        "dp-scaffold": lambda: DPScaffold(local_steps=5, local_lr=lr),
        "isrl-dp": lambda: ISRLDP(smoothness=smooth, strong_convexity=convexity),
        "dynamic-ldp": lambda: DynamicLDP(
            strong_convexity=convexity, allocation="dynamic" if convexity else "static"
        ),
    }
    for name in registry.names():  # a method that has no line above is tried as it is
        if not any(label.split(" ")[0] == name for label in (*central, *local)):
            (central if _is_central(name, problem) else local)[name] = registry.find(name)
    del central["fedavg"]  # no privacy
    shares: dict[str, Callable[[], Algorithm]] = {
        "auto": lambda: Auto(noise_at="shares"),
        "auto (record)": lambda: Auto(protects="record", noise_at="shares"),
        "dp-fedavg": lambda: DPFedAvg(local_steps=5, local_lr=lr, noise_at="shares"),
        "dp-norm-fedavg": lambda: DPNormFedAvg(local_steps=5, local_lr=lr, noise_at="shares"),
        "dp-fedexp": lambda: DPFedEXP(trust="shares", local_steps=5, local_lr=lr),
        "dp-scaffold": lambda: ClientDPScaffold(noise_at="shares", local_steps=5, local_lr=lr),
    }
    return {"central": central, "shares": shares, "local": local}[trust]


def _is_central(name: str, problem: Problem) -> bool:
    made = registry.find(name)()
    planned = made.planned(algorithm.Problem(problem.task, problem.population, problem.rounds))
    return trusts_server(releases(planned, problem.task, problem.population))


def _candidate(
    name: str, make: Callable[[], Algorithm], problem: Problem, budget: Budget
) -> Candidate:
    try:
        plan = calibrate(_plan(make(), problem, budget), budget)
    except TacitError as error:
        return Candidate(name, "-", problem.rounds, math.inf, math.inf, None, None, str(error))
    release: Release = plan.algorithm.release  # type: ignore[attr-defined]
    noise = _last_level(release)
    return Candidate(
        name=name,
        protects=plan.unit,
        rounds=plan.rounds,
        noise=noise,
        noise_to_signal=_ratio(release, noise, problem, plan.algorithm.cohort),
        guarantee=plan.guarantee(budget.delta),
        algorithm=plan.algorithm,
    )


def _plan(algorithm: Algorithm, problem: Problem, budget: Budget) -> Plan:
    rounds = problem.rounds
    if isinstance(algorithm, OneGradient):
        rounds = rounds_for(algorithm, problem.task, problem.population, budget)
    return Plan.of(algorithm, problem.task, problem.population, rounds)


def _last_level(release: Release) -> float:
    if isinstance(release.mechanism, PrivUnitG):
        return release.mechanism.deviation
    noise = getattr(release.mechanism, "noise", 0.0)
    return float(noise[-1] if isinstance(noise, tuple) else noise)


def _ratio(release: Release, noise: float, problem: Problem, cohort: Cohort) -> float:
    root = math.sqrt(problem.dimension)
    clients = cohort.expected(problem.population.clients)
    if release.summed:
        units = problem.population.records if release.by_record else clients
        return noise * root * release.excess(problem.population.clients) / units
    if release.at == "message":
        return noise * root / math.sqrt(clients)
    batch = float(release.batch.expected(problem.population.smallest))
    return noise * root / (batch * math.sqrt(clients))
